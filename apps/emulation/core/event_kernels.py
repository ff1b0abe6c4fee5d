"""Events of the engine, compiled: a queue of jobs by their next event, and what the events do.

An indexed binary heap holds each running job once, by (time, kind, number of the job), so that no
entry is ever stale. J job slots, Q part slots, K phases, N sources.
"""

import math
from typing import NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.emulation.core.kernels import JobTable, PartTable, ServerTable, recompute_jobs
from apps.inventory.core.snapshot import Bools, Floats, Ints

FINISHED, MIGRATED, PHASE = 0, 1, 2  # in the order in which they happen at one time


class RunTable(NamedTuple):
    """What the next event of a running job depends on, by job slot; all (J,).

    number : of the job in the order of starts
    phase, phases, cycle : the current phase, the number of phases, and of periods completed
    work_s, started_s, end_s : as in `runs.RunningJob`
    until_s : end of its migration, infinite if there is none
    layout : share of the speed that remains after waves, scale-out and rack distances
    period_s : of the phases of a service
    """

    number: Ints
    phase: Ints
    phases: Ints
    cycle: Ints
    work_s: Floats
    started_s: Floats
    end_s: Floats
    until_s: Floats
    layout: Floats
    period_s: Floats


class PhaseTable(NamedTuple):
    """Phases by job slot: starts and rates (J, K), tolerated and caused scores (J, K, N)."""

    starts: Floats
    rate: Floats
    tolerated: Floats
    caused: Floats


class EventQueue(NamedTuple):
    """Jobs by their next event.

    slots : (J,) a heap of job slots; the first `size` are in use
    place : (J,) position of a slot in the heap, -1 = not in it
    at, kind : (J,) of the next event of each slot
    size : (1,)
    """

    slots: Ints
    place: Ints
    at: Floats
    kind: Ints
    size: Ints


class FreeParts(NamedTuple):
    """Part slots not in use: the first `left` of (Q,) `slots`."""

    slots: Ints
    left: Ints


class EngineState(NamedTuple):
    """All tables; `free_units` (S,), `marked` (J,) and `changed` (J,) scratch, `touched` (W,)."""

    servers: ServerTable
    jobs: JobTable
    parts: PartTable
    runs: RunTable
    phases: PhaseTable
    queue: EventQueue
    free_parts: FreeParts
    free_units: Ints
    marked: Bools
    changed: Ints
    touched: Ints


class StartedParts(NamedTuple):
    """Parts of jobs to start: job slot, server, units and speed in isolation; all (p,)."""

    slot: Ints
    server: Ints
    units: Ints
    speed: Floats


@jit(makes_arrays=False)
def _is_before(queue: EventQueue, runs: RunTable, a: int, b: int) -> bool:
    if queue.at[a] != queue.at[b]:
        return queue.at[a] < queue.at[b]
    if queue.kind[a] != queue.kind[b]:
        return queue.kind[a] < queue.kind[b]
    return runs.number[a] < runs.number[b]


@jit(makes_arrays=False)
def _rise(queue: EventQueue, runs: RunTable, place: int) -> int:
    slot = queue.slots[place]
    while place > 0:
        above = (place - 1) >> 1
        if not _is_before(queue, runs, slot, queue.slots[above]):
            break
        queue.slots[place] = queue.slots[above]
        queue.place[queue.slots[place]] = place
        place = above
    queue.slots[place] = slot
    queue.place[slot] = place
    return place


@jit(makes_arrays=False)
def _sink(queue: EventQueue, runs: RunTable, place: int) -> None:
    slot, size = queue.slots[place], queue.size[0]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _is_before(
            queue, runs, queue.slots[child + 1], queue.slots[child]
        ):
            child += 1
        if not _is_before(queue, runs, queue.slots[child], slot):
            break
        queue.slots[place] = queue.slots[child]
        queue.place[queue.slots[place]] = place
        place = child
    queue.slots[place] = slot
    queue.place[slot] = place


