"""Jobs of containers on the replay engine, under any policy that places containers.

Jobs wait in one line. The policy places all jobs of the line that fit together; every minute it
receives monitor readings and may migrate containers; each migration stalls its container. Run
times and energy come from the engine and the true behaviour of the jobs, not from the policy's
objective. Deterministic: the same jobs, nodes, policy and seed give the same result. Source: C7,
C9.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.emulation.core.events import EngineOrder, Machines
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts, Snapshot
from apps.scheduling.core.types import Placed, RefusalReason, Refused, Request
from apps.testbed.core.demo_cluster import DemoCluster
from apps.testbed.core.monitor import MonitoredJob
from apps.testbed.core.policies import (
    ContainerPolicy,
    NodeInventory,
    VisibleCluster,
    VisibleJob,
    node_topology,
)
from apps.testbed.core.programs import Program
from apps.testbed.core.replay.demand import NO_QUEUES, LazyFacts, Shape, SizedRequest
from apps.testbed.core.replay.loop import ReplayLoop
from apps.testbed.core.replay.migrating import ClusterView, Migration
from apps.testbed.core.replay.model import Admission, ReplayOptions
from apps.testbed.core.replay.summary import Holds, hold_energy_j

MINUTE_S: Final = 60.0
KWH: Final = 3.6e6
ANY_NUMBER: Final = 1_000_000  # migrations a minute: the policy limits them
NOTHING: Final = np.zeros(N_SOURCES)
ALL: Final = np.full(N_SOURCES, 100.0)
NO_RANKS: Final = np.empty(0)


@dataclass(frozen=True, slots=True)
class ContainerJob:
    """One job of equal containers.

    Attributes
    ----------
    at_s : submission time
    size : number of containers
    work_s : run time of each container alone on a node, without slow links
    nominal_s : run time requested by the user
    """

    key: str
    at_s: float
    program: Program
    size: int
    work_s: float
    nominal_s: float


@dataclass(slots=True)
class JobResult:
    """Result of one job."""

    job: ContainerJob
    started_s: float
    ended_s: float
    joules: float
    moves: int


@dataclass(slots=True)
class ContainerResult:
    """Result of a run.

    Attributes
    ----------
    joules : of all servers, which are off while empty
    idle_joules : idle energy saved by servers that were off
    """

    jobs: list[JobResult] = field(default_factory=list)
    joules: float = 0.0
    idle_joules: float = 0.0
    ended_s: float = 0.0

    def run_s(self) -> Floats:
        """(j,) run times."""
        return np.array([job.ended_s - job.started_s for job in self.jobs])

    def job_joules(self) -> Floats:
        """(j,) energy of each job."""
        return np.array([job.joules for job in self.jobs])


class ContainerRun:
    """One run as the engine asks for it: jobs, decisions and migrations of a container policy.

    It is the source of the jobs (`JobSource`), the policy that decides on them (`Policy`), and the
    planner of their migrations (`Planner`).
    """

    version = 1
    draws_sample = False
    interval_s = MINUTE_S
    decision_s = 0.0
    per_minute = ANY_NUMBER

    def __init__(
        self,
        site: NodeInventory,
        placer: ContainerPolicy,
        jobs: Sequence[ContainerJob],
        stall_s: float,
    ) -> None:
        self.name = placer.name
        self._site, self._placer, self._jobs, self._stall_s = site, placer, jobs, stall_s
        self._seen = [
            VisibleJob(MonitoredJob(job.key, job.program.name, job.size), job.nominal_s)
            for job in jobs
        ]
        self._number = {job.key: number for number, job in enumerate(jobs)}
        self._running: dict[str, VisibleJob] = {}
        self._next, self._now = 0, 0.0

    @property
    def queues(self) -> Ints:
        """All jobs are in one queue."""
        return NO_QUEUES

    def next_arrival(self) -> tuple[float, str] | None:
        """Time and name of the next job."""
        number, self._next = self._next, self._next + 1
        if number >= len(self._jobs):
            return None
        return self._jobs[number].at_s, self._jobs[number].key

    def shape(self, job: int) -> Shape:
        """Return a shape of its own for each job."""
        return (0.0, float(job))

    def request(self, job: int, now: float, facts: LazyFacts) -> SizedRequest:
        """Return a request for as many units as the job has containers."""
        self._now = now
        request = Request(str(job), self._jobs[job].size, NOTHING, ALL, gang=True)
        return SizedRequest(request, 1.0)

    def order(self, job: int, sized: SizedRequest, parts: list[tuple[int, int]]) -> EngineOrder:
        """Return the order that starts a job, which policies see running from now on."""
        one, seen = self._jobs[job], self._seen[job]
        seen.nodes = [node for node, count in parts for _ in range(count)]
        seen.started_s = self._now  # decisions take no time
        self._running[one.key] = seen
        return EngineOrder(
            key=job,
            truth=one.program.truth(),
            parts=parts,
            work_s=one.work_s * one.size,
            tasks=one.size,
        )

    def ended(self, job: int, ran_s: float, *, is_whole: bool) -> None:
        """Forget a job that ended."""
        key = self._jobs[job].key
        del self._running[key]
        if self._placer.monitor is not None:
            self._placer.monitor.forget(key)

    def place(
        self, snapshot: Snapshot, requests: Sequence[Request], rng: np.random.Generator
    ) -> list[Placed | Refused]:
        """Place the first jobs that fit together; refuse those from the first that does not."""
        units = np.cumsum([request.units for request in requests])
        fit = int(np.searchsorted(units, int(snapshot.unit_free.sum()), side="right"))
        served = [self._seen[int(request.job)] for request in requests[:fit]]
        chosen = self._placer.place(self._state(snapshot), served) if served else []
        free = snapshot.unit_free.copy()
        placed: list[Placed | Refused] = []
        for request, nodes in zip(requests[:fit], chosen, strict=True):
            taken = _free_units(snapshot, free, nodes)
            placed.append(
                Placed(request.job, taken, (), 0, 0, {}, 0.0, 0.0, 0, snapshot.sequence, NO_RANKS)
            )
        return placed + [
            Refused(request.job, RefusalReason.NOT_ENOUGH_FREE_UNITS, {})
            for request in requests[fit:]
        ]

    def plan(self, view: ClusterView, now: float) -> Sequence[Migration]:
        """Pass readings to the policy's monitor; return its migrations."""
        monitor, self._now = self._placer.monitor, now
        if monitor is None:
            return []
        seen = [self._seen[job].monitored for job in view.running]
        monitor.read(seen, view.engine.jobs(list(view.running)), now)
        state = self._state(view.cluster.view())
        return [
            Migration(self._number[step.key], step.source, step.to, 1, self._stall_s)
            for step in self._placer.rearrange(state)
        ]

    def started(self, migration: Migration) -> None:
        """Note that a container migrates: policies see it on its target."""
        nodes = self._seen[migration.job].nodes
        nodes[nodes.index(migration.source)] = migration.target

    def _state(self, snapshot: Snapshot) -> VisibleCluster:
        first = snapshot.topology.server_first_unit
        held = self._site.slots - np.add.reduceat(snapshot.unit_free, first, dtype=np.int64)
        return VisibleCluster(self._site, self._now, held, self._running)


