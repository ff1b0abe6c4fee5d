"""The event engine: progress of jobs on emulated servers, in cluster time.

A job's speed is the sum over its parts of platform speed x scale-up x interference (for a job
whose parts wait for each other: its units x the slowest of these per unit), times scale-out
efficiency, rack factor, the share of its units that its tasks keep busy, and its phase's rate.
Speeds are recomputed only on servers where a job started, ended, migrated or changed its phase.

Units that migrate do no work and cause no pressure until they arrive; meanwhile they are allocated
on both servers. The job's layout factor changes when they arrive.

The heap holds events as (time, priority, serial, slot). An entry is stale if its serial is not the
slot's current one; if its job has slowed down since, it is pushed again at the later time.
"""

import heapq
import sys
from collections.abc import Hashable, Iterable, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from apps.emulation.core.events import (
    EngineEvent,
    EngineOrder,
    EventKind,
    JobReadings,
    Machines,
    ServerReadings,
)
from apps.emulation.core.kernels import recompute_jobs
from apps.emulation.core.readings import JobFacts, job_readings, server_readings
from apps.emulation.core.runs import (
    EngineMigration,
    RunningJob,
    check_migration,
    check_order,
    layout_factor,
)
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
    {EventKind.FINISHED: 0, EventKind.MIGRATED: 1, EventKind.PHASE: 2}
)


