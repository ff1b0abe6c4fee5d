"""When waiting jobs start, for one draw of all run times; compiled.

A discrete-event simulation of what agents do: units are freed when jobs end, and the waiting
groups are tried in order, those that started a job last at the end of their priority.
"""

from typing import Any, NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.common.core.event_heap import EventHeap, next_time, pop, push
from apps.inventory.core.snapshot import Bools, Floats, Ints

NOBODY = -1


class Pools(NamedTuple):
    """P sets of units that the same requests may use.

    Attributes
    ----------
    free : (P,) units that are free now
    holder : (P,) the group for which the units are reserved, or `NOBODY`
    until_s : (P,) when its job starts, seconds from now
    """

    free: Ints
    holder: Ints
    until_s: Floats


class Groups(NamedTuple):
    """G sets of jobs with equal requests, in the order in which agents try them.

    Attributes
    ----------
    allowed : (G, P) pools that the jobs may use
    units, fewest : (G,) units of a job, and those with which it may start
    jobs, first : (G,) number of waiting jobs, and index of the first of them among all jobs
    priority : (G,)
    run_s, longest_s : (G,) predicted run time on all units, and its pessimistic end; infinite if
        the end of a job is unknown
    ratios : (G, Q) quantiles of the run time relative to the predicted one
    refused : (G,) free units that would suffice by their number, and were refused
    reserve_s : (G,) seconds until the first job may keep freed units; infinite: never
    patience_s : (J,) seconds until each job takes the refused units too; infinite: never; empty
        if no job ever does
    """

    allowed: Bools
    units: Ints
    fewest: Ints
    jobs: Ints
    first: Ints
    priority: Ints
    run_s: Floats
    longest_s: Floats
    ratios: Floats
    refused: Ints
    reserve_s: Floats
    patience_s: Floats


class Arrivals(NamedTuple):
    """Jobs that will be submitted: the groups of recent ones, and the mean time between them."""

    groups: Ints
    gap_s: float


class Reserving(NamedTuple):
    """How units are kept for jobs that have waited long.

    Attributes
    ----------
    at_most : jobs that units are kept for at once
    is_counted : whether only the number of units is kept, and planned again at each event (EASY);
        else the units are named until the planned start has passed
    """

    at_most: int
    is_counted: bool


class Run(NamedTuple):
    """State of one simulation.

    Attributes
    ----------
    free : (P,)
    kept : (P,) of these, kept for jobs that have waited long
    shadow_s : (G,) when enough units are free for such a job; infinite: not planned
    kept_until : (1,) the first of these times; jobs that end before it are backfilled
    left, begun : (G,) waiting jobs, including later arrivals; jobs started
    refused, reserve_s : (G,) as in `Groups`
    order : (G,) the groups, first tried first
    moves, scratch : (G,) groups that started a job, and room to sort them
    ends : releases that have not happened
    pool, units, planned_s : of each release; until when agents plan with it
    draws : uniform numbers
    tally : releases so far, numbers used, jobs of the queue that still wait
    """

    free: Ints
    kept: Ints
    shadow_s: Floats
    kept_until: Floats
    left: Ints
    begun: Ints
    refused: Ints
    reserve_s: Floats
    order: Ints
    moves: Bools
    scratch: Ints
    ends: EventHeap
    pool: Ints
    units: Ints
    planned_s: Floats
    draws: Floats
    tally: Ints


@jit()
def simulate(
    pools: Pools,
    groups: Groups,
    arrivals: Arrivals,
    run: Run,
    reserving: Reserving,
    starts: Floats,
) -> None:
    """Fill the starts of all jobs, seconds from now; those that are not reached stay infinite.

    Ends when all jobs have started, when nothing more is freed, or when the draws are used up.
    """
    now = 0.0
    arrival = _next_arrival(now, arrivals, run)
    _start_all(now, pools, groups, run, reserving, starts)
    while run.tally[2] > 0 and run.tally[1] + 2 < run.draws.size:
        end = next_time(run.ends)
        patience = _next_patience(now, groups, run)
        now = min(arrival, end, patience)
        if now == np.inf:
            return
        if arrival < min(end, patience):
            group = arrivals.groups[int(_draw(run) * arrivals.groups.size)]
            arrival = _next_arrival(now, arrivals, run)
            _submit(now, group, pools, groups, run, starts)
            continue
        while next_time(run.ends) == now:
            release = pop(run.ends)
            run.free[run.pool[release]] += run.units[release]
        _start_all(now, pools, groups, run, reserving, starts)


