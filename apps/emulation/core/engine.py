"""The event engine: progress of jobs on emulated servers, in cluster time.

A job's speed is the sum over its parts of platform speed x scale-up x interference (for a job
whose parts wait for each other: its units x the slowest of these per unit), times scale-out
efficiency, rack factor, the share of its units that its tasks keep busy, and its phase's rate.
Speeds are recomputed only on servers where a job started, ended, migrated or changed its phase.

Units that migrate do no work and cause no pressure until they arrive; meanwhile they are allocated
on both servers. The job's layout factor changes when they arrive.

Events are processed by `event_kernels`, except those of migrating jobs.
"""

import sys
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.emulation.core import event_kernels
from apps.emulation.core.event_kernels import (
    EngineState,
    StartedParts,
    event_queue,
    free_parts,
    phase_table,
    run_table,
)
from apps.emulation.core.events import (
    EngineEvent,
    EngineOrder,
    EventKind,
    JobReadings,
    Machines,
    ServerReadings,
)
from apps.emulation.core.readings import JobFacts, job_readings, server_readings
from apps.emulation.core.runs import (
    EngineMigration,
    RunningJob,
    check_growth,
    check_migration,
    check_order,
    layout_factor,
)
from apps.emulation.core.tables import (
    job_table,
    part_table,
    server_table,
    with_more_jobs,
    with_more_parts,
    with_phases,
)
from apps.emulation.core.truth import Truth, wave_efficiency
from apps.inventory.core.snapshot import Floats, Ints

_FIRST_SLOTS: Final = 1024
_EVENTS: Final = 256  # returned by one call of the kernel, at most
_KINDS: Final = (EventKind.FINISHED, EventKind.MIGRATED, EventKind.PHASE)  # by number


class _Output(NamedTuple):
    """Events of one call of the kernel."""

    at: Floats
    kind: Ints
    slot: Ints
    phase: Ints


