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

from apps.emulation.core import event_kernels
from apps.emulation.core.event_kernels import EngineState, columns_of
from apps.emulation.core.events import (
    EngineEvent,
    EngineOrder,
    EventKind,
    JobReadings,
    Machines,
    ServerReadings,
)
from apps.emulation.core.kinds import Kinds
from apps.emulation.core.readings import JobFacts, ReadJobs, job_readings, server_readings
from apps.emulation.core.runs import (
    EngineMigration,
    RunningJob,
    check_growth,
    check_migration,
    check_order,
    layout_factor,
)
from apps.emulation.core.start_kernels import start_jobs
from apps.emulation.core.starts import Batch, rows_of
from apps.emulation.core.tables import engine_state, with_more_jobs, with_more_parts
from apps.inventory.core.snapshot import Floats, Ints

_FIRST_SLOTS: Final = 1024
_FIRST_KINDS: Final = 64
_EVENTS: Final = 256  # returned by one call of the kernel, at most
_KINDS: Final = (EventKind.FINISHED, EventKind.MIGRATED, EventKind.PHASE)  # by number


class _Output(NamedTuple):
    """Events of one call of the kernel."""

    at: Floats
    kind: Ints
    slot: Ints
    phase: Ints


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
        self._unfilled: set[int] = set()
        self._free_jobs = list(range(_FIRST_SLOTS - 1, -1, -1))
        self._slots: dict[Hashable, int] = {}
        self._orders: dict[int, EngineOrder] = {}
        self._moved: dict[int, RunningJob] = {}  # that migrate, or have other parts than ordered
        self._number = 0
        self._kinds = Kinds(_FIRST_KINDS)
        self._output = _Output(
            np.zeros(_EVENTS), *(np.zeros(_EVENTS, dtype=np.int64) for _ in range(3))
        )
        self._places = (
            machines.platform.astype(np.int64),
            np.array(machines.speed, dtype=np.float64),
            machines.rack.astype(np.int64),
        )
        self._set_state(engine_state(machines, _FIRST_SLOTS, _FIRST_KINDS))

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
        batch = Batch([], [], [], [0], [])
        try:
            for order in orders:
                self._queue(batch, order)
        finally:
            if batch.orders:
                self._start(batch, now)

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
        run = self._run(slot)
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
        run = self._run(slot)
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
            count = event_kernels.advance_events(self._columns, limit, *self._output)
            rows = zip(*(column[:count].tolist() for column in self._output), strict=True)
            for at, number, slot, phase in rows:
                kind, key = _KINDS[number], self._orders[slot].key
                if kind is EventKind.FINISHED:
                    self._forget(slot)
                events.append(EngineEvent(at, kind, key, phase))
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
        runs = self._state.runs
        caused = self._state.kinds.caused[runs.kind[slots], runs.phase[slots]]
        read = ReadJobs(chosen, slots, caused)
        state = self._state
        return job_readings(read, state.jobs, state.parts, self._facts, self._rng, self.now)

    def fits(self, order: EngineOrder) -> bool:
        """Whether all units of an order are free."""
        return all(self._state.free_units[server] >= units for server, units in order.parts)

    def speed(self, key: Hashable) -> float:
        """Work per second of one job now, without noise."""
        return float(self._state.jobs.speed[self._slots[key]])

    def _set_state(self, state: EngineState) -> None:
        self._state, self._columns = state, columns_of(state)

    def _queue(self, batch: Batch, order: EngineOrder) -> None:
        """Add an order to those to start, with a slot of its own."""
        if order.key in self._slots:
            raise ValueError(f"job {order.key} is already running")
        kind = self._kinds.number(order.truth)
        if kind is None:
            running = self._state.runs.kind[list(self._orders)].tolist()
            state, kind = self._kinds.add(self._state, order.truth, [*running, *batch.kinds])
            self._set_state(state)
        slot = self._slots[order.key] = self._free_job_slot()
        batch.orders.append(order)
        batch.slots.append(slot)
        batch.kinds.append(kind)
        batch.parts.extend(order.parts)
        batch.first.append(len(batch.parts))

    def _start(self, batch: Batch, now: float) -> None:
        """Start the orders of a batch; those from the first one that cannot start are dropped."""
        self._reserve_parts(len(batch.parts))
        started = start_jobs(self._columns, self._places, rows_of(batch), self._number, now)
        self._number += started
        self._orders.update(zip(batch.slots[:started], batch.orders, strict=False))
        self._unfilled.update(batch.slots[:started])
        for slot, order in zip(batch.slots[started:], batch.orders[started:], strict=True):
            del self._slots[order.key]
            self._free_jobs.append(slot)
        if started < len(batch.orders):
            wrong = batch.orders[started]
            check_order(wrong, self._state.free_units)
            raise ValueError(f"order {wrong} cannot start")

    def _run(self, slot: int) -> RunningJob:
        """State of a job that may change its parts."""
        if slot not in self._moved:
            order = self._orders[slot]
            busy = float(self._state.runs.busy[slot])
            self._moved[slot] = RunningJob(order, dict(order.parts), busy)
        return self._moved[slot]

    def _lay_out(self, slot: int, parts: Iterable[tuple[int, int]]) -> None:
        """Replace the working units of a job by these, per server, and enter its phase again."""
        run, truth, machines = self._run(slot), self._orders[slot].truth, self.machines
        event_kernels.withdraw(self._state, slot)
        rows = []
        for server, units in parts:
            speed = truth.platform_speed[machines.platform[server]] * machines.speed[server]
            rows.append((server, units, units and speed * truth.scale_up.speed_up(units)))
        servers, counts, speeds = zip(*rows, strict=True)
        self._reserve_parts(len(rows))
        event_kernels.place_parts(
            self._state, slot, np.array(servers, dtype=np.int64),
            np.array(counts, dtype=np.int64), np.array(speeds, dtype=np.float64),
        )  # fmt: skip
        self._state.runs.layout[slot] = layout_factor(run, machines.rack)
        event_kernels.enter_phase(self._state, slot)

    def _reserve_parts(self, count: int) -> None:
        """Double the part slots until so many are free."""
        while self._state.free_parts.left[0] < count:
            self._set_state(with_more_parts(self._state))

    def _free_job_slot(self) -> int:
        if not self._free_jobs:
            size = len(self._state.runs.number)
            self._facts = self._facts.grown()
            self._set_state(with_more_jobs(self._state))
            self._free_jobs = list(range(2 * size - 1, size - 1, -1))
        return self._free_jobs.pop()

    def _fill_facts(self) -> None:
        """Fill the facts of the jobs that were started since they were read last."""
        runs = self._state.runs
        for slot in self._unfilled:
            order = self._orders[slot]
            self._facts.fill(
                slot, order, units=sum(units for _, units in order.parts),
                busy=float(runs.busy[slot]), now=float(runs.started_s[slot]),
                end_s=float(runs.end_s[slot]),
            )  # fmt: skip
        self._unfilled.clear()

    def _fire_migrating(self) -> EngineEvent:
        """Apply the next event, of a migrating job: its end, its arrival or its next phase."""
        state = self._state
        slot = int(state.queue.slots[0])
        run, at = self._run(slot), float(state.queue.at[slot])
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
        run, free = self._run(slot), self._state.free_units
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
        del self._slots[self._orders.pop(slot).key]
        self._moved.pop(slot, None)
        self._unfilled.discard(slot)
        self._free_jobs.append(slot)

    def _settle(self, touched: Iterable[int], now: float) -> None:
        servers = np.fromiter(touched, dtype=np.int64)
        event_kernels.settle_servers(self._state, servers, now)

    def _advance_clock(self, to: float) -> None:
        if not self.now <= to < np.inf:
            raise ValueError(f"the clock cannot go from {self.now} to {to}")
        self.now = to
