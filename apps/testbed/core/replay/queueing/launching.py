"""Jobs that get their units one by one, as a queue of a server or a scheduler grants them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Shorts
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.cluster.capacity import fits, unit_vectors
from apps.scheduling.core.cluster.in_memory_store import Conflict, MemoryCluster
from apps.scheduling.core.sizing.sizes import Infeasible
from apps.scheduling.core.types import Placed, RefusalReason, Request
from apps.testbed.core.replay.demand import LazyFacts, SizedRequest
from apps.testbed.core.replay.waiting import Refusal
from apps.workloads.core.shapes import Needs, WaitsFor

if TYPE_CHECKING:
    from apps.testbed.core.replay.loop import ReplayLoop

NO_SERVER: Final = "no server of the cluster can hold a unit of the job"
NO_RANKS: Final = np.empty(0)


@dataclass(slots=True, eq=False)
class WaitingJob:
    """A job that lacks units.

    Attributes
    ----------
    able : (S,) whether each server can hold a unit of it if it is idle
    left : units that it lacks; 0 if it has ended
    serial : number of its submission
    """

    job: int
    sized: SizedRequest
    able: Bools
    left: int
    serial: int

    @property
    def held(self) -> int:
        """Units that it has."""
        return self.sized.request.units - self.left


class Launcher:
    """Sizes jobs by production's rules, and gives them free units.

    A job runs from its first unit on, and grows by each further one. Whether it is a gang does not
    matter. What it still lacks when it ends is dropped.

    Attributes
    ----------
    waiting : jobs that lack units, in order of arrival
    """

    def __init__(self, loop: "ReplayLoop", cluster: MemoryCluster) -> None:
        self.waiting: dict[int, WaitingJob] = {}
        self._loop, self._cluster = loop, cluster
        self._facts = TopologyFacts(cluster.topology)
        self._new: list[int] = []
        self._serial = count()
        self._refused: dict[int, Refusal] = {}
        self._job_of: dict[int, int] = {}  # by allocation

    @property
    def now(self) -> float:
        """Time of the replay."""
        return self._loop.engine.now

    def arrive(self, job: int) -> None:
        """Take a new job, or one whose server failed."""
        self._new.append(job)

    def admitted(self, now: float) -> Iterator[WaitingJob]:
        """Size the new jobs; yields those that a server can hold."""
        new, self._new = self._new, []
        facts = LazyFacts(self._cluster.view())
        for job in new:
            found = self._loop.source.request(job, now, facts)
            if isinstance(found, Infeasible):
                if found.platform is not None:
                    self._loop.fail(job, found.suggestion)
                    continue
                self._refuse(job)
                continue
            able = self._able(found.request)
            if not able.any():
                self._refuse(job)
                continue
            waiting = WaitingJob(job, found, able, found.request.units, next(self._serial))
            self.waiting[job] = waiting
            yield waiting

    def launch(self, waiting: WaitingJob, server: int, now: float) -> bool:
        """Give a job a unit of a server; False if the server is closed or has no room for it."""
        view, topology = self._cluster.view(), self._cluster.topology
        first = int(topology.server_first_unit[server])
        free = view.unit_free[first : first + int(topology.server_units[server])]
        unit = int(free.argmax())
        if not (free[unit] and view.server_open[server]):
            return False
        placed = Placed(
            waiting.sized.request.job, np.array([first + unit], dtype=np.int32), (),
            0, 0, {}, 0.0, 0.0, 0, self._cluster.sequence, NO_RANKS,
        )  # fmt: skip
        won = self._cluster.commit(placed, waiting.sized.request)
        if isinstance(won, Conflict):  # not enough memory, network or storage
            return False
        self._loop.record_decision(placed, is_committed=True, now=now)
        self._job_of[won.allocation] = waiting.job
        if self._loop.is_running(waiting.job):
            self._loop.grow(waiting.job, won, now)
        else:
            self._loop.start(waiting.job, waiting.sized, won, now)
        waiting.left -= 1
        if not waiting.left:
            del self.waiting[waiting.job]
        return True

    def release(self, allocation: int) -> tuple[int, Shorts]:
        """Free units of a job that ended; returns the job and the units."""
        job, units = self._job_of.pop(allocation), self._cluster.held(allocation)
        self._cluster.release(allocation)
        ended = self.waiting.pop(job, None)
        if ended is not None:
            ended.left = 0
        return job, units

    def open(self, servers: Sequence[int]) -> None:
        """Open repaired servers for further units."""
        self._cluster.set_open(servers, is_open=True)

    def refusals(self, text: str) -> dict[int, Refusal]:
        """Why jobs hold no units: no server can hold them, or else ``text``."""
        code, sequence = RefusalReason.NO_FREE_UNIT.value, self._cluster.sequence
        queued = {
            job: Refusal(code, text, Needs(WaitsFor.UNITS), sequence)
            for job in self.waiting
            if not self._loop.is_running(job)
        }
        return {**self._refused, **queued}

    def _able(self, request: Request) -> Bools:
        """(S,) whether each server can hold a unit of the request if it is idle."""
        topology = self._cluster.topology
        everywhere = np.arange(topology.server_id.size, dtype=np.int32)
        able: Bools = (
            self._facts.allowed(request.platforms)[topology.server_platform]
            & self._facts.labelled(request.labels)
            & ~self._facts.barred(request)
            & fits(unit_vectors(topology, everywhere, request), topology.server_capacity)
        )
        return able

    def _refuse(self, job: int) -> None:
        self._loop.records[job].refusals += 1
        code, needs = RefusalReason.NO_MATCHING_SERVER.value, Needs(WaitsFor.SERVERS)
        self._refused[job] = Refusal(code, NO_SERVER, needs, self._cluster.sequence)
