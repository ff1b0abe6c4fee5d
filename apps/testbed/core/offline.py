"""Runs of given requests: production policies on the emulator's engine, by the loop of a replay.

Jobs wait in one line, unless the settings say otherwise. Jobs of one application have equal
requests, except for their units. Deterministic: the same arrivals, policy, settings and seed give
the same report.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from apps.emulation.core.events import EngineOrder
from apps.emulation.core.stragglers import task_seed
from apps.emulation.core.truth import Truth
from apps.inventory.core.snapshot import Floats, Ints, Snapshot
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.patience import patience_s
from apps.scheduling.core.sizing.run_time import RunTime
from apps.scheduling.core.tarcil.job_sampling import (
    DEFAULT_GUARANTEE,
    FOLLOWING_LOAD,
    TopFreeShares,
    sampling_at,
)
from apps.scheduling.core.types import Placed, Policy, Request
from apps.testbed.core.demo_cluster import DemoCluster
from apps.testbed.core.replay.demand import NO_QUEUES, LazyFacts, Shape, SizedRequest
from apps.testbed.core.replay.loop import JobRecord, ReplayLoop, parts_of
from apps.testbed.core.replay.model import Admission, ReplayOptions
from apps.workloads.core.targets import TargetKind

__all__ = [
    "AgentSettings",
    "JobArrival",
    "JobRecord",
    "OfflineReport",
    "OfflineRun",
    "RecordedDecision",
    "parts_of",
    "run_offline",
]


@dataclass(frozen=True, slots=True, eq=False)
class JobArrival:
    """One submitted job.

    Attributes
    ----------
    at_s : seconds since the start, non-decreasing from one arrival to the next
    request : request to the scheduler; its `job` is unique
    truth : true behaviour of the job
    work_s : unit-seconds of the highest-end platform; infinite for a service
    tasks, duration_s, load : as in `emulation.core.events.EngineOrder`
    """

    at_s: float
    request: Request
    truth: Truth
    work_s: float
    tasks: int | None = None
    duration_s: float | None = None
    load: float = 0.0


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Number of scheduler agents and how they synchronise.

    Attributes
    ----------
    agents : agents that receive the arrivals in turn
    sync_s : interval at which an agent reads the change log; 0 = before every decision
    jitter : intervals are `sync_s` x (1 ± jitter), so that agents do not read at the same time
    retries : decisions after a commit conflict before the job is requeued
    admission : order in which waiting jobs are decided
    patience_s : longest wait of a job for better units while others are free
    max_sample : R of policies of `FOLLOWING_LOAD` grows with the load up to this, as in
        production (T4); 0 = it is that of their requests

    Raises
    ------
    ValueError : a negative patience, or one under ``Admission.FIFO``, where no job overtakes.
    """

    agents: int = 1
    sync_s: float = 0.0
    jitter: float = 0.3
    retries: int = 3
    admission: Admission = Admission.FIFO
    patience_s: float = 0.0
    max_sample: int = 0

    def __post_init__(self) -> None:
        is_in_order = self.admission is Admission.FIFO
        if not self.patience_s >= 0.0 or (self.patience_s and is_in_order):
            raise ValueError(
                f"patience_s must be 0, or more without fifo, not {self.patience_s:g}"
            )


@dataclass(frozen=True, slots=True, eq=False)
class RecordedDecision:
    """One decision that chose units, with the result of its commit."""

    at_s: float
    placed: Placed
    is_committed: bool
    used_share: float  # units in use over all units before the commit


@dataclass(slots=True)
class OfflineReport:
    """Jobs and decisions of a run, in order."""

    jobs: list[JobRecord] = field(default_factory=list)
    decisions: list[RecordedDecision] = field(default_factory=list)
    ended_s: float = 0.0

    def times(self) -> tuple[Floats, Floats, Floats]:
        """(n,) arrival, start and end of each job; NaN for a time not reached."""
        rows = [(job.arrived_s, job.started_s, job.ended_s) for job in self.jobs]
        table = np.array(rows, dtype=np.float64).reshape(-1, 3)
        return table[:, 0], table[:, 1], table[:, 2]


