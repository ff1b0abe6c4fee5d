"""The event engine: how jobs progress on emulated servers, in cluster time.

A job's speed is the sum over its parts of platform speed x scale-up x interference (of a job in
step: its units x the least of that per unit), times scale-out efficiency, times what racks leave
of it, times the share of its units its tasks keep busy, times its phase. Speeds change only where
something changed: on the servers where a job started, ended, moved or entered a phase.

Units that move do no work and cause none of their pressure until they have arrived; they hold
their place on both servers. What the job's own layout costs it changes when they arrive.

Events lie on a heap as (time, priority, serial, slot); an entry whose serial is no longer the
slot's is stale, one whose job was slowed since is pushed back.
"""

import heapq
import sys
from collections.abc import Hashable, Iterable, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from apps.emulation.core.events import (
    Event,
    EventKind,
    JobReadings,
    Machines,
    Order,
    ServerReadings,
)
from apps.emulation.core.kernels import settle
from apps.emulation.core.readings import JobFacts, job_readings, server_readings
from apps.emulation.core.runs import Move, Run, check_move, check_order, layout_factor
from apps.emulation.core.tables import (
    attach,
    detach,
    grown_jobs,
    grown_parts,
    job_table,
    part_table,
    server_table,
)
from apps.emulation.core.truth import wave_efficiency
from apps.inventory.core.snapshot import Ints

_FIRST_SLOTS: Final = 1024
_PRIORITY: Final = MappingProxyType(
    {EventKind.FINISHED: 0, EventKind.MOVED: 1, EventKind.PHASE: 2}
)