class _Facts(NamedTuple):
    """Arguments of `JobFacts.fill`, which is called only before a monitor is read."""

    order: EngineOrder
    units: int
    busy: float
    now: float
    end_s: float


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
        self._facts = JobFacts.empty(_FIRST_SLOTS)
        self._unfilled: dict[int, _Facts] = {}
        self._free_jobs = list(range(_FIRST_SLOTS - 1, -1, -1))
        self._slots: dict[Hashable, int] = {}
        self._runs: dict[int, RunningJob] = {}
        self._number = 0
        self._output = _Output(
            np.zeros(_EVENTS), *(np.zeros(_EVENTS, dtype=np.int64) for _ in range(3))
        )
        self._state = EngineState(
            servers=server_table(machines),
            jobs=job_table(_FIRST_SLOTS),
            parts=part_table(_FIRST_SLOTS),
            runs=run_table(_FIRST_SLOTS),
            phases=phase_table(_FIRST_SLOTS, 1, N_SOURCES),
            queue=event_queue(_FIRST_SLOTS),
            free_parts=free_parts(_FIRST_SLOTS),
            free_units=machines.units.astype(np.int64),
            marked=np.zeros(_FIRST_SLOTS, dtype=np.bool_),
            changed=np.zeros(_FIRST_SLOTS, dtype=np.int64),
            touched=np.zeros(len(machines.units) + 2, dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._slots

    @property
    def used_units(self) -> Ints:
        """(S,) allocated units of each server; a copy."""
        used: Ints = self.machines.units - self._state.free_units
        return used

    @property
    def next_event_s(self) -> float:
        """Time of the next event if nothing changes; infinite if there is none."""
        queue = self._state.queue
        return float(queue.at[queue.slots[0]]) if queue.size[0] else float("inf")

    def start(self, orders: Iterable[EngineOrder], now: float) -> None:
        """Start jobs at `now`. O(parts + neighbours of the touched servers)."""
        self._advance_clock(now)
        placed: list[int] = []
        rows: list[tuple[int, int, int, float]] = []
        try:
            for order in orders:
                if order.key in self._slots:
                    raise ValueError(f"job {order.key} is already running")
                check_order(order, self._state.free_units)
                placed.append(self._fill(order, now))
                rows += self._parts_of(placed[-1], order.truth, order.parts)
        finally:
            if placed:
                self._reserve_parts(len(rows))
                started, slots = _started(rows), np.array(placed, dtype=np.int64)
                event_kernels.start_jobs(self._state, started, slots, now)

    def cancel(self, key: Hashable, now: float) -> float:
        """Stop a job and return the share of its work that was done.

        Raises
        ------
        KeyError : no such job runs.
        """
        self._advance_clock(now)
        slot = self._slots[key]
        self._fill_facts()
        touched = self._remove(slot)
        self._settle(touched, now)
        return self._facts.progress(self._state.jobs, np.array([slot]), now).item()

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
        check_migration(run, migration, now, self._state.free_units)
        self._advance_clock(now)
        run.migration = migration
        self._state.runs.until_s[slot] = migration.until_s
        self._state.free_units[to] -= units
        remaining = {**run.parts, server: run.parts[server] - units}
        self._lay_out(slot, [*remaining.items(), (to, 0)])
        self._settle([*run.parts, to], now)

    def grow(self, key: Hashable, parts: Sequence[tuple[int, int]], now: float) -> None:
        """Add units to a running job: they work from `now` on.

        Raises
        ------
        KeyError : no such job runs.
        ValueError : the job is migrating, or a server has too few free units.
        """
        slot = self._slots[key]
        run = self._runs[slot]
        check_growth(run, parts, self._state.free_units)
        self._advance_clock(now)
        self._fill_facts()
        run.add(parts)
        units = sum(run.parts.values())
        self._facts.resize(slot, units, run.busy, is_exchanging=len(run.parts) > 1)
        if run.order.truth.is_in_step:
            self._state.jobs.in_step[slot] = units
        for server, count in parts:
            self._state.free_units[server] -= count
        self._lay_out(slot, run.parts.items())
        self._settle(run.parts, now)

    def advance(self, to: float) -> list[EngineEvent]:
        """Advance the clock to `to`; returns the events in order."""
        events: list[EngineEvent] = []
        limit = min(to, sys.float_info.max)
        while self.next_event_s <= limit:
            at, kinds, slots, phases = self._output
            count = event_kernels.advance_events(self._state, limit, *self._output)
            for i in range(count):
                slot, kind = int(slots[i]), _KINDS[kinds[i]]
                key = self._runs[slot].order.key
                if kind is EventKind.FINISHED:
                    self._forget(slot)
                events.append(EngineEvent(float(at[i]), kind, key, int(phases[i])))
            if not count:
                events.append(self._fire_migrating())
        self._advance_clock(to)
        return events

    def servers(self) -> ServerReadings:
        """Read the monitors of the servers, with noise. O(servers + parts)."""
        self._fill_facts()
        return server_readings(
            self.machines, self._state.jobs, self._state.parts, self._facts, self._rng, self.now
        )

    def jobs(self, keys: Sequence[Hashable] | None = None) -> JobReadings:
        """Read the monitors of these jobs (all if None), with noise. O(jobs)."""
        chosen = list(self._slots) if keys is None else list(keys)
        slots = np.array([self._slots[key] for key in chosen], dtype=np.int64)
        self._fill_facts()
        return job_readings(chosen, slots, self._state.jobs, self._facts, self._rng, self.now)

    def fits(self, order: EngineOrder) -> bool:
        """Whether all units of an order are free."""
        return all(self._state.free_units[server] >= units for server, units in order.parts)

    def speed(self, key: Hashable) -> float:
        """Work per second of one job now, without noise."""
        return float(self._state.jobs.speed[self._slots[key]])

    def _fill(self, order: EngineOrder, now: float) -> int:
        """Fill the rows of one order and reserve its units; returns its slot."""
        slot, truth = self._free_job_slot(), order.truth
        units = sum(count for _, count in order.parts)
        busy = 1.0 if order.tasks is None else wave_efficiency(order.tasks, units)
        is_service = order.work_s == np.inf
        left = 1.0 - order.done_share if is_service else 1.0
        end_s = np.inf if order.duration_s is None else now + order.duration_s * left
        run = RunningJob(order, dict(order.parts), busy)
        self._slots[order.key], self._runs[slot] = slot, run
        self._unfilled[slot] = _Facts(order, units, busy, now, end_s)
        jobs, runs, curves = self._state.jobs, self._state.runs, truth.curves
        jobs.knee[slot], jobs.decay[slot] = curves.knee, curves.decay
        jobs.plateau[slot], jobs.floor[slot] = curves.plateau, curves.floor
        jobs.done[slot] = 0.0 if is_service else order.done_share * order.work_s
        jobs.updated_s[slot], jobs.speed[slot], jobs.next_s[slot] = now, 0.0, np.inf
        jobs.first_part[slot] = -1
        jobs.in_step[slot] = units if truth.is_in_step else 0.0
        self._number += 1
        runs.number[slot], runs.cycle[slot], runs.work_s[slot] = self._number, 0, order.work_s
        runs.started_s[slot], runs.end_s[slot], runs.until_s[slot] = now, end_s, np.inf
        runs.layout[slot] = layout_factor(run, self.machines.rack)
        self._state = with_phases(self._state, slot, truth.phases)
        runs = self._state.runs
        starts = truth.phases.starts
        runs.phase[slot] = 0
        if order.done_share > 0.0 and not is_service:
            runs.phase[slot] = int(np.searchsorted(starts, order.done_share, side="right")) - 1
        for server, count in order.parts:
            self._state.free_units[server] -= count
        return slot

    def _parts_of(
        self, slot: int, truth: Truth, parts: Iterable[tuple[int, int]]
    ) -> list[tuple[int, int, int, float]]:
        """Slot, server, units and speed in isolation of each part."""
        platform, server_speed = self.machines.platform, self.machines.speed
        rows = []
        for server, units in parts:
            speed = truth.platform_speed[platform[server]] * server_speed[server]
            rows.append((slot, server, units, units and speed * truth.scale_up.speed_up(units)))
        return rows

    def _lay_out(self, slot: int, parts: Iterable[tuple[int, int]]) -> None:
        """Replace the working units of a job by these, per server, and enter its phase again."""
        run, state = self._runs[slot], self._state
        event_kernels.withdraw(state, slot)
        rows = self._parts_of(slot, run.order.truth, parts)
        self._reserve_parts(len(rows))
        event_kernels.place_parts(self._state, _started(rows))
        state.runs.layout[slot] = layout_factor(run, self.machines.rack)
        event_kernels.enter_phase(state.jobs, state.runs, state.phases, slot)

    def _reserve_parts(self, count: int) -> None:
        """Double the part slots until so many are free."""
        while self._state.free_parts.left[0] < count:
            self._state = with_more_parts(self._state)

    def _free_job_slot(self) -> int:
        if not self._free_jobs:
            size = len(self._state.phases.starts)
            self._facts = self._facts.grown()
            self._state = with_more_jobs(self._state)
            self._free_jobs = list(range(2 * size - 1, size - 1, -1))
        return self._free_jobs.pop()

    def _fill_facts(self) -> None:
        """Fill the facts of the jobs that were started since they were read last."""
        for slot, facts in self._unfilled.items():
            order, units, busy, now, end_s = facts
            self._facts.fill(slot, order, units=units, busy=busy, now=now, end_s=end_s)
        self._unfilled.clear()

    def _fire_migrating(self) -> EngineEvent:
        """Apply the next event, of a migrating job: its end, its arrival or its next phase."""
        state = self._state
        slot = int(state.queue.slots[0])
        run, at = self._runs[slot], float(state.queue.at[slot])
        kind = _KINDS[state.queue.kind[slot]]
        if kind is EventKind.FINISHED:
            touched = self._remove(slot)
        elif kind is EventKind.MIGRATED and run.migration is not None:
            touched = self._complete_migration(slot, run, run.migration)
        else:
            event_kernels.start_phase(state, slot, at)
            touched = list(run.parts)
        self._advance_clock(at)
        self._settle(touched, at)
        phase = int(self._state.runs.phase[slot]) if kind is EventKind.PHASE else 0
        return EngineEvent(at, kind, run.order.key, phase)

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
        self._state.free_units[server] += units
        run.migration = None
        self._state.runs.until_s[slot] = np.inf
        self._lay_out(slot, run.parts.items())
        return touched

    def _remove(self, slot: int) -> list[int]:
        """Free the units and parts of a job; returns the affected servers."""
        run, free = self._runs[slot], self._state.free_units
        event_kernels.withdraw(self._state, slot)
        event_kernels.unschedule(self._state.queue, self._state.runs, slot)
        touched = list(run.parts)
        for server, units in run.parts.items():
            free[server] += units
        if run.migration is not None:
            free[run.migration.to] += run.migration.units
            touched.append(run.migration.to)
        self._forget(slot)
        return touched

    def _forget(self, slot: int) -> None:
        """Free the slot of a job that has left its servers."""
        del self._slots[self._runs.pop(slot).order.key]
        self._unfilled.pop(slot, None)
        self._free_jobs.append(slot)

    def _settle(self, touched: Iterable[int], now: float) -> None:
        event_kernels.settle(self._state, np.fromiter(touched, dtype=np.int64), now)

    def _advance_clock(self, to: float) -> None:
        if not self.now <= to < np.inf:
            raise ValueError(f"the clock cannot go from {self.now} to {to}")
        self.now = to


def _started(rows: Sequence[tuple[int, int, int, float]]) -> StartedParts:
    slots, servers, units, speeds = zip(*rows, strict=True)
    return StartedParts(
        np.array(slots, dtype=np.int64),
        np.array(servers, dtype=np.int64),
        np.array(units, dtype=np.int64),
        np.array(speeds, dtype=np.float64),
    )
