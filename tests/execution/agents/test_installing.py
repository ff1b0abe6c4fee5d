"""The agent as one file, and its systemd unit."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from apps.execution.selectors.agents import output
from controlplane.cli import agent_file
from controlplane.cli.agent_unit import PROGRAM, UNIT, unit_text
from controlplane.cli.main import main
from tests.execution.agents.conftest import Site, eventually

USER = "root" if os.geteuid() == 0 else ""


def run(*arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-I", "-S", *arguments],
        cwd=folder, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.agent
def test_the_single_file_runs_commands_from_an_empty_directory(site: Site, tmp_path: Path) -> None:
    file, empty = tmp_path / "berth-agent", tmp_path / "empty"
    empty.mkdir()
    built = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "controlplane.cli.agent_file", str(file)],
        cwd=agent_file.ROOT, check=False,
    )  # fmt: skip
    assert built.returncode == 0
    machine = site.machine("box-1", is_started=False)
    with (machine.state / "agent.log").open("ab") as log:
        machine.process = subprocess.Popen(  # noqa: S603 - our own program
            [
                *(sys.executable, "-I", "-S", str(file), "--server", "box-1", "--url", site.url),
                *("--state", str(machine.state), "--user", USER, "--memory", "1Gi"),
            ],
            cwd=empty, stdout=log, stderr=log, env={"PATH": os.environ["PATH"]},
        )  # fmt: skip
    eventually(lambda: "registered box-1" in machine.log(), "it registers")
    job = site.done(site.submit("sh", "-c", "echo from one file"))
    assert (job.state, job.exit_code) == ("succeeded", 0)
    assert output(job, "stdout", start=0, limit=100).data == b"from one file\n"
    assert not list(empty.iterdir())


def test_the_single_file_says_what_is_missing_and_returns_the_code_of_the_agent(
    tmp_path: Path,
) -> None:
    agent_file.build(tmp_path / "berth-agent")
    (tmp_path / "empty").mkdir()
    options = ("--server", "box-1", "--state", str(tmp_path / "state"), "--user", USER or "x")
    done = run(str(tmp_path / "berth-agent"), *options, folder=tmp_path / "empty")
    assert done.returncode != 0
    assert "this machine is not enrolled" in done.stderr


def test_the_single_file_holds_what_the_agent_imports_and_nothing_of_the_control_plane() -> None:
    names = {str(path.relative_to(agent_file.ROOT)) for path in agent_file.sources()}
    assert "apps/execution/backends/agent/supervisor.py" in names
    assert "controlplane/cli/agent.py" in names
    assert not any("services" in name or "models" in name for name in names)


@pytest.mark.parametrize("is_single_file", [False, True], ids=["checkout", "single-file"])
def test_install_writes_the_program_and_a_unit_that_runs_it(
    tmp_path: Path, is_single_file: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "image"
    options = [
        *("install", "--server", "box-1", "--url", "https://berth.example", "--user", "nobody"),
        *("--state", "/var/lib/box 1", "--memory", "2Gi", "--root", str(root)),
    ]
    if is_single_file:
        agent_file.build(tmp_path / "berth-agent")
        done = run(str(tmp_path / "berth-agent"), *options, folder=tmp_path)
        assert (done.returncode, done.stderr.count("installed")) == (0, 1), done.stderr
    else:
        assert main(["agent", *options]) == 0
        assert f"start it with systemctl enable --now {UNIT.name}" in capfd.readouterr().err
    help_text = run(str(root / PROGRAM), "--help", folder=tmp_path)
    assert (help_text.returncode, "--server NAME" in help_text.stdout) == (0, True)
    lines = dict(
        line.split("=", 1) for line in (root / UNIT).read_text().splitlines() if "=" in line
    )
    assert (lines["KillMode"], lines["RestartPreventExitStatus"]) == ("process", "5")
    assert shlex.split(lines["ExecStart"]) == [
        *(sys.executable, f"/{PROGRAM}", "--server", "box-1", "--url", "https://berth.example"),
        *("--state", "/var/lib/box 1", "--user", "nobody", "--memory", str(2 * 2**30)),
        *("--rack", "machines"),
    ]


def test_a_unit_keeps_signs_that_systemd_reads_itself() -> None:
    assert "ExecStart=/x 'a$$b' c%%d\n" in unit_text("box-1", ["/x", "a$b", "c%d"])