@jit(makes_arrays=False)
def _patience(group: int, groups: Groups, run: Run) -> Any:
    """Return when the next job of a group takes any free unit; infinite: never."""
    if groups.patience_s.size == 0 or run.begun[group] >= groups.jobs[group]:
        return np.inf
    return groups.patience_s[groups.first[group] + run.begun[group]]


@jit(makes_arrays=False)
def _next_patience(now: float, groups: Groups, run: Run) -> Any:
    """Return when the next waiting job begins to take any free unit; infinite: none does."""
    first = np.inf
    if groups.patience_s.size == 0:
        return first
    for group in range(run.left.size):
        at = _patience(group, groups, run)
        if run.left[group] > 0 and now < at < first:
            first = at
    return first


@jit(makes_arrays=False)
def _submit(
    now: float, group: int, pools: Pools, groups: Groups, run: Run, starts: Floats
) -> None:
    """Add a job; if no job of its group waits it is tried at once, and then as the last one."""
    run.left[group] += 1
    if run.left[group] == 1 and not _starts(now, group, pools, groups, run, starts):
        run.moves[group] = True
        _move_back(groups.priority, run)


@jit(makes_arrays=False)
def _draw(run: Run) -> Any:
    run.tally[1] += 1
    return run.draws[run.tally[1] - 1]


@jit(makes_arrays=False)
def _next_arrival(now: float, arrivals: Arrivals, run: Run) -> Any:
    if arrivals.groups.size == 0:
        return np.inf
    return now - arrivals.gap_s * np.log(1.0 - _draw(run))


@jit()
def _start_all(
    now: float, pools: Pools, groups: Groups, run: Run, reserving: Reserving, starts: Floats
) -> None:
    """Try all groups in order; those that started a job go behind those of their priority."""
    run.kept[:] = 0
    run.kept_until[0] = np.inf
    reservations, has_moved = 0, False
    free = run.free.sum()
    for place in range(run.order.size):
        if free == 0:
            break
        group = run.order[place]
        if run.left[group] == 0:
            continue
        before, may_fit = run.begun[group], groups.fewest[group] <= free
        while may_fit and run.left[group] > 0 and _starts(now, group, pools, groups, run, starts):
            pass
        run.moves[group] = run.begun[group] > before
        if run.moves[group]:
            free, has_moved = run.free.sum(), True
        is_late = run.left[group] > 0 and now >= run.reserve_s[group]
        if is_late and reservations < reserving.at_most:
            _keep(now, group, groups, run, reserving.is_counted)
            reservations += 1
    if has_moved:
        _move_back(groups.priority, run)
        for group in range(run.order.size):
            if run.refused[group] > 0:
                room = _total_room(now, group, pools, groups, run)
                run.refused[group] = min(run.refused[group], room)


@jit(makes_arrays=False)
def _move_back(priority: Ints, run: Run) -> None:
    """Move the groups that started a job behind the others of their priority."""
    order, first = run.order, 0
    while first < order.size:
        end, kept, moved = first, 0, 0
        while end < order.size and priority[order[end]] == priority[order[first]]:
            if run.moves[order[end]]:
                run.scratch[moved] = order[end]
                moved += 1
            else:
                order[first + kept] = order[end]
                kept += 1
            end += 1
        for i in range(moved):
            order[first + kept + i] = run.scratch[i]
        first = end
    run.moves[:] = False


