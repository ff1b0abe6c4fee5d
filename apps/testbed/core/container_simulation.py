"""Simulation of jobs of containers under any policy that places containers.

Jobs wait in one FIFO queue. The policy places each job that fits. Every minute it receives monitor
readings and may migrate containers; each migration stalls its container. Run times and energy come
from the engine and the true behaviour of the jobs, not from the policy's objective. Deterministic:
the same jobs, nodes, policy and seed give the same result. Source: C7, C9.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

import numpy as np

from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineOrder, EventKind, Machines
from apps.inventory.core.snapshot import Floats
from apps.placement.core.rebalancing.executor import PendingMigration, Resources, due_migrations
from apps.testbed.core.energy import EnergyMeter
from apps.testbed.core.monitor import MonitoredJob
from apps.testbed.core.policies import (
    ContainerPolicy,
    JobMigration,
    NodeInventory,
    VisibleCluster,
    VisibleJob,
)
from apps.testbed.core.programs import Program

MINUTE_S: Final = 60.0
KWH: Final = 3.6e6


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
    """Result of one job; NaN for a time not reached."""

    job: ContainerJob
    started_s: float = float("nan")
    ended_s: float = float("nan")
    joules: float = 0.0
    moves: int = 0


@dataclass(slots=True)
class SimulationResult:
    """Result of a simulation.

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


@dataclass(slots=True)
class _Running:
    seen: VisibleJob
    outcome: JobResult
    # nodes held since a reading of the meter: (node, joules per unit then)
    holds: list[tuple[int, float]] = field(default_factory=list)
    moving: JobMigration | None = None