class _Arrivals:
    """The arrivals as the loop takes them: one at a time, as they may depend on the run."""

    def __init__(self, policy: str, settings: AgentSettings, seed: int) -> None:
        self.seed, self._settings = seed, settings
        self._shares = (
            TopFreeShares() if settings.max_sample and policy in FOLLOWING_LOAD else None
        )
        self._facts: TopologyFacts | None = None
        self.coming: Iterator[JobArrival] = iter(())
        self._arrived: list[JobArrival] = []
        self._applications: dict[str, int] = {}

    @property
    def queues(self) -> Ints:
        """All jobs are in one queue."""
        return NO_QUEUES

    def next_arrival(self) -> tuple[float, str] | None:
        """Time and name of the next job."""
        arrival = next(self.coming, None)
        if arrival is None:
            return None
        self._arrived.append(arrival)
        return arrival.at_s, arrival.request.job

    def shape(self, job: int) -> Shape:
        """Return a number of each application, and the units of the job."""
        arrival = self._arrived[job]
        number = self._applications.setdefault(arrival.truth.name, len(self._applications))
        return (0.0, float(number), float(arrival.request.units))

    def request(self, job: int, now: float, facts: LazyFacts) -> SizedRequest:
        """Return the request as given; its job waits for better units as in production.

        The predicted run time is that on the highest-end platform without neighbours.
        """
        arrival = self._arrived[job]
        units, work_s = arrival.request.units, arrival.work_s
        longest_s = patience_s(
            units, TargetKind.IPS, RunTime(work_s, work_s), limit_s=self._settings.patience_s
        )
        request = arrival.request
        if self._shares is not None:
            size = self._sample_size(self._shares, request, facts.snapshot)
            request = replace(request, sample_size=size)
        return SizedRequest(request, 1.0, patience_s=longest_s)

    def _sample_size(
        self, shares: TopFreeShares, request: Request, snapshot: Snapshot
    ) -> int | None:
        if self._facts is None:
            self._facts = TopologyFacts(snapshot.topology)
        share = shares.of(request, snapshot, self._facts, DEFAULT_GUARANTEE.rank_threshold)
        return sampling_at(share, self._settings.max_sample).size

    def order(self, job: int, sized: SizedRequest, parts: list[tuple[int, int]]) -> EngineOrder:
        """Return the order that starts a job."""
        arrival = self._arrived[job]
        return EngineOrder(
            key=job,
            truth=arrival.truth,
            parts=parts,
            work_s=arrival.work_s,
            tasks=arrival.tasks,
            duration_s=arrival.duration_s,
            load=arrival.load,
            task_seed=task_seed(self.seed, job) if arrival.tasks else 0,
        )

    def ended(self, job: int, ran_s: float, *, is_whole: bool) -> None:
        """Learn nothing: the requests are given."""


class OfflineRun:
    """One run of a policy on a demo cluster."""

    def __init__(
        self, world: DemoCluster, policy: Policy, settings: AgentSettings, seed: int
    ) -> None:
        options = ReplayOptions(
            policy=policy.name,
            seed=seed,
            admission=settings.admission,
            patience_s=settings.patience_s,
            agents=settings.agents,
            sync_s=settings.sync_s,
            jitter=settings.jitter,
            retries=settings.retries,
            batch=1,
        )
        self._arrivals = _Arrivals(policy.name, settings, seed)
        self._loop = ReplayLoop(world, self._arrivals, policy, options, self._note)
        self.report = OfflineReport(self._loop.records)

    @property
    def used_share(self) -> float:
        """Share of units in use, 0-1."""
        return self._loop.used / self._loop.units

    def run(self, arrivals: Iterable[JobArrival], *, drain: bool = True) -> OfflineReport:
        """Process all arrivals; with `drain`, run until every job that can end has ended.

        Raises
        ------
        ValueError : arrivals out of order, or the same job twice.
        """
        self._arrivals.coming = iter(arrivals)
        for _ in self._loop.turns(drain=drain):
            pass
        self.report.ended_s = self._loop.engine.now
        return self.report

    def _note(self, now: float, placed: Placed, is_committed: bool) -> None:
        self.report.decisions.append(RecordedDecision(now, placed, is_committed, self.used_share))


def run_offline(
    world: DemoCluster,
    arrivals: Iterable[JobArrival],
    policy: Policy,
    *,
    seed: int,
    settings: AgentSettings | None = None,
) -> OfflineReport:
    """Run a policy on a demo cluster until every job that can end has ended."""
    return OfflineRun(world, policy, settings or AgentSettings(), seed).run(arrivals)
