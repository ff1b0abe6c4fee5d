"""Jobs of containers on a simulated clock: one loop for every policy that places containers.

Jobs wait in one queue, in the order they came. A policy places each job that fits; every minute it
is told what the monitors read and may move containers, each through `Engine.move` and its stall.
Run times and energy are the engine's, by the truths; the policy's objective judges nothing.
Deterministic: the same jobs, nodes, policy and seed give the same report. Source: C7, C9.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

import numpy as np

from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EventKind, Machines, Order
from apps.inventory.core.snapshot import Floats
from apps.placement.core.carrying import Room, due
from apps.placement.core.carrying import Step as Carried
from apps.testbed.core.meter import Meter
from apps.testbed.core.placers import Placer, Seen, Site, State, Step
from apps.testbed.core.programs import Program
from apps.testbed.core.watching import Watched

MINUTE_S: Final = 60.0
KWH: Final = 3.6e6


@dataclass(frozen=True, slots=True)
class ContainerJob:
    """One job of equal containers.

    Attributes
    ----------
    at_s : when it comes in
    size : containers
    work_s : run time of each with a node of its own and no link in the way
    nominal_s : run time its user asks for
    """

    key: str
    at_s: float
    program: Program
    size: int
    work_s: float
    nominal_s: float


@dataclass(slots=True)
class JobOutcome:
    """What became of one job; NaN where it has not happened."""

    job: ContainerJob
    started_s: float = float("nan")
    ended_s: float = float("nan")
    joules: float = 0.0
    moves: int = 0


@dataclass(slots=True)
class Outcome:
    """What became of all of them.

    Attributes
    ----------
    joules : of all servers, which are off while nobody holds them
    idle_joules : what those that were off would have drawn besides, had they idled
    """

    jobs: list[JobOutcome] = field(default_factory=list)
    joules: float = 0.0
    idle_joules: float = 0.0
    ended_s: float = 0.0

    def run_s(self) -> Floats:
        """(j,) from start to end."""
        return np.array([job.ended_s - job.started_s for job in self.jobs])

    def job_joules(self) -> Floats:
        """(j,) each job's share of the energy."""
        return np.array([job.joules for job in self.jobs])


@dataclass(slots=True)
class _Running:
    seen: Seen
    outcome: JobOutcome
    # nodes held since a reading of the meter: (node, joules per unit then)
    holds: list[tuple[int, float]] = field(default_factory=list)
    moving: Step | None = None


