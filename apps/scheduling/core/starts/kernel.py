"""When waiting jobs start, for one draw of all run times; compiled.

A discrete-event simulation of what agents do: units are freed when jobs end, and the waiting
groups are tried in order, those that started a job last at the end of their priority.
"""

from typing import Any

import numpy as np

from apps.common.core.compiled import jit
from apps.common.core.event_heap import next_time, pop, push
from apps.inventory.core.snapshot import Floats, Ints
from apps.scheduling.core.starts.parts import (
    add_units,
    count_with,
    nth_with,
    part_of_unit,
    units_with,
)
from apps.scheduling.core.starts.state import NOBODY, Arrivals, Groups, Pools, Reserving, Run

GOLDEN = 0.6180339887498949  # its multiples are spread evenly over [0, 1)


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
            _free_units(run, run.part[release], run.units[release])
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
        if free == 0 and run.tally[3] == 0:
            break
        group = run.order[place]
        if run.left[group] == 0:
            continue
        before = run.begun[group]
        may_fit = run.kept_part[group] != NOBODY or groups.fewest[group] <= free
        while may_fit and run.left[group] > 0 and _starts(now, group, pools, groups, run, starts):
            pass
        run.moves[group] = run.begun[group] > before
        if run.moves[group]:
            free, has_moved = run.free.sum(), True
        is_late = run.left[group] > 0 and now >= run.reserve_s[group]
        if is_late and reservations < reserving.at_most:
            _keep(now, group, pools, groups, run, reserving.is_counted)
            reservations += 1
    if has_moved:
        _move_back(groups.priority, run)
        _update_refused(now, pools, groups, run)


@jit(makes_arrays=False)
def _update_refused(now: float, pools: Pools, groups: Groups, run: Run) -> None:
    """Forget the refused units that other groups took."""
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
    """Return the free units that a job may use; of a job on one server, on those with room."""
    total, fewest = 0, groups.fewest[group]
    for pool in range(run.free.size):
        room = _room(now, group, pool, pools, groups, run)
        if groups.on_one_server[group]:
            room = units_with(run.parts, pool, fewest) if room >= fewest else 0
        total += room
    return total


@jit(makes_arrays=False)
def _has_room(now: float, group: int, pools: Pools, groups: Groups, run: Run) -> Any:
    """Return the units that the next job of a group would get now; 0: it waits."""
    fewest, kept = groups.fewest[group], run.kept_part[group]
    if kept != NOBODY and run.aside[kept] >= fewest:
        return fewest
    refused = 0 if now >= _patience(group, groups, run) else run.refused[group]
    if groups.on_one_server[group] and refused == 0:
        return fewest if _servers(now, group, False, pools, groups, run) > 0 else 0
    room = _total_room(now, group, pools, groups, run)
    room -= min(refused, room)
    return min(groups.units[group], room) if room >= fewest else 0


@jit(makes_arrays=False)
def _servers(
    now: float, group: int, only_own: bool, pools: Pools, groups: Groups, run: Run
) -> Any:
    """Return the number of servers on which a job may start."""
    count, units = 0, groups.units[group]
    for pool in range(run.free.size):
        is_asked = not only_own or pools.holder[pool] == group
        if is_asked and _room(now, group, pool, pools, groups, run) >= units:
            count += count_with(run.parts, pool, units)
    return count


@jit(makes_arrays=False)
def _starts(now: float, group: int, pools: Pools, groups: Groups, run: Run, starts: Floats) -> Any:
    """Start the next job of a group if enough units are free."""
    taken = _has_room(now, group, pools, groups, run)
    is_spent = run.tally[1] + 3 >= run.draws.size or run.tally[0] + taken > run.part.size
    if taken == 0 or is_spent:
        return False
    share = groups.ratios[group, int(_draw(run) * groups.ratios.shape[1])]
    stretch = groups.units[group] / taken
    end = now + groups.run_s[group] * share * stretch
    planned = now + groups.longest_s[group] * stretch
    if groups.on_one_server[group]:
        part = _server(now, group, pools, groups, run)
        _return_kept(group, run)
        _take(run, part, taken, end, planned)
    else:
        at = _draw(run)
        for own in (True, False):  # the units that are reserved for it first
            for pool in range(run.free.size):
                if taken > 0 and (pools.holder[pool] == group) == own:
                    units = min(taken, _room(now, group, pool, pools, groups, run))
                    taken -= units
                    _take_any(run, pool, units, at, end, planned)
    if run.begun[group] < groups.jobs[group]:
        starts[groups.first[group] + run.begun[group]] = now
        run.tally[2] -= 1
    run.begun[group] += 1
    run.left[group] -= 1
    run.shadow_s[group] = np.inf
    run.reserve_s[group] = np.inf
    return True


