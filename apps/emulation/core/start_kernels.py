"""Starts of jobs, compiled: one call for all orders of one time. J jobs, p parts."""

import math
from typing import NamedTuple

from apps.common.core.compiled import jit
from apps.emulation.core.event_kernels import (
    Columns,
    EngineState,
    enter_phase,
    place_part,
    settle,
    state_of,
)
from apps.emulation.core.kernels import KindTable, touch
from apps.inventory.core.snapshot import Floats, Ints


class Started(NamedTuple):
    """Orders to start.

    slot, kind : (n,) job slot and kind
    work_s, duration_s, done_share : (n,) as in `events.EngineOrder`; infinite if unlimited
    tasks : (n,) 0 if the work divides freely, -1 if the number is wrong
    busy : (n,) share of the units that the tasks keep busy
    first : (n + 1,) first part of each order, and the number of parts
    server, units : (p,) of each part
    """

    slot: Ints
    kind: Ints
    work_s: Floats
    duration_s: Floats
    done_share: Floats
    tasks: Ints
    busy: Floats
    first: Ints
    server: Ints
    units: Ints


class Places(NamedTuple):
    """Servers, all (S,): platform, speed relative to it, and rack."""

    platform: Ints
    speed: Floats
    rack: Ints


@jit(makes_arrays=False)
def start_jobs(
    columns: Columns, at: tuple[Ints, Floats, Ints], rows: Columns, number: int, now: float
) -> int:
    """Start orders up to the first one that cannot start; there are enough free slots.

    Parameters
    ----------
    columns : of the state
    at, rows : `Places` and `Started`, without the names
    number : of the last job that started

    Returns
    -------
    Number of jobs started.
    """
    state, places, started = state_of(columns), Places(*at), Started(*rows)
    touched, count = 0, 0
    while count < started.slot.size and _can_start(state, started, count):
        slot = started.slot[count]
        _fill(state, places, started, count, now)
        state.runs.number[slot] = number + count + 1
        kind = started.kind[count]
        for i in range(started.first[count], started.first[count + 1]):
            server, units = started.server[i], started.units[i]
            state.free_units[server] -= units
            speed = state.kinds.platform_speed[kind, places.platform[server]]
            alone = _alone(state.kinds, kind, units)
            place_part(state, slot, server, units, speed * places.speed[server] * alone)
            touched = touch(state.scratch, touched, server)
        enter_phase(state, slot)
        count += 1
    settle(state, touched, now)
    return count


@jit(makes_arrays=False)
def _can_start(state: EngineState, started: Started, j: int) -> bool:
    """Whether an order passes `runs.check_order`."""
    begin, end = started.first[j], started.first[j + 1]
    if begin == end:
        return False
    for i in range(begin, end):
        server = started.server[i]
        if not 0 <= server < state.free_units.size:
            return False
        if not 1 <= started.units[i] <= state.free_units[server]:
            return False
        for k in range(begin, i):
            if started.server[k] == server:
                return False
    if started.tasks[j] < 0:
        return False
    return started.work_s[j] > 0.0 and 0.0 <= started.done_share[j] <= 1.0


@jit(makes_arrays=False)
def _fill(state: EngineState, places: Places, started: Started, j: int, now: float) -> None:
    """Fill the rows of one job."""
    jobs, runs, kinds = state.jobs, state.runs, state.kinds
    slot, kind, share = started.slot[j], started.kind[j], started.done_share[j]
    units = 0
    for i in range(started.first[j], started.first[j + 1]):
        units += started.units[i]
    is_service = started.work_s[j] == math.inf
    left = 1.0 - share if is_service else 1.0
    jobs.done[slot] = 0.0 if is_service else share * started.work_s[j]
    jobs.updated_s[slot], jobs.speed[slot], jobs.next_s[slot] = now, 0.0, math.inf
    jobs.first_part[slot] = -1
    jobs.in_step[slot] = float(units) if kinds.in_step[kind] else 0.0
    runs.kind[slot], runs.phase[slot], runs.cycle[slot] = kind, 0, 0
    runs.work_s[slot], runs.started_s[slot], runs.until_s[slot] = started.work_s[j], now, math.inf
    runs.end_s[slot] = now + started.duration_s[j] * left
    if started.duration_s[j] == math.inf:
        runs.end_s[slot] = math.inf
    runs.busy[slot] = started.busy[j]
    runs.layout[slot] = _layout(state, places, started, j, units)
    if share > 0.0 and not is_service:
        phase = 0
        while phase + 1 < kinds.phases[kind] and kinds.starts[kind, phase + 1] <= share:
            phase += 1
        runs.phase[slot] = phase


@jit(makes_arrays=False)
def _layout(state: EngineState, places: Places, started: Started, j: int, units: int) -> float:
    """``runs.layout_factor``."""
    kinds, kind = state.kinds, started.kind[j]
    begin, end = started.first[j], started.first[j + 1]
    n = float(end - begin)
    contention, coherency = kinds.out_contention[kind], kinds.out_coherency[kind]
    out = 1.0 / (1.0 + contention * (n - 1.0) + coherency * n * (n - 1.0))
    factor: float = state.runs.busy[started.slot[j]] * out
    if kinds.rack_loss[kind] == 0.0 or units < 2:
        return factor
    inside = 0
    for i in range(begin, end):
        for k in range(begin, end):
            if places.rack[started.server[i]] == places.rack[started.server[k]]:
                inside += started.units[i] * started.units[k]
    split = 1.0 - (inside - units) / (units * (units - 1))
    return factor * (1.0 - kinds.rack_loss[kind] * split)


@jit(makes_arrays=False)
def _alone(kinds: KindTable, kind: int, units: int) -> float:
    """``UniversalScaling.speed_up`` of the units on one server."""
    n = float(units)
    contention, coherency = kinds.up_contention[kind], kinds.up_coherency[kind]
    speed_up: float = n * (1.0 / (1.0 + contention * (n - 1.0) + coherency * n * (n - 1.0)))
    return speed_up
