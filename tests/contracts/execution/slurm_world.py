"""The backend of Slurm for its contract: a real Slurm of six nodes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pytest

from apps.execution.backends.slurm.commands import Slurm
from apps.execution.core.slurm.edits import Change, Edit
from apps.execution.core.slurm.values import Phase, SlurmJob
from apps.execution.models import SlurmJob as SlurmRow
from apps.workloads.models import Job
from tests.contracts.execution.worlds import BackendWorld, server_of
from tests.execution.slurm.conftest import World

_CONSTRAINT: Final = "--constraint=avx2"  # n3 and n4, which are alike


class SlurmWorld(BackendWorld):
    """The nodes n3 and n4 of a Slurm that the tests of this session share."""

    name = "slurm"

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self._world, self._monkeypatch = world, monkeypatch
        self._finish: dict[int, Callable[[], None]] = {}

    def begin(self) -> Job:
        gate = self._world.slurm.gate()
        slurm_id = self._world.submit(gate.script, _CONSTRAINT)
        self._finish[slurm_id] = gate.open
        return self._world.until_state(slurm_id, "running")

    def finish(self, job: Job) -> None:
        self._finish[self._id(job)]()
        self._world.slurm.until(lambda: self._job(job).phase is Phase.ENDED, "it ends")

    def begin_refused(self) -> Job:
        real = Slurm.edit
        refused: dict[int, str] = {}

        def misspelt(slurm: Slurm, edits: Sequence[Edit]) -> Mapping[int, str]:
            """Ask once for a node that Slurm does not have."""
            if refused:
                return real(slurm, edits)
            answer = real(slurm, [_to_nowhere(each) for each in edits])
            refused.update(answer)
            return answer

        self._monkeypatch.setattr(Slurm, "edit", misspelt)
        return self._world.until_state(self._world.submit("sleep 300", _CONSTRAINT), "starting")

    def turn(self) -> None:
        self._world.turn()

    def stop(self) -> None:
        """The test lets the process work no more."""

    def start(self) -> None:
        self._world.restart()

    def starts(self, job: Job) -> int:
        found = self._job(job)
        return found.restarts + (found.started_s is not None)

    def runs_on(self, job: Job) -> set[str]:
        found = self._job(job)
        return set(found.nodes) if found.phase is Phase.RUNNING else set()

    def is_stopped(self, job: Job) -> bool:
        return self._job(job).is_suspended

    def has_usage(self, job: Job) -> bool:
        return SlurmRow.objects.filter(job=job, max_rss_bytes__gt=0).exists()

    def lose_server(self, job: Job) -> None:
        node = server_of(job).name
        self._world.slurm.kill(node)
        self._world.slurm.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=x")

    def _id(self, job: Job) -> int:
        return SlurmRow.objects.get(job=job).slurm_id

    def _job(self, job: Job) -> SlurmJob:
        return self._world.jobs()[self._id(job)]


def _to_nowhere(edit: Edit) -> Edit:
    return replace(edit, node="n99") if edit.change is Change.PLACE else edit