@jit(makes_arrays=False)
def _server(now: float, group: int, pools: Pools, groups: Groups, run: Run) -> Any:
    """Return the server of a job that may start: the one that is kept for it, or a random one."""
    kept, units = run.kept_part[group], groups.units[group]
    if kept != NOBODY and run.aside[kept] >= units:
        return kept
    own = _servers(now, group, True, pools, groups, run)
    count = own if own > 0 else _servers(now, group, False, pools, groups, run)
    left = int(_draw(run) * count)
    for pool in range(run.free.size):
        is_asked = own == 0 or pools.holder[pool] == group
        if not is_asked or _room(now, group, pool, pools, groups, run) < units:
            continue
        fitting = count_with(run.parts, pool, units)
        if left < fitting:
            return nth_with(run.parts, pool, units, left)
        left -= fitting
    return NOBODY


@jit(makes_arrays=False)
def _take_any(run: Run, pool: int, units: int, at: float, end: float, planned: float) -> None:
    """Take units of a pool until ``end``, on random servers; ``at``: drawn from [0, 1)."""
    while units > 0:
        part = part_of_unit(run.parts, pool, int(at * run.free[pool]))
        taken = min(units, run.parts.free[part])
        _take(run, part, taken, end, planned)
        units -= taken
        at = (at + GOLDEN) % 1.0


@jit(makes_arrays=False)
def _free_units(run: Run, part: int, units: int) -> None:
    """Free units of a part of a server."""
    if run.aside[part] != NOBODY:
        run.aside[part] += units
        return
    add_units(run.parts, part, units)
    run.free[run.parts.pool[part]] += units


@jit(makes_arrays=False)
def _take(run: Run, part: int, units: int, end: float, planned: float) -> None:
    """Take units of a part of a server until ``end``."""
    _free_units(run, part, -units)
    release = run.tally[0]
    if end < np.inf:
        run.part[release], run.units[release] = part, units
        run.planned_s[release] = planned
        run.tally[0] += 1
        push(run.ends, end, release)


@jit()
def _keep_server(group: int, pools: Pools, groups: Groups, run: Run) -> None:
    """Keep the server on which agents plan that the next job has its units first, until it starts.

    No other job is backfilled on it. O(n log n) ends, once for each job.
    """
    if run.kept_part[group] != NOBODY:
        return
    part = _first_server(group, pools, groups, run)
    if part == NOBODY:
        return
    free = run.parts.free[part]
    _free_units(run, part, -free)
    run.aside[part], run.kept_part[group] = free, part
    run.tally[3] += 1


@jit(makes_arrays=False)
def _return_kept(group: int, run: Run) -> None:
    """Give the server that was kept for a job back to all."""
    part = run.kept_part[group]
    if part == NOBODY:
        return
    units, run.aside[part], run.kept_part[group] = run.aside[part], NOBODY, NOBODY
    run.tally[3] -= 1
    _free_units(run, part, units)


@jit()
def _first_server(group: int, pools: Pools, groups: Groups, run: Run) -> Any:
    """Return the part that is planned to have the units of a job first; not one that has them.

    A part that has them now was refused to the job.
    """
    fewest, parts = groups.fewest[group], run.parts
    freed, count = parts.free.copy(), run.ends.size[0]
    planned = run.planned_s[run.ends.what[:count]]
    for entry in np.argsort(planned):
        if planned[entry] == np.inf:
            return NOBODY
        part = run.part[run.ends.what[entry]]
        holder = pools.holder[parts.pool[part]]
        is_held = holder not in (NOBODY, group) and run.left[holder] > 0
        if is_held or run.aside[part] != NOBODY or not groups.allowed[group, parts.pool[part]]:
            continue
        freed[part] += run.units[run.ends.what[entry]]
        if parts.free[part] < fewest <= freed[part]:
            return part
    return NOBODY


@jit()
def _keep(
    now: float, group: int, pools: Pools, groups: Groups, run: Run, is_counted: bool
) -> None:
    """Keep a server, or free units, for the next job of a group until it has enough."""
    if groups.on_one_server[group]:
        _keep_server(group, pools, groups, run)
        return
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
        if groups.allowed[group, run.parts.pool[run.part[release]]]:
            missing -= run.units[release]
            if missing <= 0:
                return max(now, planned[entry]), -missing
    return np.inf, 0
