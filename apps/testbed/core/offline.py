"""Simulation of the cluster with production policies and the emulator's engine.

Jobs arrive, an agent places them from its own copy of the state, the in-memory store commits the
units, the engine runs the jobs, and their units are released. Deterministic: the same arrivals,
policy, settings and seed give the same report.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineOrder, EventKind
from apps.emulation.core.truth import Truth
from apps.inventory.core.snapshot import Floats, Shorts
from apps.scheduling.core.cluster_copy import ClusterCopy
from apps.scheduling.core.in_memory_store import Committed, MemoryCluster
from apps.scheduling.core.types import Placed, Policy, Refused, Request
from apps.testbed.core.demo_cluster import DemoCluster


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
    """

    agents: int = 1
    sync_s: float = 0.0
    jitter: float = 0.3
    retries: int = 3


@dataclass(frozen=True, slots=True, eq=False)
class RecordedDecision:
    """One decision that chose units, with the result of its commit."""

    at_s: float
    placed: Placed
    is_committed: bool
    used_share: float  # units in use over all units before the commit


@dataclass(slots=True)
class JobRecord:
    """History of one job; NaN for a time not reached."""

    job: str
    arrived_s: float
    started_s: float = float("nan")
    ended_s: float = float("nan")
    units: int = 0
    conflicts: int = 0
    refusals: int = 0


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


class _Agent:
    """A scheduler agent with its own copy of the cluster state."""

    def __init__(
        self, cluster: MemoryCluster, settings: AgentSettings, rng: np.random.Generator
    ) -> None:
        self.copy = ClusterCopy(cluster.topology)
        self._cluster, self._settings, self._rng = cluster, settings, rng
        self._read = 0
        self._next_s = 0.0

    def follow(self, now: float) -> None:
        """Read the change log if the interval has passed."""
        if now < self._next_s:
            return
        self.read()
        jitter = self._rng.uniform(1.0 - self._settings.jitter, 1.0 + self._settings.jitter)
        self._next_s = now + self._settings.sync_s * jitter

    def read(self) -> None:
        """Read the change log to its end."""
        log = self._cluster.log
        self.copy.apply(log[self._read :])
        self._read = len(log)


class OfflineRun:
    """One run of a policy on a demo cluster."""

    def __init__(
        self, world: DemoCluster, policy: Policy, settings: AgentSettings, seed: int
    ) -> None:
        engine_seed, policy_seed, agent_seed = np.random.SeedSequence([seed]).spawn(3)
        self.report = OfflineReport()
        self._policy, self._settings = policy, settings
        self._engine = Engine(world.machines, np.random.default_rng(engine_seed))
        self._cluster = MemoryCluster(world.topology)
        self._rng = np.random.default_rng(policy_seed)
        rng = np.random.default_rng(agent_seed)
        self._agents = [_Agent(self._cluster, settings, rng) for _ in range(settings.agents)]
        self._turn = count()
        self._units = int(world.topology.server_units.sum())
        self._used = 0
        self._waiting: deque[tuple[JobArrival, JobRecord]] = deque()
        self._running: dict[str, tuple[JobRecord, int]] = {}

    @property
    def used_share(self) -> float:
        """Share of units in use, 0-1."""
        return self._used / self._units

    def run(self, arrivals: Iterable[JobArrival], *, drain: bool = True) -> OfflineReport:
        """Process all arrivals; with `drain`, run until every job that can end has ended.

        Raises
        ------
        ValueError : arrivals out of order, or the same job twice.
        """
        for arrival in arrivals:
            self._until(arrival.at_s)
            record = JobRecord(arrival.request.job, arrival.at_s)
            self.report.jobs.append(record)
            self._waiting.append((arrival, record))
            self._serve(arrival.at_s)
        while drain and self._engine.next_event_s < float("inf"):
            self._until(self._engine.next_event_s)
        self.report.ended_s = self._engine.now
        return self.report

    def _until(self, to: float) -> None:
        """Process the events before `to`, placing waiting jobs after every release."""
        while self._engine.next_event_s <= to:
            at = self._engine.next_event_s
            for event in self._engine.advance(at):
                if event.kind is EventKind.FINISHED:
                    self._end(str(event.key), event.at_s)
            self._serve(at)
        self._engine.advance(to)

    def _end(self, job: str, now: float) -> None:
        record, allocation = self._running.pop(job)
        record.ended_s = now
        self._used -= record.units
        self._cluster.release(allocation)

    def _serve(self, now: float) -> None:
        """Place jobs in FIFO order until the first one that must wait."""
        while self._waiting and self._place(*self._waiting[0], now):
            self._waiting.popleft()

    def _place(self, arrival: JobArrival, record: JobRecord, now: float) -> bool:
        """Try to place and start a job; False if it must wait."""
        agent = self._agents[next(self._turn) % len(self._agents)]
        agent.follow(now)
        for _ in range(1 + self._settings.retries):
            view = agent.copy.snapshot()
            outcome = self._policy.place(view, [arrival.request], self._rng)[0]
            if isinstance(outcome, Refused):
                record.refusals += 1
                return False
            committed = self._cluster.commit(outcome, arrival.request)
            self._note(outcome, now, is_committed=isinstance(committed, Committed))
            if isinstance(committed, Committed):
                agent.copy.apply_commit(
                    replace(outcome, units=committed.units),
                    arrival.request,
                    sequence=committed.sequence,
                )
                self._start(arrival, record, committed, now)
                return True
            record.conflicts += 1
            agent.read()
        return False

    def _note(self, placed: Placed, now: float, *, is_committed: bool) -> None:
        self.report.decisions.append(RecordedDecision(now, placed, is_committed, self.used_share))

    def _start(self, arrival: JobArrival, record: JobRecord, won: Committed, now: float) -> None:
        order = EngineOrder(
            key=arrival.request.job,
            truth=arrival.truth,
            parts=parts_of(won.units, self._cluster.topology.unit_server),
            work_s=arrival.work_s,
            tasks=arrival.tasks,
            duration_s=arrival.duration_s,
            load=arrival.load,
        )
        self._engine.start([order], now)
        record.started_s, record.units = now, won.units.size
        self._used += record.units
        self._running[arrival.request.job] = (record, won.allocation)


def parts_of(units: Shorts, unit_server: Shorts) -> Sequence[tuple[int, int]]:
    """(server, number of units) pairs, by server."""
    servers, counts = np.unique(unit_server[units], return_counts=True)
    return list(zip(servers.tolist(), counts.tolist(), strict=True))


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