@jit(makes_arrays=False)
def schedule(queue: EventQueue, runs: RunTable, slot: int, at: float, kind: int) -> None:
    """Set the next event of a job. O(log J)."""
    queue.at[slot], queue.kind[slot] = at, kind
    place = queue.place[slot]
    if place < 0:
        place = queue.size[0]
        queue.slots[place] = slot
        queue.size[0] += 1
    _sink(queue, runs, _rise(queue, runs, place))


@jit(makes_arrays=False)
def unschedule(queue: EventQueue, runs: RunTable, slot: int) -> None:
    """Remove a job from the queue. O(log J)."""
    place = queue.place[slot]
    queue.place[slot] = -1
    queue.size[0] -= 1
    last = queue.slots[queue.size[0]]
    if last != slot:
        queue.slots[place] = last
        _sink(queue, runs, _rise(queue, runs, place))


@jit(makes_arrays=False)
def due_kind(jobs: JobTable, runs: RunTable, slot: int) -> int:
    """Return the kind of the next event of a job."""
    if jobs.next_s[slot] >= runs.end_s[slot]:
        return FINISHED
    if runs.until_s[slot] < math.inf and jobs.next_s[slot] >= runs.until_s[slot]:
        return MIGRATED
    if runs.work_s[slot] < math.inf and jobs.goal[slot] == runs.work_s[slot]:
        return FINISHED
    return PHASE


@jit()
def settle(state: EngineState, touched: Ints, now: float) -> None:
    """Recompute the jobs of the touched servers, and their next events."""
    jobs, runs = state.jobs, state.runs
    count = recompute_jobs(
        state.servers, jobs, state.parts, touched, now, state.marked, state.changed
    )
    for i in range(count):
        slot = state.changed[i]
        schedule(state.queue, runs, slot, jobs.next_s[slot], due_kind(jobs, runs, slot))


@jit()
def enter_phase(jobs: JobTable, runs: RunTable, phases: PhaseTable, slot: int) -> None:
    """Set scores, factor and next goal for the job's current phase."""
    phase = runs.phase[slot]
    jobs.tolerated[slot] = phases.tolerated[slot, phase]
    jobs.caused[slot] = phases.caused[slot, phase]
    jobs.factor[slot] = runs.layout[slot] * phases.rate[slot, phase]
    ends_s = min(runs.end_s[slot], runs.until_s[slot])
    is_last = phase + 1 == runs.phases[slot]
    share = 1.0 if is_last else phases.starts[slot, phase + 1]
    if runs.work_s[slot] < math.inf:
        jobs.goal[slot], jobs.due_s[slot] = share * runs.work_s[slot], ends_s
        return
    phase_s = math.inf
    if runs.phases[slot] > 1:
        phase_s = runs.started_s[slot] + (runs.cycle[slot] + share) * runs.period_s[slot]
    jobs.goal[slot], jobs.due_s[slot] = math.inf, min(ends_s, phase_s)


@jit(makes_arrays=False)
def withdraw(state: EngineState, slot: int) -> None:
    """Take all parts of a job off their servers; the server's last part fills each gap."""
    servers, parts, free = state.servers, state.parts, state.free_parts
    part = state.jobs.first_part[slot]
    while part >= 0:
        server, position = parts.server[part], parts.position[part]
        last = servers.filled[server] - 1
        last_part = servers.parts[server, last]
        servers.parts[server, position] = last_part
        parts.position[last_part] = position
        servers.parts[server, last] = -1
        servers.filled[server] = last
        parts.job[part], parts.units[part] = -1, 0
        free.slots[free.left[0]] = part
        free.left[0] += 1
        part = parts.next_part[part]
    state.jobs.first_part[slot] = -1


