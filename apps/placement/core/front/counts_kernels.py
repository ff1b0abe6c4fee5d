"""The knapsack behind the front of class counts, compiled. Imported by processes that search.

j jobs, each with a few options, which protect p tazes, leave s turtles stuck and cost C.
"""

from typing import NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Floats, Ints


class OptionTable(NamedTuple):
    """Options of job j are those from ``first[j]`` to ``first[j + 1]``.

    Attributes
    ----------
    first : (j + 1,)
    protected, stuck, cost : by option; costs are whole numbers
    """

    first: Ints
    protected: Ints
    stuck: Ints
    cost: Floats


class CostTables(NamedTuple):
    """Minimum C by protected tazes and stuck turtles; infinite if unreachable.

    Attributes
    ----------
    order : (j,) jobs without stuck turtles in any option, then the others
    free : number of jobs without stuck turtles
    by_free : (free + 1, P + 1) after each of those, by p
    by_stuck : (j − free + 1, P' + 1, S + 1) after each of the others, by p and s
    min_cost : (P + P' + 1, S + 1) of all jobs, with at most s stuck
    """

    order: Ints
    free: int
    by_free: Floats
    by_stuck: Floats
    min_cost: Floats


@jit()
def _max_value(options: OptionTable, job: int, values: Ints) -> int:
    maximum = 0
    for i in range(options.first[job], options.first[job + 1]):
        maximum = max(maximum, values[i])
    return maximum


@jit()
def fill(options: OptionTable) -> CostTables:
    """Fill the tables, job after job."""
    jobs = options.first.size - 1
    is_free = np.empty(jobs, np.bool_)
    ends = np.zeros(3, np.int64)
    for job in range(jobs):
        stuck = _max_value(options, job, options.stuck)
        is_free[job] = stuck == 0
        ends[0 if is_free[job] else 1] += _max_value(options, job, options.protected)
        ends[2] += stuck
    order = np.argsort(~is_free, kind="mergesort")
    free = int(is_free.sum())
    by_free = np.full((free + 1, ends[0] + 1), np.inf)
    by_stuck = np.full((jobs - free + 1, ends[1] + 1, ends[2] + 1), np.inf)
    by_free[0, 0] = 0.0
    by_stuck[0, 0, 0] = 0.0
    reach = 0
    for t in range(free):
        reach = _add_free(options, order[t], by_free[t], by_free[t + 1], reach)
    p, s = 0, 0
    for t in range(jobs - free):
        p, s = _add_stuck(options, order[free + t], by_stuck[t], by_stuck[t + 1], p, s)
    return CostTables(
        order, free, by_free, by_stuck, _merged(by_free[free], by_stuck[jobs - free])
    )


@jit()
def _add_free(options: OptionTable, job: int, before: Floats, after: Floats, reach: int) -> int:
    for i in range(options.first[job], options.first[job + 1]):
        p, cost = options.protected[i], options.cost[i]
        for at in range(reach + 1):
            after[at + p] = min(after[at + p], before[at] + cost)
    return int(reach + _max_value(options, job, options.protected))


@jit()
def _add_stuck(
    options: OptionTable, job: int, before: Floats, after: Floats, p_end: int, s_end: int
) -> tuple[int, int]:
    for i in range(options.first[job], options.first[job + 1]):
        p, s, cost = options.protected[i], options.stuck[i], options.cost[i]
        for a in range(p_end + 1):
            for b in range(s_end + 1):
                after[a + p, b + s] = min(after[a + p, b + s], before[a, b] + cost)
    p_end += _max_value(options, job, options.protected)
    return p_end, s_end + _max_value(options, job, options.stuck)


@jit()
def _merged(free: Floats, stuck: Floats) -> Floats:
    """Merge both tables; s becomes a maximum number of stuck turtles instead of the exact one."""
    width, depth = stuck.shape
    min_cost = np.full((free.size + width - 1, depth), np.inf)
    for a in range(width):
        for s in range(depth):
            if stuck[a, s] < np.inf:
                for p in range(free.size):
                    min_cost[a + p, s] = min(min_cost[a + p, s], free[p] + stuck[a, s])
    for p in range(min_cost.shape[0]):
        for s in range(1, depth):
            min_cost[p, s] = min(min_cost[p, s], min_cost[p, s - 1])
    return min_cost


@jit()
def sweep(min_cost: Floats, slots: int, tazes: int, min_nodes: int, max_nodes: int) -> Floats:
    """(k, 3) nodes, protected tazes and C of the front, ascending by nodes, descending by tazes.

    O(nodes·tazes) time.
    """
    ends = min_cost.shape[0]
    best = np.full(ends + 1, np.inf)  # minimum C of at least p protected tazes, on fewer nodes
    points = np.empty((64, 3))
    count = 0
    for nodes in range(min_nodes, max_nodes + 1):
        here = np.inf
        for p in range(ends - 1, -1, -1):
            spare = slots * nodes - tazes - (slots - 1) * p
            if spare >= 0:
                cost = min_cost[p, min(spare, min_cost.shape[1] - 1)]
                if cost < min(here, best[p]):
                    if count == points.shape[0]:
                        wider = np.empty((2 * count, 3))
                        wider[:count] = points
                        points = wider
                    points[count, 0], points[count, 1], points[count, 2] = nodes, p, cost
                    count += 1
                here = min(here, cost)
            best[p] = min(best[p], here)
    return points[:count]


@jit()
def walk_back(
    options: OptionTable, tables: CostTables, protected: int, max_stuck: int, cost: float
) -> Ints:
    """(j,) an option of each job; together they protect ``protected`` tazes at that cost."""
    chosen = np.empty(options.first.size - 1, np.int64)
    free, jobs = tables.free, chosen.size
    whole, rest = tables.by_free[free], tables.by_stuck[jobs - free]
    p_free, p, s = _split_protected(whole, rest, protected, max_stuck, cost)
    for t in range(free - 1, -1, -1):
        job = tables.order[t]
        for i in range(options.first[job], options.first[job + 1]):
            at = p_free - options.protected[i]
            if at >= 0 and (
                tables.by_free[t, at] + options.cost[i] == tables.by_free[t + 1, p_free]
            ):
                chosen[job], p_free = i, at
                break
    for t in range(jobs - free - 1, -1, -1):
        job = tables.order[free + t]
        for i in range(options.first[job], options.first[job + 1]):
            at, b = p - options.protected[i], s - options.stuck[i]
            if (
                at >= 0
                and b >= 0
                and (tables.by_stuck[t, at, b] + options.cost[i] == tables.by_stuck[t + 1, p, s])
            ):
                chosen[job], p, s = i, at, b
                break
    return chosen


@jit()
def _split_protected(
    free: Floats, stuck: Floats, protected: int, max_stuck: int, cost: float
) -> tuple[int, int, int]:
    """Return protected tazes of free jobs and of the others, and stuck turtles of the others."""
    for a in range(min(stuck.shape[0], protected + 1)):
        if protected - a < free.size:
            for s in range(min(stuck.shape[1], max_stuck + 1)):
                if free[protected - a] + stuck[a, s] == cost:
                    return protected - a, a, s
    return 0, 0, 0