class Engine:
    """Emulated servers and the jobs on them; all times in cluster seconds, never going back.

    Raises
    ------
    ValueError : from any method, for an order that does not fit or a time before the last one.
    """

    def __init__(self, machines: Machines, rng: np.random.Generator) -> None:
        self.machines = machines
        self.now = 0.0
        self._rng = rng
        self._servers = server_table(machines)
        self._jobs = job_table(_FIRST_SLOTS)
        self._parts = part_table(_FIRST_SLOTS)
        self._facts = JobFacts.empty(_FIRST_SLOTS)
        self._marked = np.zeros(_FIRST_SLOTS, dtype=np.bool_)
        self._changed = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self._entry_s = np.full(_FIRST_SLOTS, np.inf)
        self._entry_serial = np.full(_FIRST_SLOTS, -1, dtype=np.int64)
        self._free_jobs = list(range(_FIRST_SLOTS - 1, -1, -1))
        self._free_parts = list(range(_FIRST_SLOTS - 1, -1, -1))
        self._free_units = machines.units.astype(np.int64)
        self._slots: dict[Hashable, int] = {}
        self._runs: dict[int, Run] = {}
        self._heap: list[tuple[float, int, int, int]] = []
        self._serial = 0

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._slots

    @property
    def used_units(self) -> Ints:
        """(S,) units held on each server; a copy."""
        held: Ints = self.machines.units - self._free_units
        return held

    @property
    def next_event_s(self) -> float:
        """When the next event is due if nothing changes; infinite when nothing is due."""
        while self._heap:
            at, _, serial, slot = self._heap[0]
            if self._entry_serial[slot] == serial and self._jobs.next_s[slot] <= at:
                return at
            heapq.heappop(self._heap)
            if self._entry_serial[slot] == serial:
                self._push(slot)
        return float("inf")

    def start(self, orders: Iterable[Order], now: float) -> None:
        """Start jobs at `now`. O(parts + neighbours of the touched servers)."""
        self._advance_clock(now)
        touched: set[int] = set()
        for order in orders:
            if order.key in self._slots:
                raise ValueError(f"job {order.key} is running already")
            check_order(order, self._free_units)
            touched.update(self._place(order, now))
        self._settle(touched, now)

    def cancel(self, key: Hashable, now: float) -> float:
        """Stop a job and return the share of it that was done.

        Raises
        ------
        KeyError : no such job runs.
        """
        self._advance_clock(now)
        slot = self._slots[key]
        touched = self._remove(slot)
        self._settle(touched, now)
        return self._facts.progress(self._jobs, np.array([slot]), now).item()

    def move(
        self, key: Hashable, server: int, to: int, units: int, now: float, stall_s: float
    ) -> None:
        """Let units of one part of a job go to another server, where they run after `stall_s`.

        Units of `to` are held from `now` on, those of `server` until the units have arrived, which
        `advance` tells as MOVED. Until then they do no work; if the job ends first, both are free.

        Raises
        ------
        KeyError : no such job runs.
        ValueError : the job moves already, has not so many units on `server`, or `to` no room.
        """
        slot = self._slots[key]
        run = self._runs[slot]
        move = Move(server, to, units, now + stall_s)
        check_move(run, move, now, self._free_units)
        self._advance_clock(now)
        run.move = move
        self._free_units[to] -= units
        left = {**run.parts, server: run.parts[server] - units}
        self._lay_out(slot, [*left.items(), (to, 0)])
        self._enter_phase(slot, run)
        self._settle([*run.parts, to], now)

    def advance(self, to: float) -> list[Event]:
        """Let time pass up to `to` and tell what happened, in order."""
        events: list[Event] = []
        while self.next_event_s <= min(to, sys.float_info.max):
            at, _, _, slot = heapq.heappop(self._heap)
            self._entry_s[slot] = np.inf
            events.append(self._fire(slot, at))
        self._advance_clock(to)
        return events

    def servers(self) -> ServerReadings:
        """Read the servers' monitors now, with noise. O(servers + parts)."""
        return server_readings(
            self.machines, self._jobs, self._parts, self._facts, self._rng, self.now
        )

    def jobs(self, keys: Sequence[Hashable] | None = None) -> JobReadings:
        """Read the monitors of these jobs (of all, if None) now, with noise. O(jobs)."""
        chosen = list(self._slots) if keys is None else list(keys)
        slots = np.array([self._slots[key] for key in chosen], dtype=np.int64)
        return job_readings(chosen, slots, self._jobs, self._facts, self._rng, self.now)

    def fits(self, order: Order) -> bool:
        """Whether all units of an order are free now."""
        return all(self._free_units[server] >= units for server, units in order.parts)

    def speed(self, key: Hashable) -> float:
        """Work per second of one job now: the truth, without noise."""
        return float(self._jobs.speed[self._slots[key]])

    def _place(self, order: Order, now: float) -> list[int]:
        """Fill the slots of one order; the servers it touches."""
        slot = self._take_job_slot()
        units = sum(count for _, count in order.parts)
        busy = 1.0 if order.tasks is None else wave_efficiency(order.tasks, units)
        left = 1.0 - order.done_share if np.isinf(order.work_s) else 1.0
        end_s = np.inf if order.duration_s is None else now + order.duration_s * left
        run = Run(order, dict(order.parts), busy, started_s=now, end_s=end_s)
        self._slots[order.key] = slot
        self._runs[slot] = run
        jobs = self._jobs
        jobs.done[slot] = 0.0 if np.isinf(order.work_s) else order.done_share * order.work_s
        jobs.seen_s[slot], jobs.speed[slot], jobs.next_s[slot] = now, 0.0, np.inf
        jobs.first_part[slot] = -1
        self._facts.fill(slot, order, units=units, busy=busy, now=now, end_s=end_s)
        jobs.in_step[slot] = units if order.truth.is_in_step else 0.0
        for server, count in order.parts:
            self._free_units[server] -= count
        self._lay_out(slot, order.parts)
        if np.isfinite(order.work_s):
            starts = order.truth.phases.starts
            run.phase = int(np.searchsorted(starts, order.done_share, side="right")) - 1
        self._enter_phase(slot, run)
        return list(run.parts)

    def _lay_out(self, slot: int, parts: Iterable[tuple[int, int]]) -> None:
        """Put the units of a job that are at work, by server, in place of those it had."""
        self._withdraw(slot)
        for server, units in parts:
            self._place_part(slot, server, units)

    def _withdraw(self, slot: int) -> None:
        part = int(self._jobs.first_part[slot])
        while part >= 0:
            detach(self._servers, self._parts, part)
            self._free_parts.append(part)
            part = int(self._parts.next_part[part])
        self._jobs.first_part[slot] = -1

    def _place_part(self, slot: int, server: int, units: int) -> None:
        if not self._free_parts:
            size = len(self._parts.job)
            self._parts = grown_parts(self._parts)
            self._free_parts = list(range(2 * size - 1, size - 1, -1))
        part = self._free_parts.pop()
        truth, parts = self._runs[slot].order.truth, self._parts
        speed = truth.platform_speed[self.machines.platform[server]]
        parts.job[part], parts.server[part], parts.units[part] = slot, server, units
        parts.speed[part] = speed * truth.scale_up.speed_up(units) if units else 0.0
        parts.effect[part] = 1.0
        parts.next_part[part] = self._jobs.first_part[slot]
        self._jobs.first_part[slot] = part
        attach(self._servers, parts, part)

    def _take_job_slot(self) -> int:
        if not self._free_jobs:
            size = len(self._jobs.done)
            self._jobs = grown_jobs(self._jobs)
            self._facts = self._facts.grown()
            self._marked = np.zeros(2 * size, dtype=np.bool_)
            self._changed = np.zeros(2 * size, dtype=np.int64)
            self._entry_s = np.concatenate((self._entry_s, np.full(size, np.inf)))
            self._entry_serial = np.concatenate((self._entry_serial, np.full(size, -1)))
            self._free_jobs = list(range(2 * size - 1, size - 1, -1))
        return self._free_jobs.pop()

    def _enter_phase(self, slot: int, run: Run) -> None:
        """Set scores, factor and the next goal for the run's present phase."""
        jobs, phases = self._jobs, run.order.truth.phases
        jobs.tolerated[slot] = phases.tolerated[run.phase]
        jobs.caused[slot] = phases.caused[run.phase]
        jobs.factor[slot] = layout_factor(run, self.machines.rack) * phases.rate[run.phase]
        ends_s = run.end_s if run.move is None else min(run.end_s, run.move.until_s)
        last = run.phase + 1 == len(phases.starts)
        if np.isfinite(run.order.work_s):
            share = 1.0 if last else phases.starts[run.phase + 1]
            jobs.goal[slot], jobs.due_s[slot] = share * run.order.work_s, ends_s
            return
        next_start = run.cycle + (1.0 if last else phases.starts[run.phase + 1])
        turn = np.inf if len(phases.starts) == 1 else run.started_s + next_start * phases.period_s
        jobs.goal[slot], jobs.due_s[slot] = np.inf, min(ends_s, turn)

    def _fire(self, slot: int, at: float) -> Event:
        """Make the event due for a slot happen: the job's end, the end of a move, a phase."""
        run, kind = self._runs[slot], self._due(slot)
        if kind is EventKind.FINISHED:
            touched = self._remove(slot)
        elif kind is EventKind.MOVED and run.move is not None:
            touched = self._arrive(slot, run, run.move)
        else:
            touched = self._turn(slot, run, at)
        self._advance_clock(at)
        self._settle(touched, at)
        return Event(at, kind, run.order.key, run.phase if kind is EventKind.PHASE else 0)

    def _turn(self, slot: int, run: Run, at: float) -> list[int]:
        """Begin the next phase; the servers it touches."""
        jobs = self._jobs
        if np.isfinite(jobs.goal[slot]):
            # exactly on the boundary, so that rounding cannot leave a sliver of the old phase
            jobs.done[slot], jobs.seen_s[slot] = jobs.goal[slot], at
        run.phase = (run.phase + 1) % len(run.order.truth.phases.starts)
        run.cycle += run.phase == 0
        self._enter_phase(slot, run)
        return list(run.parts)

    def _arrive(self, slot: int, run: Run, move: Move) -> list[int]:
        """Let the units of a move work where they went; the servers it touches."""
        server, to, units, _ = move
        touched = [*run.parts, to]
        run.parts[to] = run.parts.get(to, 0) + units
        run.parts[server] -= units
        if not run.parts[server]:
            del run.parts[server]
        self._free_units[server] += units
        run.move = None
        self._lay_out(slot, run.parts.items())
        self._enter_phase(slot, run)
        return touched

    def _due(self, slot: int) -> EventKind:
        """Tell what happens next to a job."""
        run, next_s = self._runs[slot], self._jobs.next_s[slot]
        if next_s >= run.end_s:
            return EventKind.FINISHED
        if run.move is not None and next_s >= run.move.until_s:
            return EventKind.MOVED
        work_ends = np.isfinite(run.order.work_s) and self._jobs.goal[slot] == run.order.work_s
        return EventKind.FINISHED if work_ends else EventKind.PHASE

    def _remove(self, slot: int) -> list[int]:
        """Free the slots of a job; the servers it leaves."""
        run = self._runs.pop(slot)
        del self._slots[run.order.key]
        self._withdraw(slot)
        touched = list(run.parts)
        for server, units in run.parts.items():
            self._free_units[server] += units
        if run.move is not None:
            self._free_units[run.move.to] += run.move.units
            touched.append(run.move.to)
        self._entry_serial[slot], self._entry_s[slot] = -1, np.inf
        self._free_jobs.append(slot)
        return touched

    def _settle(self, touched: Iterable[int], now: float) -> None:
        servers = np.fromiter(touched, dtype=np.int64)
        count = settle(
            self._servers, self._jobs, self._parts, servers, now, self._marked, self._changed
        )
        changed = self._changed[:count]
        sooner = changed[self._jobs.next_s[changed] < self._entry_s[changed]]
        for slot in sooner.tolist():
            self._push(slot)

    def _push(self, slot: int) -> None:
        at = float(self._jobs.next_s[slot])
        self._serial += 1
        self._entry_s[slot], self._entry_serial[slot] = at, self._serial
        if at < np.inf:
            heapq.heappush(self._heap, (at, _PRIORITY[self._due(slot)], self._serial, slot))

    def _advance_clock(self, to: float) -> None:
        if not self.now <= to < np.inf:
            raise ValueError(f"time goes back, or nowhere, from {self.now} to {to}")
        self.now = to
