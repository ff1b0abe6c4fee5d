"""Events of the engine, compiled: a queue of jobs by their next event, and what the events do.

An indexed binary heap holds each running job once, by (time, kind, number of the job), so that no
entry is ever stale. J job slots, Q part slots, S servers.
"""

import math
from typing import Any, NamedTuple

from apps.common.core.compiled import jit
from apps.emulation.core.kernels import (
    JobTable,
    KindTable,
    PartTable,
    Scratch,
    ServerTable,
    recompute_jobs,
    touch,
)
from apps.inventory.core.snapshot import Floats, Ints

FINISHED, MIGRATED, PHASE = 0, 1, 2  # in the order in which they happen at one time


class RunTable(NamedTuple):
    """What the next event of a running job depends on, by job slot; all (J,).

    number : of the job in the order of starts
    kind : of its truth
    phase, cycle : the current phase, and the number of periods completed
    work_s, started_s, end_s : as in `events.EngineOrder`; the time at which it ends in any case
    until_s : end of its migration, infinite if there is none
    layout : share of the speed that remains after waves, scale-out and rack distances
    busy : share of its units that its tasks keep busy
    """

    number: Ints
    kind: Ints
    phase: Ints
    cycle: Ints
    work_s: Floats
    started_s: Floats
    end_s: Floats
    until_s: Floats
    layout: Floats
    busy: Floats


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
    """All tables; `free_units` is (S,)."""

    servers: ServerTable
    kinds: KindTable
    jobs: JobTable
    parts: PartTable
    runs: RunTable
    queue: EventQueue
    free_parts: FreeParts
    free_units: Ints
    scratch: Scratch


# The columns of the tables of `EngineState`, in its order, without their names: numba takes longer
# to read a named tuple from the interpreter than to process an event.
Columns = tuple[Any, ...]


def columns_of(state: EngineState) -> Columns:
    """Return the columns of the tables, the argument of kernels that are called for each event."""
    return tuple(tuple(each) if isinstance(each, tuple) else each for each in state)


@jit(makes_arrays=False, forceinline=True)
def state_of(columns: Columns) -> EngineState:
    """Inverse of `columns_of`."""
    return EngineState(
        ServerTable(*columns[0]),
        KindTable(*columns[1]),
        JobTable(*columns[2]),
        PartTable(*columns[3]),
        RunTable(*columns[4]),
        EventQueue(*columns[5]),
        FreeParts(*columns[6]),
        columns[7],
        Scratch(*columns[8]),
    )


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


@jit(makes_arrays=False)
def settle(state: EngineState, touched: int, now: float) -> None:
    """Recompute the jobs of the touched servers of the scratch, and their next events."""
    jobs, runs, changed = state.jobs, state.runs, state.scratch.changed
    count = recompute_jobs(
        state.servers, state.kinds, jobs, state.parts, state.scratch, touched, now
    )
    for i in range(count):
        slot = changed[i]
        schedule(state.queue, runs, slot, jobs.next_s[slot], due_kind(jobs, runs, slot))


@jit(makes_arrays=False)
def settle_servers(state: EngineState, servers: Ints, now: float) -> None:
    """Recompute the jobs of these servers, and their next events."""
    touched = 0
    for server in servers:
        touched = touch(state.scratch, touched, server)
    settle(state, touched, now)


@jit(makes_arrays=False)
def enter_phase(state: EngineState, slot: int) -> None:
    """Set phase of the parts, factor and next goal for the job's current phase."""
    jobs, runs, kinds, parts = state.jobs, state.runs, state.kinds, state.parts
    kind, phase = runs.kind[slot], runs.phase[slot]
    part = jobs.first_part[slot]
    while part >= 0:
        state.servers.phases[parts.server[part], parts.position[part]] = phase
        part = parts.next_part[part]
    jobs.factor[slot] = runs.layout[slot] * kinds.rate[kind, phase]
    ends_s = min(runs.end_s[slot], runs.until_s[slot])
    is_last = phase + 1 == kinds.phases[kind]
    share = 1.0 if is_last else kinds.starts[kind, phase + 1]
    if runs.work_s[slot] < math.inf:
        jobs.goal[slot], jobs.due_s[slot] = share * runs.work_s[slot], ends_s
        return
    phase_s = math.inf
    if kinds.phases[kind] > 1:
        phase_s = runs.started_s[slot] + (runs.cycle[slot] + share) * kinds.period_s[kind]
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
        servers.kinds[server, position] = servers.kinds[server, last]
        servers.phases[server, position] = servers.phases[server, last]
        servers.counts[server, position] = servers.counts[server, last]
        parts.position[last_part] = position
        servers.parts[server, last] = -1
        servers.filled[server] = last
        parts.job[part], parts.units[part] = -1, 0
        free.slots[free.left[0]] = part
        free.left[0] += 1
        part = parts.next_part[part]
    state.jobs.first_part[slot] = -1


@jit(makes_arrays=False)
def place_part(state: EngineState, slot: int, server: int, units: int, speed: float) -> None:
    """Put a part of a job on its server; there is a free part slot."""
    servers, parts, free, jobs = state.servers, state.parts, state.free_parts, state.jobs
    free.left[0] -= 1
    part = free.slots[free.left[0]]
    parts.job[part], parts.server[part], parts.units[part] = slot, server, units
    parts.speed[part], parts.effect[part] = speed, 1.0
    parts.next_part[part] = jobs.first_part[slot]
    jobs.first_part[slot] = part
    position = servers.filled[server]
    servers.parts[server, position] = part
    servers.kinds[server, position] = state.runs.kind[slot]
    servers.phases[server, position] = state.runs.phase[slot]
    servers.counts[server, position] = units
    parts.position[part] = position
    servers.filled[server] = position + 1


@jit(makes_arrays=False)
def place_parts(state: EngineState, slot: int, servers: Ints, units: Ints, speeds: Floats) -> None:
    """Put parts of a job on their servers; there are enough free part slots."""
    for i in range(servers.size):
        place_part(state, slot, servers[i], units[i], speeds[i])


@jit(makes_arrays=False)
def advance_events(
    columns: Columns, to: float, at: Floats, kind: Ints, slots: Ints, phase: Ints
) -> int:
    """Process events up to a time, until the output is full or a migrating job is next.

    Parameters
    ----------
    at, kind, slots, phase : (n,) output: time, kind, job slot and new phase of each event

    Returns
    -------
    Number of events.
    """
    state = state_of(columns)
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
            touched = touch(state.scratch, touched, parts.server[part])
            if is_end:
                state.free_units[parts.server[part]] += parts.units[part]
            part = parts.next_part[part]
        if is_end:
            withdraw(state, slot)
            unschedule(queue, runs, slot)
        else:
            start_phase(state, slot, now)
        phase[count] = 0 if is_end else runs.phase[slot]
        settle(state, touched, now)
        count += 1
    return count


@jit(makes_arrays=False)
def start_phase(state: EngineState, slot: int, now: float) -> None:
    """Start the next phase of a job."""
    jobs, runs = state.jobs, state.runs
    if jobs.goal[slot] < math.inf:
        # set exactly to the boundary, or rounding could leave a rest of the old phase
        jobs.done[slot], jobs.updated_s[slot] = jobs.goal[slot], now
    runs.phase[slot] = (runs.phase[slot] + 1) % state.kinds.phases[runs.kind[slot]]
    if runs.phase[slot] == 0:
        runs.cycle[slot] += 1
    enter_phase(state, slot)