def _free_units(snapshot: Snapshot, free: Bools, nodes: Sequence[int]) -> Shorts:
    """(k,) a free unit of each node, which is no longer free then."""
    topology = snapshot.topology
    units = np.empty(len(nodes), dtype=np.int32)
    for i, node in enumerate(nodes):
        first = int(topology.server_first_unit[node])
        unit = first + int(free[first : first + int(topology.server_units[node])].argmax())
        if not free[unit]:
            raise ValueError(f"node {node} has no free slot for a container placed there")
        units[i], free[unit] = unit, False
    return units


def run_containers(
    machines: Machines,
    placer: ContainerPolicy,
    jobs: Sequence[ContainerJob],
    *,
    stall_s: float,
    seed: int,
) -> ContainerResult:
    """Run all jobs to completion.

    Raises
    ------
    ValueError : jobs out of order, or a job too large for the empty cluster.
    """
    site = NodeInventory(machines.rack, machines.units, machines.idle_watts, machines.peak_watts)
    containers = ContainerRun(site, placer, jobs, stall_s)
    loop = ReplayLoop(
        DemoCluster(node_topology(site), machines, seed),
        containers,
        containers,
        ReplayOptions(policy=placer.name, seed=seed, admission=Admission.FIFO, together=True),
        planner=None if placer.monitor is None else containers,
    )
    for _ in loop.turns():
        pass
    for job, record in zip(jobs, loop.records, strict=True):
        if not record.ended_s < np.inf:
            raise ValueError(f"job {job.key} does not fit on the empty cluster")
    return _result(loop, machines, jobs)


def _result(loop: ReplayLoop, machines: Machines, jobs: Sequence[ContainerJob]) -> ContainerResult:
    holds, job = Holds.of(loop.holds, loop.engine.now), np.array(loop.holds.job, dtype=np.int64)
    energy = hold_energy_j(holds, machines)
    own = np.bincount(job, weights=energy.joules, minlength=len(jobs))
    moves: Ints = np.array([loop.migrating.moved.get(i, 0) for i in range(len(jobs))])
    return ContainerResult(
        jobs=[
            JobResult(each, record.started_s, record.ended_s, joules, moved)
            for each, record, joules, moved in zip(
                jobs, loop.records, own.tolist(), moves.tolist(), strict=True
            )
        ],
        joules=float(energy.joules.sum()),
        idle_joules=float(machines.idle_watts.sum()) * loop.engine.now - energy.idle_joules,
        ended_s=loop.engine.now,
    )