class ContainerSimulation:
    """One run of a policy."""

    def __init__(
        self, machines: Machines, placer: ContainerPolicy, *, stall_s: float, seed: int
    ) -> None:
        self._engine = Engine(machines, np.random.default_rng(seed))
        self._site = NodeInventory(
            machines.rack, machines.units, machines.idle_watts, machines.peak_watts
        )
        self._placer, self._stall_s = placer, stall_s
        self._meter = EnergyMeter(machines)
        self._waiting: deque[_Running] = deque()
        self._running: dict[str, _Running] = {}
        self._queued: list[JobMigration] = []

    def run(self, jobs: Sequence[ContainerJob]) -> SimulationResult:
        """Run all jobs to completion.

        Raises
        ------
        ValueError : jobs out of order, or a job too large for the empty cluster.
        """
        report = SimulationResult()
        for at_s, together in groupby(jobs, key=lambda job: job.at_s):
            self._run_until(at_s)
            for job in together:
                outcome = JobResult(job)
                report.jobs.append(outcome)
                seen = VisibleJob(MonitoredJob(job.key, job.program.name, job.size), job.nominal_s)
                self._waiting.append(_Running(seen, outcome))
            self._place_waiting(at_s)
        self._run_until(float("inf"))
        if self._waiting:
            key = self._waiting[0].outcome.job.key
            raise ValueError(f"job {key} does not fit on the empty cluster")
        self._meter.close(self._engine.now)
        report.joules, report.idle_joules = self._meter.joules, self._meter.idle_joules
        report.ended_s = self._engine.now
        return report

    def _run_until(self, to: float) -> None:
        """Process events and monitor ticks up to a time, or until all jobs have ended."""
        while True:
            now = self._engine.now
            minute = (now // MINUTE_S + 1.0) * MINUTE_S if self._running else float("inf")
            if self._placer.monitor is None:
                minute = float("inf")
            at = min(minute, self._engine.next_event_s)
            if at > to or at == float("inf"):
                break
            self._process(at)
            if at == minute and self._running:
                self._tick(at)
        if to < float("inf"):
            self._engine.advance(to)

    def _process(self, at: float) -> None:
        for event in self._engine.advance(at):
            if event.kind is EventKind.FINISHED:
                self._end(str(event.key), event.at_s)
            elif event.kind is EventKind.MIGRATED:
                self._arrive(str(event.key), event.at_s)
        self._start_due(at)
        self._place_waiting(at)

    def _state(self, now: float) -> VisibleCluster:
        running = {key: job.seen for key, job in self._running.items()}
        return VisibleCluster(self._site, now, self._engine.used_units, running)

    def _place_waiting(self, now: float) -> None:
        """Place jobs in FIFO order until the first one that does not fit."""
        free = int((self._site.slots - self._engine.used_units).sum())
        served: list[_Running] = []
        while self._waiting and self._waiting[0].outcome.job.size <= free:
            free -= self._waiting[0].outcome.job.size
            served.append(self._waiting.popleft())
        if not served:
            return
        chosen = self._placer.place(self._state(now), [job.seen for job in served])
        for job, nodes in zip(served, chosen, strict=True):
            self._start(job, nodes, now)

    def _start(self, running: _Running, nodes: list[int], now: float) -> None:
        job = running.outcome.job
        order = EngineOrder(
            key=job.key,
            truth=job.program.truth(),
            parts=sorted(Counter(nodes).items()),
            work_s=job.work_s * job.size,
            tasks=job.size,
        )
        self._engine.start([order], now)
        running.holds = [(node, self._meter.change(node, 1, now)) for node in nodes]
        running.seen.nodes, running.seen.started_s = list(nodes), now
        running.outcome.started_s = now
        self._running[job.key] = running

    def _end(self, key: str, now: float) -> None:
        running = self._running.pop(key)
        for node, since in running.holds:
            running.outcome.joules += self._meter.change(node, -1, now) - since
        running.outcome.ended_s = now
        if self._placer.monitor is not None:
            self._placer.monitor.forget(key)

    def _tick(self, now: float) -> None:
        """Pass readings to the policy's monitor; replace pending migrations by its new ones."""
        monitor = self._placer.monitor
        if monitor is None:
            return
        keys = list(self._running)
        monitored = [self._running[key].seen.monitored for key in keys]
        monitor.read(monitored, self._engine.jobs(keys), now)
        self._queued = self._placer.rearrange(self._state(now))
        self._start_due(now)

    def _start_due(self, now: float) -> None:
        """Start the migrations that can start."""
        self._queued = [s for s in self._queued if s.key in self._running]
        if not self._queued:
            return
        free = self._site.slots - self._engine.used_units
        rooms = {node: _room(int(free[node])) for node in {s.to for s in self._queued}}
        under_way = [job.moving for job in self._running.values() if job.moving is not None]
        pending = [
            PendingMigration(
                i, 0, s.key, s.source, s.to, _room(1), _room(1), is_moving=i < len(under_way)
            )
            for i, s in enumerate([*under_way, *self._queued])
        ]
        due = due_migrations(pending, rooms, busy=(), limit=len(pending))
        removed = {*due.begin, *due.hopeless}
        begin = [self._queued[i - len(under_way)] for i in due.begin]
        self._queued = [s for i, s in enumerate(self._queued, len(under_way)) if i not in removed]
        for step in begin:
            self._move(step, now)

    def _move(self, step: JobMigration, now: float) -> None:
        running = self._running[step.key]
        if step.source not in running.seen.nodes:
            return
        self._engine.migrate(step.key, step.source, step.to, 1, now, self._stall_s)
        running.holds.append((step.to, self._meter.change(step.to, 1, now)))
        running.seen.nodes[running.seen.nodes.index(step.source)] = step.to
        running.moving = step
        running.outcome.moves += 1

    def _arrive(self, key: str, now: float) -> None:
        running = self._running[key]
        if running.moving is None:
            raise ValueError(f"job {key} reported a migration that was not requested")
        source = running.moving.source
        at = next(i for i, (node, _) in enumerate(running.holds) if node == source)
        _, since = running.holds.pop(at)
        running.outcome.joules += self._meter.change(source, -1, now) - since
        running.moving = None


def _room(units: int) -> Resources:
    return Resources(float(units), 0.0, 0.0, 0.0)