class Containers:
    """One run of one policy."""

    def __init__(self, machines: Machines, placer: Placer, *, stall_s: float, seed: int) -> None:
        self._engine = Engine(machines, np.random.default_rng(seed))
        self._site = Site(machines.rack, machines.units, machines.idle_watts, machines.peak_watts)
        self._placer, self._stall_s = placer, stall_s
        self._meter = Meter(machines)
        self._waiting: deque[_Running] = deque()
        self._running: dict[str, _Running] = {}
        self._steps: list[Step] = []

    def run(self, jobs: Sequence[ContainerJob]) -> Outcome:
        """Run all jobs to their ends.

        Raises
        ------
        ValueError : jobs out of order, or one that no empty cluster holds.
        """
        report = Outcome()
        for at_s, together in groupby(jobs, key=lambda job: job.at_s):
            self._until(at_s)
            for job in together:
                outcome = JobOutcome(job)
                report.jobs.append(outcome)
                seen = Seen(Watched(job.key, job.program.name, job.size), job.nominal_s)
                self._waiting.append(_Running(seen, outcome))
            self._serve(at_s)
        self._until(float("inf"))
        if self._waiting:
            raise ValueError(f"job {self._waiting[0].outcome.job.key} fits on no empty cluster")
        self._meter.close(self._engine.now)
        report.joules, report.idle_joules = self._meter.joules, self._meter.idle_joules
        report.ended_s = self._engine.now
        return report

    def _until(self, to: float) -> None:
        """Let things happen up to a time, minute by minute; up to the last end if infinite."""
        while True:
            now = self._engine.now
            minute = (now // MINUTE_S + 1.0) * MINUTE_S if self._running else float("inf")
            if self._placer.watch is None:
                minute = float("inf")
            at = min(minute, self._engine.next_event_s)
            if at > to or at == float("inf"):
                break
            self._happen(at)
            if at == minute and self._running:
                self._look(at)
        if to < float("inf"):
            self._engine.advance(to)

    def _happen(self, at: float) -> None:
        for event in self._engine.advance(at):
            if event.kind is EventKind.FINISHED:
                self._end(str(event.key), event.at_s)
            elif event.kind is EventKind.MOVED:
                self._arrive(str(event.key), event.at_s)
        self._carry(at)
        self._serve(at)

    def _state(self, now: float) -> State:
        running = {key: job.seen for key, job in self._running.items()}
        return State(self._site, now, self._engine.used_units, running)

    def _serve(self, now: float) -> None:
        """Place jobs in the order they came; the first that must wait holds up the rest."""
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
        order = Order(
            key=job.key,
            truth=job.program.truth(),
            parts=sorted(Counter(nodes).items()),
            work_s=job.work_s * job.size,
            tasks=job.size,
        )
        self._engine.start([order], now)
        running.holds = [(node, self._meter.change(node, 1, now)) for node in nodes]
        running.seen.home, running.seen.started_s = list(nodes), now
        running.outcome.started_s = now
        self._running[job.key] = running

    def _end(self, key: str, now: float) -> None:
        running = self._running.pop(key)
        for node, since in running.holds:
            running.outcome.joules += self._meter.change(node, -1, now) - since
        running.outcome.ended_s = now
        if self._placer.watch is not None:
            self._placer.watch.forget(key)

    def _look(self, now: float) -> None:
        """Tell the policy what monitors read, and take its moves in place of those not begun."""
        watch = self._placer.watch
        if watch is None:
            return
        keys = list(self._running)
        watched = [self._running[key].seen.watched for key in keys]
        watch.read(watched, self._engine.jobs(keys), now)
        self._steps = self._placer.rearrange(self._state(now))
        self._carry(now)

    def _carry(self, now: float) -> None:
        """Begin the moves that can begin."""
        self._steps = [s for s in self._steps if s.key in self._running]
        if not self._steps:
            return
        free = self._site.slots - self._engine.used_units
        rooms = {node: _room(int(free[node])) for node in {s.to for s in self._steps}}
        under_way = [job.moving for job in self._running.values() if job.moving is not None]
        carried = [
            Carried(i, 0, s.key, s.source, s.to, _room(1), _room(1), is_moving=i < len(under_way))
            for i, s in enumerate([*under_way, *self._steps])
        ]
        found = due(carried, rooms, busy=(), most=len(carried))
        gone = {*found.begin, *found.hopeless}
        begin = [self._steps[i - len(under_way)] for i in found.begin]
        self._steps = [s for i, s in enumerate(self._steps, len(under_way)) if i not in gone]
        for step in begin:
            self._move(step, now)

    def _move(self, step: Step, now: float) -> None:
        running = self._running[step.key]
        if step.source not in running.seen.home:
            return
        self._engine.move(step.key, step.source, step.to, 1, now, self._stall_s)
        running.holds.append((step.to, self._meter.change(step.to, 1, now)))
        running.seen.home[running.seen.home.index(step.source)] = step.to
        running.moving = step
        running.outcome.moves += 1

    def _arrive(self, key: str, now: float) -> None:
        running = self._running[key]
        if running.moving is None:
            raise ValueError(f"job {key} moved without being told to")
        source = running.moving.source
        at = next(i for i, (node, _) in enumerate(running.holds) if node == source)
        _, since = running.holds.pop(at)
        running.outcome.joules += self._meter.change(source, -1, now) - since
        running.moving = None


def _room(units: int) -> Room:
    return Room(float(units), 0.0, 0.0, 0.0)
