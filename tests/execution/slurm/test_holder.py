"""The process that compares Slurm with Berth: many jobs, odd ones, and jobs that are refused."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import pytest

from apps.execution.backends.slurm import holder
from apps.execution.backends.slurm.commands import TIMEOUT_S, Slurm
from apps.execution.backends.slurm.holder import SlurmBackend, _Case
from apps.execution.core.slurm.edits import Change, Edit
from apps.execution.core.slurm.reconcile import Known
from apps.execution.core.slurm.usage import Usage
from apps.execution.core.slurm.values import MARK, SlurmJob
from apps.execution.models import BackendHolder
from apps.execution.models import SlurmJob as SlurmRow
from apps.execution.selectors.slurm import KnownJob
from apps.execution.services.backend_holders import HOLD_S, BackendHeldError
from apps.workloads.core.lifecycle import JobState, Suspension
from tests import factories
from tests.execution.slurm.test_accounting_outage import FakeSlurm

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
MANY = range(1_000_000, 1_020_000)  # their ids take 160 KB; Linux limits an argument to 128 KiB


def program(at: Path, name: str, script: str) -> Slurm:
    """A Slurm with one program."""
    (at / name).write_text(f"#!/bin/sh\n{script}\n")
    (at / name).chmod(0o755)
    return Slurm(path=f"{at}:/usr/bin:/bin")


# ---- the alive file ----


def test_the_alive_file_is_never_empty(tmp_path: Path) -> None:
    file, seen, has_ended = tmp_path / "alive", set[int](), Event()
    file.write_text("a longer line of another version\n")
    holder.write_alive(file)

    def read() -> None:
        while not has_ended.is_set():
            seen.add(len(file.read_text()))

    reader = Thread(target=read)
    reader.start()
    for _ in range(5000):
        holder.write_alive(file)
    has_ended.set()
    reader.join()
    assert seen == {len(f"{time.time():.0f}\n")}


# ---- programs ----


def test_the_usage_of_more_jobs_than_one_argument_holds_is_read(tmp_path: Path) -> None:
    echo = r"""printf '%s\n' "$7" | tr , '\n' | sed 's/$/.batch|00:00:01|1K|1/'"""
    found = program(tmp_path, "sstat", echo).usage(MANY)
    assert found == dict.fromkeys(MANY, Usage(1.0, 1024))


def test_the_ends_of_more_jobs_than_one_argument_holds_are_read(tmp_path: Path) -> None:
    echo = r"""printf '%s\n' "$7" | tr , '\n' | sed 's/$/|COMPLETED|n1|1|2|0:0/'"""
    found = program(tmp_path, "sacct", echo).ended(MANY)
    assert found is not None
    assert found.keys() == set(MANY)


def test_the_name_of_a_job_may_be_any_bytes(tmp_path: Path) -> None:
    row = (
        r'{"job_id": 7, "job_state": "PENDING", "name": "a\377", "user_name": "ada",'
        r' "cpus": 1, "node_count": 1, "priority": 0}'
    )
    slurm = program(tmp_path, "squeue", f"printf '{{\"jobs\": [{row}]}}'")
    assert [(job.id, job.name) for job in slurm.jobs()] == [(7, "a\N{REPLACEMENT CHARACTER}")]


def test_the_lease_is_checked_before_each_program_that_changes_jobs(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for name in ("scontrol", "scancel"):
        slurm = program(tmp_path, name, f"cat > /dev/null; echo {name} $1 >> {log}")

    def check() -> None:
        with log.open("a") as stream:
            stream.write("check\n")

    slurm.before_change = check
    slurm.edit([Edit(7, Change.PLACE, "n1")])  # one program, and another one that releases it
    slurm.edit([])
    slurm.cancel(MANY[:5001])
    quiet = "scancel --quiet"
    assert log.read_text().splitlines() == [
        *("check", "scontrol", "check", "scontrol", "check", quiet, "check", quiet),
    ]


# ---- a paused process ----

RUNNING = SlurmJob(7, "RUNNING", user="ada", nodes=("n1",))
MOVES = Known(JobState.RUNNING, node="n1", is_running=True, restarts=True)
CHANGES = {
    "requeue": (RUNNING, MOVES),
    "suspend": (RUNNING, replace(MOVES, restarts=False, suspension=Suspension.REQUESTED)),
    "cancel": (RUNNING, replace(MOVES, restarts=False, stop=True)),
}


@pytest.mark.django_db
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_taken_over", [False, True])
def test_a_process_that_was_paused_changes_no_job(
    tmp_path: Path, change: str, *, is_taken_over: bool
) -> None:
    log = tmp_path / "log"
    for name in ("scontrol", "scancel"):
        slurm = program(tmp_path, name, f"cat > /dev/null; echo {name} >> {log}")
    backend = SlurmBackend(slurm, "paused")
    backend.hold()
    job, known = CHANGES[change]
    case = _Case(job, KnownJob(7, uuid4(), None, known))
    BackendHolder.objects.update(held_until=LONG_AGO)  # paused since it has read the job
    if is_taken_over:
        SlurmBackend(Slurm(), "successor").hold()
    with pytest.raises(BackendHeldError, match="no longer runs the backend slurm"):
        backend._act({7: case})
    assert not log.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("change", CHANGES)
def test_the_process_that_runs_the_backend_changes_jobs(tmp_path: Path, change: str) -> None:
    log = tmp_path / "log"
    for name in ("scontrol", "scancel"):
        slurm = program(tmp_path, name, f"cat > /dev/null; echo {name} >> {log}")
    backend = SlurmBackend(slurm, "test")
    backend.hold()
    soon = datetime.now(UTC) + timedelta(seconds=20.0)
    BackendHolder.objects.update(held_until=soon)
    job, known = CHANGES[change]
    backend._act({7: _Case(job, KnownJob(7, uuid4(), None, known))})
    assert log.read_text().split() == ["scancel" if change == "cancel" else "scontrol"]
    # a program ends within the lease
    until = BackendHolder.objects.get().held_until
    assert until > soon + timedelta(seconds=TIMEOUT_S - 20.0)
    assert TIMEOUT_S < HOLD_S


# ---- jobs ----


@dataclass
class Queue(FakeSlurm):
    """A controller with some jobs."""

    rows: list[SlurmJob] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)

    def jobs(self) -> list[SlurmJob]:
        return self.rows

    def edit(self, edits: Any) -> Mapping[int, str]:
        self.edits += edits
        return {}


def held(number: int, user: str = "ada", **values: Any) -> SlurmJob:
    """A job that the hook holds for Berth."""
    fields = {"command": f"/home/{user}/{number}.sh", "partition": "main", **values}
    return SlurmJob(number, "PENDING", user=user, is_held=True, mark=MARK, **fields)


def ticking(slurm: Queue, times: int) -> SlurmBackend:
    """A backend after some looks at the jobs."""
    backend = SlurmBackend(slurm, "test")  # type: ignore[arg-type]
    backend.hold()
    for _ in range(times):
        backend._holder.postpone("ask", 0.0)
        backend.tick(time.monotonic())
    return backend


def imported() -> set[int]:
    return set(SlurmRow.objects.values_list("slurm_id", flat=True))


@pytest.fixture
def emulated(db: None) -> None:
    """An application that no Slurm job can have, but whose name is that of a script."""
    factories.cluster()
    factories.project("default")
    factories.application("slurm-1.sh")


@pytest.mark.usefixtures("emulated")
def test_a_refused_job_holds_back_no_other_job_of_its_user() -> None:
    ticking(Queue(rows=[held(1), held(2)]), times=1)
    assert imported() == {2}


@pytest.mark.usefixtures("emulated")
def test_refused_jobs_hold_back_no_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder, "MAX_IMPORTS", 1)
    ticking(Queue(rows=[held(1), held(2, "bob")]), times=2)
    assert imported() == {2}


@pytest.mark.usefixtures("emulated")
def test_what_was_told_of_a_job_is_forgotten_once_slurm_forgets_it() -> None:
    slurm = Queue(rows=[held(9, is_array=True)])
    backend = ticking(slurm, times=1)
    assert [edit.job for edit in slurm.edits] == [9]
    assert "job 9" in backend._holder._logged
    slurm.rows = []
    backend._holder.postpone("usage", 0.0)
    backend._holder.postpone("ask", 0.0)
    backend.tick(time.monotonic())
    assert backend._holder._logged.keys().isdisjoint({"job 9"})
