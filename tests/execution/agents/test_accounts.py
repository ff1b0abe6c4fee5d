"""Accounts that jobs name: those that an agent allows run their commands, and no others."""

import os
import pwd
from pathlib import Path

import pytest

from apps.execution.backends.agent.accounts import Accounts
from apps.execution.models import ServerAgent
from apps.execution.selectors.agents import output
from controlplane.cli.errors import Exit
from controlplane.cli.main import main
from tests.execution.agents.conftest import Site

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to run commands as others")


@pytest.mark.agent
@as_root
def test_a_command_runs_as_the_account_that_its_job_names(
    open_directory: Path, site: Site
) -> None:
    site.directory = open_directory
    machine = site.machine("box-1", is_started=False)
    machine.start("--allow-users", "daemon,nobody")
    assert ServerAgent.objects.get().facts["users"] == ["daemon", "nobody"]
    text = "id -un; echo $USER; touch mine; stat -c %U mine .; cat /proc/self/status"
    job = site.done(site.submit("sh", "-c", text, user="nobody"))
    assert (job.state, job.reason_message) == ("succeeded", "")
    lines = output(job, "stdout", start=0, limit=10_000).text.splitlines()
    assert lines[:4] == ["nobody"] * 4
    uid = pwd.getpwnam("nobody").pw_uid
    assert f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}" in lines
    assert "NoNewPrivs:\t1" in lines
    usual = site.done(site.submit("id", "-un"))
    assert output(usual, "stdout", start=0, limit=100).text == "root\n"


@pytest.mark.agent
def test_a_job_that_names_another_account_fails_and_says_why(site: Site) -> None:
    machine = site.machine("box-1")
    job = site.done(site.submit("true", user="nobody"))
    assert (job.state, job.exit_code) == ("failed", 127)
    assert job.reason_message == (
        "no job may run as nobody on this server; accounts that jobs may name: none"
    )
    assert not machine.file(job, "started.json").exists()
    assert site.done(site.submit("true")).state == "succeeded"


@pytest.mark.parametrize(
    ("name", "uid", "reason"),
    [
        ("", 0, ""),
        ("usual", 0, ""),
        ("nobody", 0, ""),
        ("nobody", 1000, "the agent does not run as root, so it cannot run commands as nobody"),
        ("root", 0, "no command of a job runs as root, which root is"),
        ("no-such-account", 0, "this server has no account no-such-account"),
        ("daemon", 0, "no job may run as daemon on this server; accounts that jobs may name: "
                      "nobody, root, no-such-account"),
    ],
    ids=["none", "usual", "allowed", "not root", "root", "unknown", "not allowed"],
)  # fmt: skip
def test_an_account_is_refused_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, name: str, uid: int, reason: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    allowed = Accounts("usual", ("nobody", "root", "no-such-account"))
    assert allowed.refusal(name) == reason


@pytest.mark.parametrize("name", ["root", "no-such-account"])
def test_an_agent_that_would_allow_such_an_account_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    arguments = ["agent", "--server", "box-1", "--user", "nobody", "--state", str(tmp_path)]
    assert main([*arguments, "--allow-users", name]) == Exit.USAGE
    assert f"--allow-users {name}: " in capsys.readouterr().err
