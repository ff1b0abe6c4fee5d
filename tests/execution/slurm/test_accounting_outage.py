"""An accounting that does not answer: the ends of jobs wait for it."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from apps.execution.backends.slurm import holder
from apps.execution.backends.slurm.commands import Slurm
from apps.execution.backends.slurm.holder import SlurmBackend
from apps.execution.core.slurm.values import SlurmJob, SlurmNode
from tests import factories
from tests.execution.slurm.test_imports import NODES, imported

DISABLED = "echo Slurm accounting storage is disabled >&2; exit 1"
REFUSED = "echo sacct: error: Problem talking to the database: Connection refused >&2; exit 1"


@pytest.mark.parametrize(
    ("script", "found"),
    [(DISABLED, {}), (REFUSED, None), ("sleep 30", None), ("exit 0", {})],
    ids=["none", "refused", "late", "nothing"],
)
def test_no_accounting_is_told_from_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, found: object
) -> None:
    monkeypatch.setattr("apps.execution.backends.slurm.commands.TIMEOUT_S", 1.0)
    (tmp_path / "sacct").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "sacct").chmod(0o755)
    assert Slurm(path=f"{tmp_path}:/usr/bin:/bin").ended([7]) == found


@dataclass
class FakeSlurm:
    """A controller that has forgotten its jobs.

    Attributes
    ----------
    accounts : what the accounting answers; None = it does not
    """

    accounts: dict[int, SlurmJob] | None = None
    asked: list[list[int]] = field(default_factory=list)

    def jobs(self) -> list[SlurmJob]:
        return []

    def nodes(self) -> list[SlurmNode]:
        return NODES

    def ended(self, jobs: Iterable[int]) -> dict[int, SlurmJob] | None:
        self.asked.append(list(jobs))
        return self.accounts

    def edit(self, _: object) -> Mapping[int, str]:
        return {}

    def cancel(self, _: object) -> None:
        return None

    def usage(self, _: object) -> Mapping[int, object]:
        return {}


@pytest.mark.django_db
def test_a_job_that_slurm_has_forgotten_waits_for_the_accounting() -> None:
    factories.cluster()
    factories.project("default")
    job = imported("default")
    slurm = FakeSlurm()
    backend = SlurmBackend(slurm, "test")  # type: ignore[arg-type]
    backend.hold()
    for _ in range(2):
        backend.tick(time.monotonic())
        time.sleep(holder.ASK_S)
    job.refresh_from_db()
    assert job.state == "submitted"
    assert slurm.asked == [[7]]  # it is asked again after a while, as an answer may be slow
    backend._holder.postpone("accounting", 0.0)
    slurm.accounts = {7: SlurmJob(id=7, state="COMPLETED", exit_code=0)}
    backend.tick(time.monotonic())
    job.refresh_from_db()
    assert job.state == "succeeded"
