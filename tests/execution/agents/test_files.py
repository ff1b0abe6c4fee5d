"""Files of commands on real agents: unpacked before the start, given to the user, never lost."""

import os
import pwd
import tarfile
from base64 import b64decode, b64encode
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from apps.execution.backends.agent.files import give, unpack
from apps.execution.models import ServerAgent
from apps.execution.selectors.agents import output
from apps.inventory.models import Server
from apps.workloads.core.archives import ArchiveError
from apps.workloads.models import Job
from apps.workloads.services import cancel_jobs
from tests import factories
from tests.execution.agents.conftest import Site, eventually
from tests.execution.agents.test_credentials import launched, registered, sync
from tests.workloads import archives

TREE = {"main.sh": b'echo "$(cat data/in) in $PWD"', "data/in": b"hello"}
DATA = archives.tar_of(TREE)


def submitted(site: Site, *command: str) -> Job:
    return site.submit(*command, files=b64encode(DATA).decode())


@pytest.mark.agent
def test_the_files_are_there_before_the_command_starts(site: Site) -> None:
    machine = site.machine("box-1")
    job = site.done(submitted(site, "sh", "main.sh"))
    assert (job.state, job.reason_message) == ("succeeded", "")
    work = machine.file(job, "work")
    assert output(job, "stdout", start=0, limit=1000).text == f"hello in {work}\n"
    assert not list((machine.state / "unpacked").iterdir())


@pytest.mark.agent
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to run commands as another user")
def test_the_files_belong_to_the_user_of_the_command(open_directory: Path, site: Site) -> None:
    site.directory = open_directory
    machine = site.machine("box-1", is_started=False)
    machine.start("--user", "nobody")
    job = site.done(submitted(site, "sh", "-c", "rm data/in && echo new > main.sh && id -un"))
    assert (job.state, job.reason_message) == ("succeeded", "")
    assert output(job, "stdout", start=0, limit=1000).text == "nobody\n"


@pytest.mark.agent
def test_a_job_is_cancelled_while_its_files_do_not_come(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = site.machine("box-1")
    asked = []

    def away(*given: Any) -> bytes:
        asked.append(given)
        raise OSError("the disk of the control plane fails")

    monkeypatch.setattr("apps.execution.api.agent_views.archive_for", away)
    job = submitted(site, "sh", "main.sh")
    eventually(lambda: len(asked) > 1, "the agent asks again")
    job.refresh_from_db()
    assert job.state == "starting"
    assert not list((machine.state / "tasks").iterdir())
    other = site.done(site.submit("echo", "meanwhile"))
    assert other.state == "succeeded"
    cancel_jobs([job.pk])
    assert site.done(job).state == "cancelled"


@pytest.mark.agent
def test_files_other_than_those_of_the_job_are_not_unpacked(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.machine("box-1")
    forged = archives.tar_of({"main.sh": b"echo forged"})
    monkeypatch.setattr("apps.execution.api.agent_views.archive_for", lambda *_: forged)
    job = site.done(submitted(site, "sh", "main.sh"))
    assert (job.state, job.exit_code) == ("failed", 127)
    assert "the files could not be unpacked: they are not those of the job" in job.reason_message


def ask(caller: Any, launch: int) -> Any:
    return caller.post("/api/v1/agents/files/", {"epoch": 1, "launch": launch})


@pytest.mark.django_db
def test_an_agent_gets_the_files_of_its_own_orders_only() -> None:
    factories.cluster()
    mine, other = registered("box-1"), registered("box-2")
    with_files = launched(Server.objects.get(name="box-2"), files=archives.archive(TREE))
    without = launched(Server.objects.get(name="box-2"))
    assert ask(mine, with_files.pk).status_code == 404
    assert ask(other, without.pk).status_code == 404
    found = ask(other, with_files.pk)
    assert b64decode(found.json()["archive"]) == DATA
    ended = {"launch": with_files.pk, "state": "finished", "age_s": 0.0, "exit_code": 0}
    ServerAgent.objects.update(facts={"protocol": 3})
    assert sync(other, reports=[ended]).status_code == 200
    assert ask(other, with_files.pk).status_code == 404


@pytest.mark.django_db
def test_a_fenced_agent_gets_no_files() -> None:
    factories.cluster()
    caller = registered()
    launch = launched(Server.objects.get(name="box-1"), files=archives.archive(TREE))
    ServerAgent.objects.update(epoch=2)
    assert ask(caller, launch.pk).status_code == 409


@pytest.mark.django_db
def test_an_agent_that_is_too_old_for_files_gets_no_such_order() -> None:
    factories.cluster()
    caller = registered()
    launch = launched(Server.objects.get(name="box-1"), files=archives.archive(TREE))
    plain = launched(Server.objects.get(name="box-1"))
    ServerAgent.objects.update(facts={"protocol": 2})
    (order,) = sync(caller).json()["orders"]
    assert (order["launch"], "files" in order) == (plain.pk, False)
    job = Job.objects.get(pk=launch.job_id)
    assert job.state == "failed"
    assert "agent of box-1 is too old for files" in job.reason_message


def test_modes_and_links_are_unpacked(tmp_path: Path) -> None:
    raw = BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name, kind, mode in (
            ("d", tarfile.DIRTYPE, 0o555), ("d/run", tarfile.REGTYPE, 0o4755),
            ("l", tarfile.SYMTYPE, 0o777),
        ):  # fmt: skip
            info = tarfile.TarInfo(name)
            info.type, info.mode, info.linkname = kind, mode, "d/run"
            tar.addfile(info)
    unpack(raw.getvalue(), tmp_path)
    assert (tmp_path / "l").resolve() == tmp_path / "d/run"
    assert (tmp_path / "d/run").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o755


def test_nothing_is_written_of_an_archive_that_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError):
        unpack(archives.tar_of({"a": b"", "../b": b""}), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_what_a_link_leads_to_is_not_given_away(tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    kept = tmp_path / "kept"
    kept.touch()
    work = tmp_path / "work"
    work.mkdir()
    (work / "link").symlink_to(kept)
    give(work, nobody.pw_uid, nobody.pw_gid)
    assert kept.stat().st_uid == 0
    assert {path.lstat().st_uid for path in (work, work / "link")} == {nobody.pw_uid}