@jit(makes_arrays=False)
def _room(now: float, group: int, pool: int, pools: Pools, groups: Groups, run: Run) -> Any:
    """Return the free units of a pool that a job of a group may use now."""
    if not groups.allowed[group, pool]:
        return 0
    holder = pools.holder[pool]
    if holder == group:
        return run.free[pool]
    is_held = holder != NOBODY and run.left[holder] > 0
    # agents assume that a job gets the fewest units with which it may start
    end = now + groups.longest_s[group] * groups.units[group] / groups.fewest[group]
    if is_held and end > pools.until_s[pool]:
        return 0
    if end < run.kept_until[0]:
        return run.free[pool]
    return run.free[pool] - run.kept[pool]


@jit(makes_arrays=False)
def _total_room(now: float, group: int, pools: Pools, groups: Groups, run: Run) -> Any:
    room = 0
    for pool in range(run.free.size):
        room += _room(now, group, pool, pools, groups, run)
    return room


@jit(makes_arrays=False)
def _starts(now: float, group: int, pools: Pools, groups: Groups, run: Run, starts: Floats) -> Any:
    """Start the next job of a group if enough units are free."""
    room = _total_room(now, group, pools, groups, run)
    if now < _patience(group, groups, run):
        room -= min(run.refused[group], room)
    if room < groups.fewest[group] or run.tally[1] + 2 >= run.draws.size:
        return False
    taken = min(groups.units[group], room)
    share = groups.ratios[group, int(_draw(run) * groups.ratios.shape[1])]
    stretch = groups.units[group] / taken
    end = now + groups.run_s[group] * share * stretch
    planned = now + groups.longest_s[group] * stretch
    for own in (True, False):  # the units that are reserved for it first
        for pool in range(run.free.size):
            if taken > 0 and (pools.holder[pool] == group) == own:
                units = min(taken, _room(now, group, pool, pools, groups, run))
                taken -= units
                _take(run, pool, units, end, planned)
    if run.begun[group] < groups.jobs[group]:
        starts[groups.first[group] + run.begun[group]] = now
        run.tally[2] -= 1
    run.begun[group] += 1
    run.left[group] -= 1
    run.shadow_s[group] = np.inf
    run.reserve_s[group] = np.inf
    return True


@jit(makes_arrays=False)
def _take(run: Run, pool: int, units: int, end: float, planned: float) -> None:
    """Take units of a pool until ``end``."""
    if units <= 0:
        return
    run.free[pool] -= units
    release = run.tally[0]
    if end < np.inf and release < run.pool.size:
        run.pool[release], run.units[release] = pool, units
        run.planned_s[release] = planned
        run.tally[0] += 1
        push(run.ends, end, release)


@jit()
def _keep(now: float, group: int, groups: Groups, run: Run, is_counted: bool) -> None:
    """Keep free units for the next job of a group until it has enough."""
    missing = groups.fewest[group] + run.refused[group]
    if is_counted or run.shadow_s[group] <= now or run.shadow_s[group] == np.inf:
        run.shadow_s[group], extra = _shadow(now, missing, group, groups, run)
        if is_counted:
            missing = _free(group, groups, run) - extra
    run.kept_until[0] = min(run.kept_until[0], run.shadow_s[group])
    for pool in range(run.free.size):
        if groups.allowed[group, pool]:
            units = max(0, min(missing, run.free[pool] - run.kept[pool]))
            run.kept[pool] += units
            missing -= units


@jit(makes_arrays=False)
def _free(group: int, groups: Groups, run: Run) -> Any:
    """Return the number of free units in the pools of a group."""
    free = 0
    for pool in range(run.free.size):
        if groups.allowed[group, pool]:
            free += run.free[pool]
    return free


@jit()
def _shadow(now: float, missing: int, group: int, groups: Groups, run: Run) -> Any:
    """Return when agents plan that a group has ``missing`` units, and how many it leaves then.

    They know the pessimistic ends of the jobs, not the drawn ones. O(n log n) ends.
    """
    missing -= _free(group, groups, run)
    count = run.ends.size[0]
    planned = run.planned_s[run.ends.what[:count]]
    for entry in np.argsort(planned):
        release = run.ends.what[entry]
        if groups.allowed[group, run.pool[release]]:
            missing -= run.units[release]
            if missing <= 0:
                return max(now, planned[entry]), -missing
    return np.inf, 0