class Engine:
    """Emulated servers and their jobs; all times in cluster seconds, never decreasing.

    Raises
    ------
    ValueError : in any method, for an order that does not fit or a time before the last one.
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
        self._runs: dict[int, RunningJob] = {}
        self._heap: list[tuple[float, int, int, int]] = []
        self._serial = 0

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._slots

    @property
    def used_units(self) -> Ints:
        """(S,) allocated units of each server; a copy."""
        used: Ints = self.machines.units - self._free_units
        return used

    @property
    def next_event_s(self) -> float:
        """Time of the next event if nothing changes; infinite if there is none."""
        while self._heap:
            at, _, serial, slot = self._heap[0]
            if self._entry_serial[slot] == serial and self._jobs.next_s[slot] <= at:
                return at
            heapq.heappop(self._heap)
            if self._entry_serial[slot] == serial:
                self._push(slot)
        return float("inf")

    def start(self, orders: Iterable[EngineOrder], now: float) -> None:
        """Start jobs at `now`. O(parts + neighbours of the touched servers)."""
        self._advance_clock(now)
        touched: set[int] = set()
        for order in orders:
            if order.key in self._slots:
                raise ValueError(f"job {order.key} is already running")
            check_order(order, self._free_units)
            touched.update(self._place(order, now))
        self._recompute(touched, now)

    def cancel(self, key: Hashable, now: float) -> float:
        """Stop a job and return the share of its work that was done.

        Raises
        ------
        KeyError : no such job runs.
        """
        self._advance_clock(now)
        slot = self._slots[key]
        touched = self._remove(slot)
        self._recompute(touched, now)
        return self._facts.progress(self._jobs, np.array([slot]), now).item()

    def migrate(
        self, key: Hashable, server: int, to: int, units: int, now: float, stall_s: float
    ) -> None:
        """Migrate units of one part of a job to another server, where they run after `stall_s`.

        Units of `to` are allocated from `now` on, those of `server` until the migration completes
        (event MIGRATED). Until then they do no work. If the job ends first, both are freed.

        Raises
        ------
        KeyError : no such job runs.
        ValueError : the job is migrating already, has too few units on `server`, or `to` has too
            few free units.
        """
        slot = self._slots[key]
        run = self._runs[slot]
        migration = EngineMigration(server, to, units, now + stall_s)
        check_migration(run, migration, now, self._free_units)
        self._advance_clock(now)
        run.migration = migration
        self._free_units[to] -= units
        remaining = {**run.parts, server: run.parts[server] - units}
        self._lay_out(slot, [*remaining.items(), (to, 0)])
        self._enter_phase(slot, run)
        self._recompute([*run.parts, to], now)

    def advance(self, to: float) -> list[EngineEvent]:
        """Advance the clock to `to`; returns the events in order."""
        events: list[EngineEvent] = []
        while self.next_event_s <= min(to, sys.float_info.max):
            at, _, _, slot = heapq.heappop(self._heap)
            self._entry_s[slot] = np.inf
            events.append(self._fire(slot, at))
        self._advance_clock(to)
        return events

    def servers(self) -> ServerReadings:
        """Read the monitors of the servers, with noise. O(servers + parts)."""
        return server_readings(
            self.machines, self._jobs, self._parts, self._facts, self._rng, self.now
        )

    def jobs(self, keys: Sequence[Hashable] | None = None) -> JobReadings:
        """Read the monitors of these jobs (all if None), with noise. O(jobs)."""
        chosen = list(self._slots) if keys is None else list(keys)
        slots = np.array([self._slots[key] for key in chosen], dtype=np.int64)
        return job_readings(chosen, slots, self._jobs, self._facts, self._rng, self.now)

    def fits(self, order: EngineOrder) -> bool:
        """Whether all units of an order are free."""
        return all(self._free_units[server] >= units for server, units in order.parts)

    def speed(self, key: Hashable) -> float:
        """Work per second of one job now, without noise."""
        return float(self._jobs.speed[self._slots[key]])

    def _place(self, order: EngineOrder, now: float) -> list[int]:
        """Fill the slots of one order; returns the affected servers."""
        slot = self._free_job_slot()
        units = sum(count for _, count in order.parts)
        busy = 1.0 if order.tasks is None else wave_efficiency(order.tasks, units)
        left = 1.0 - order.done_share if np.isinf(order.work_s) else 1.0
        end_s = np.inf if order.duration_s is None else now + order.duration_s * left
        run = RunningJob(order, dict(order.parts), busy, started_s=now, end_s=end_s)
        self._slots[order.key] = slot
        self._runs[slot] = run
        jobs = self._jobs
        jobs.done[slot] = 0.0 if np.isinf(order.work_s) else order.done_share * order.work_s
        jobs.updated_s[slot], jobs.speed[slot], jobs.next_s[slot] = now, 0.0, np.inf
        jobs.first_part[slot] = -1
        self._facts.fill(slot, order, units=units, busy=busy, now=now, end_s=end_s)
        jobs.in_step[slot] = units if order.truth.is_in_step else 0.0
        curves = order.truth.curves
        jobs.knee[slot], jobs.decay[slot] = curves.knee, curves.decay
        jobs.plateau[slot], jobs.floor[slot] = curves.plateau, curves.floor
        for server, count in order.parts:
            self._free_units[server] -= count
        self._lay_out(slot, order.parts)
        if np.isfinite(order.work_s):
            starts = order.truth.phases.starts
            run.phase = int(np.searchsorted(starts, order.done_share, side="right")) - 1
        self._enter_phase(slot, run)
        return list(run.parts)

    def _lay_out(self, slot: int, parts: Iterable[tuple[int, int]]) -> None:
        """Replace the working units of a job by these, per server."""
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
        speed = truth.platform_speed[self.machines.platform[server]] * self.machines.speed[server]
        parts.job[part], parts.server[part], parts.units[part] = slot, server, units
        parts.speed[part] = speed * truth.scale_up.speed_up(units) if units else 0.0
        parts.effect[part] = 1.0
        parts.next_part[part] = self._jobs.first_part[slot]
        self._jobs.first_part[slot] = part
        attach(self._servers, parts, part)

    def _free_job_slot(self) -> int:
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

    def _enter_phase(self, slot: int, run: RunningJob) -> None:
        """Set scores, factor and next goal for the job's current phase."""
        jobs, phases = self._jobs, run.order.truth.phases
        jobs.tolerated[slot] = phases.tolerated[run.phase]
        jobs.caused[slot] = phases.caused[run.phase]
        jobs.factor[slot] = layout_factor(run, self.machines.rack) * phases.rate[run.phase]
        ends_s = run.end_s if run.migration is None else min(run.end_s, run.migration.until_s)
        last = run.phase + 1 == len(phases.starts)
        if np.isfinite(run.order.work_s):
            share = 1.0 if last else phases.starts[run.phase + 1]
            jobs.goal[slot], jobs.due_s[slot] = share * run.order.work_s, ends_s
            return
        next_start = run.cycle + (1.0 if last else phases.starts[run.phase + 1])
        phase_s = (
            np.inf if len(phases.starts) == 1 else run.started_s + next_start * phases.period_s
        )
        jobs.goal[slot], jobs.due_s[slot] = np.inf, min(ends_s, phase_s)

    def _fire(self, slot: int, at: float) -> EngineEvent:
        """Apply the event that is due for a slot: end, completed migration or next phase."""
        run, kind = self._runs[slot], self._due(slot)
        if kind is EventKind.FINISHED:
            touched = self._remove(slot)
        elif kind is EventKind.MIGRATED and run.migration is not None:
            touched = self._complete_migration(slot, run, run.migration)
        else:
            touched = self._start_phase(slot, run, at)
        self._advance_clock(at)
        self._recompute(touched, at)
        return EngineEvent(at, kind, run.order.key, run.phase if kind is EventKind.PHASE else 0)

    def _start_phase(self, slot: int, run: RunningJob, at: float) -> list[int]:
        """Start the next phase; returns the affected servers."""
        jobs = self._jobs
        if np.isfinite(jobs.goal[slot]):
            # set exactly to the boundary, or rounding could leave a rest of the old phase
            jobs.done[slot], jobs.updated_s[slot] = jobs.goal[slot], at
        run.phase = (run.phase + 1) % len(run.order.truth.phases.starts)
        run.cycle += run.phase == 0
        self._enter_phase(slot, run)
        return list(run.parts)

    def _complete_migration(
        self, slot: int, run: RunningJob, migration: EngineMigration
    ) -> list[int]:
        """Start the migrated units on their new server; returns the affected servers."""
        server, to, units, _ = migration
        touched = [*run.parts, to]
        run.parts[to] = run.parts.get(to, 0) + units
        run.parts[server] -= units
        if not run.parts[server]:
            del run.parts[server]
        self._free_units[server] += units
        run.migration = None
        self._lay_out(slot, run.parts.items())
        self._enter_phase(slot, run)
        return touched

    def _due(self, slot: int) -> EventKind:
        """Kind of the next event of a job."""
        run, next_s = self._runs[slot], self._jobs.next_s[slot]
        if next_s >= run.end_s:
            return EventKind.FINISHED
        if run.migration is not None and next_s >= run.migration.until_s:
            return EventKind.MIGRATED
        work_ends = np.isfinite(run.order.work_s) and self._jobs.goal[slot] == run.order.work_s
        return EventKind.FINISHED if work_ends else EventKind.PHASE

    def _remove(self, slot: int) -> list[int]:
        """Free the slots of a job; returns the affected servers."""
        run = self._runs.pop(slot)
        del self._slots[run.order.key]
        self._withdraw(slot)
        touched = list(run.parts)
        for server, units in run.parts.items():
            self._free_units[server] += units
        if run.migration is not None:
            self._free_units[run.migration.to] += run.migration.units
            touched.append(run.migration.to)
        self._entry_serial[slot], self._entry_s[slot] = -1, np.inf
        self._free_jobs.append(slot)
        return touched

    def _recompute(self, touched: Iterable[int], now: float) -> None:
        servers = np.fromiter(touched, dtype=np.int64)
        count = recompute_jobs(
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
            raise ValueError(f"the clock cannot go from {self.now} to {to}")
        self.now = to