@jit(makes_arrays=False)
def place_parts(state: EngineState, started: StartedParts) -> None:
    """Put parts of jobs on their servers; there are enough free part slots."""
    servers, parts, free, jobs = state.servers, state.parts, state.free_parts, state.jobs
    for i in range(started.slot.size):
        free.left[0] -= 1
        part = free.slots[free.left[0]]
        slot, server = started.slot[i], started.server[i]
        parts.job[part], parts.server[part], parts.units[part] = slot, server, started.units[i]
        parts.speed[part], parts.effect[part] = started.speed[i], 1.0
        parts.next_part[part] = jobs.first_part[slot]
        jobs.first_part[slot] = part
        position = servers.filled[server]
        servers.parts[server, position] = part
        parts.position[part] = position
        servers.filled[server] = position + 1


@jit()
def start_jobs(state: EngineState, started: StartedParts, slots: Ints, now: float) -> None:
    """Start jobs whose rows are filled in on their parts."""
    place_parts(state, started)
    for slot in slots:
        enter_phase(state.jobs, state.runs, state.phases, slot)
    settle(state, started.server, now)


@jit()
def advance_events(
    state: EngineState, to: float, at: Floats, kind: Ints, slots: Ints, phase: Ints
) -> int:
    """Process events up to a time, until the output is full or a migrating job is next.

    Parameters
    ----------
    at, kind, slots, phase : (n,) output: time, kind, job slot and new phase of each event

    Returns
    -------
    Number of events.
    """
    jobs, runs, queue, parts = state.jobs, state.runs, state.queue, state.parts
    count = 0
    while count < at.size and queue.size[0] > 0:
        slot = queue.slots[0]
        now = queue.at[slot]
        if not now <= to or now == math.inf or runs.until_s[slot] < math.inf:
            break
        at[count], kind[count], slots[count] = now, queue.kind[slot], slot
        is_end = queue.kind[slot] == FINISHED
        touched = 0
        part = jobs.first_part[slot]
        while part >= 0:
            state.touched[touched] = parts.server[part]
            touched += 1
            if is_end:
                state.free_units[parts.server[part]] += parts.units[part]
            part = parts.next_part[part]
        if is_end:
            withdraw(state, slot)
            unschedule(queue, runs, slot)
        else:
            start_phase(state, slot, now)
        phase[count] = 0 if is_end else runs.phase[slot]
        settle(state, state.touched[:touched], now)
        count += 1
    return count


@jit()
def start_phase(state: EngineState, slot: int, now: float) -> None:
    """Start the next phase of a job."""
    jobs, runs = state.jobs, state.runs
    if jobs.goal[slot] < math.inf:
        # set exactly to the boundary, or rounding could leave a rest of the old phase
        jobs.done[slot], jobs.updated_s[slot] = jobs.goal[slot], now
    runs.phase[slot] = (runs.phase[slot] + 1) % runs.phases[slot]
    if runs.phase[slot] == 0:
        runs.cycle[slot] += 1
    enter_phase(jobs, runs, state.phases, slot)


def run_table(slots: int) -> RunTable:
    """Table of free job slots."""

    def whole() -> Ints:
        return np.zeros(slots, dtype=np.int64)

    def real() -> Floats:
        return np.zeros(slots)

    return RunTable(
        number=whole(),
        phase=whole(),
        phases=whole(),
        cycle=whole(),
        work_s=real(),
        started_s=real(),
        end_s=real(),
        until_s=real(),
        layout=real(),
        period_s=real(),
    )


def phase_table(slots: int, phases: int, sources: int) -> PhaseTable:
    """Table of free job slots with room for a number of phases."""
    return PhaseTable(
        np.zeros((slots, phases)),
        np.ones((slots, phases)),
        np.zeros((slots, phases, sources)),
        np.zeros((slots, phases, sources)),
    )


def event_queue(slots: int) -> EventQueue:
    """Empty queue for a number of job slots."""
    return EventQueue(
        slots=np.zeros(slots, dtype=np.int64),
        place=np.full(slots, -1, dtype=np.int64),
        at=np.full(slots, np.inf),
        kind=np.zeros(slots, dtype=np.int64),
        size=np.zeros(1, dtype=np.int64),
    )


def free_parts(slots: int) -> FreeParts:
    """All part slots, the first one on top."""
    return FreeParts(np.arange(slots - 1, -1, -1), np.array([slots], dtype=np.int64))
