"""The engine's oracle: every speed is recomputed from the formulas at every event."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apps.emulation.core.events import EngineOrder, Machines
from apps.emulation.core.stragglers import task_durations
from apps.emulation.core.truth import (
    interference_factor,
    split_share,
    unit_pressure,
)

Event = tuple[float, str, int, int]  # time, kind, key, phase


@dataclass
class PlainJob:
    order: EngineOrder
    number: int
    started_s: float
    done: float = 0.0
    phase: int = 0
    cycle: int = 0


def list_scheduled(order: EngineOrder, units: int) -> float:
    """Share of the units that the tasks keep busy if a free unit takes the next task."""
    assert order.tasks is not None
    durations = task_durations(order.tasks, order.truth.task_spread, order.task_seed)
    free_s = [0.0] * units
    ends = []
    for duration in durations:
        ends.append(heapq.heappop(free_s) + duration)
        heapq.heappush(free_s, ends[-1])
    return float(durations.sum() / (units * max(ends)))


class PlainEngine:
    """Jobs without migrations on a few servers. O(events x jobs x servers)."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.now = 0.0
        self.jobs: dict[int, PlainJob] = {}
        self.work_done = 0.0
        self._started = 0

    def start(self, orders: Sequence[EngineOrder], now: float) -> None:
        self.now = now
        for order in orders:
            self._started += 1
            self.jobs[int(str(order.key))] = PlainJob(order, self._started, now)

    def advance(self, to: float) -> list[Event]:
        events: list[Event] = []
        while self.jobs:
            speeds = {key: self.speed(job) for key, job in self.jobs.items()}
            coming = {key: self.next_event(job, speeds[key]) for key, job in self.jobs.items()}
            key = min(coming, key=lambda k: (*coming[k], self.jobs[k].number))
            at, kind = coming[key]
            if at > to or at == np.inf:
                break
            self.work(speeds, at)
            job = self.jobs[key]
            if kind == 0:
                del self.jobs[key]
                events.append((at, "finished", key, 0))
                continue
            phases = job.order.truth.phases
            if np.isfinite(job.order.work_s):
                job.done = phases.starts[job.phase + 1] * job.order.work_s
            job.phase = (job.phase + 1) % len(phases.starts)
            job.cycle += job.phase == 0
            events.append((at, "phase", key, job.phase))
        self.work({key: self.speed(job) for key, job in self.jobs.items()}, to)
        return events

    def work(self, speeds: dict[int, float], at: float) -> None:
        for key, job in self.jobs.items():
            job.done += speeds[key] * (at - self.now)
        self.now = at

    def next_event(self, job: PlainJob, speed: float) -> tuple[float, int]:
        """Time and kind: 0 = end, 2 = phase."""
        order, phases = job.order, job.order.truth.phases
        end_s = job.started_s + (np.inf if order.duration_s is None else order.duration_s)
        is_last = job.phase + 1 == len(phases.starts)
        share = 1.0 if is_last else float(phases.starts[job.phase + 1])
        if np.isfinite(order.work_s):
            left = max(0.0, share * order.work_s - job.done)
            at, kind = (self.now + left / speed if speed > 0.0 else np.inf), 0 if is_last else 2
        else:
            at, kind = job.started_s + (job.cycle + share) * phases.period_s, 2
            if len(phases.starts) == 1:
                at = np.inf
        return (end_s, 0) if end_s <= at else (at, kind)

    def speed(self, job: PlainJob) -> float:
        """Work per second, from the table in docs/emulation.md."""
        order, truth = job.order, job.order.truth
        rates = [self.part_rate(job, server, units) for server, units in order.parts]
        total = sum(units for _, units in order.parts)
        per_unit = [rate / units for rate, (_, units) in zip(rates, order.parts, strict=True)]
        speed = total * min(per_unit) if truth.is_in_step else sum(rates)
        racks = split_share((int(self.machines.rack[s]), units) for s, units in order.parts)
        waves = 1.0 if order.tasks is None else list_scheduled(order, total)
        return float(
            speed
            * waves
            * truth.scale_out.efficiency(len(order.parts))
            * (1.0 - truth.rack_loss * racks)
            * truth.phases.rate[job.phase]
        )

    def part_rate(self, job: PlainJob, server: int, units: int) -> float:
        truth, machines = job.order.truth, self.machines
        total = np.zeros(truth.caused.shape)
        for other in self.jobs.values():
            for s, count in other.order.parts:
                if s == server:
                    total += count * other.order.truth.phases.caused[other.phase]
        own = units * truth.phases.caused[job.phase]
        pressure = unit_pressure(total, own, int(machines.units[server]))
        tolerated = truth.phases.tolerated[job.phase]
        return float(
            truth.platform_speed[machines.platform[server]]
            * machines.speed[server]
            * truth.scale_up.speed_up(units)
            * interference_factor(pressure, tolerated, truth.curves)
        )
