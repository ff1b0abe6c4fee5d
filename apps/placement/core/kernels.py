"""P, D and C of many assignments at once, compiled. Imported by processes that search.

`objectives` is the plain form these are held to. n nodes, c containers, j jobs.
"""

from typing import Final, NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.instance import Communication, Instance

_NODE: Final = int(Communication.NODE)
_RACK: Final = int(Communication.RACK)


class Problem(NamedTuple):
    """The arrays of an instance that the kernels read; see `Instance`."""

    rack: Ints
    idle_watts: Floats
    slot_watts: Floats
    job: Ints
    intensity: Floats
    is_taz: Bools
    counts_as: Ints
    size: Ints


def problem(instance: Instance) -> Problem:
    """Return what the kernels need of an instance."""
    made = Problem(
        instance.rack,
        instance.idle_watts,
        (instance.peak_watts - instance.idle_watts) / instance.slots,
        instance.job,
        instance.intensity,
        instance.is_taz,
        instance.counts_as,
        instance.size,
    )
    for array in made:
        array.flags.writeable = False
    return made


@jit()
def evaluate_all(problem: Problem, assignments: Ints) -> Floats:
    """(k, 3) raw P, D and C of (k, c) assignments. O(k·(n + c + j))."""
    values = np.empty((assignments.shape[0], 3))
    n, j = problem.rack.size, problem.size.size
    used = np.empty(n, np.int64)
    tazes = np.empty(n, np.int64)
    first = np.empty(n)
    second = np.empty(n)
    leader = np.empty(n, np.int64)
    is_exposed = np.empty(j, np.bool_)
    place = np.empty(j, np.int64)
    for k in range(assignments.shape[0]):
        _crowd(problem, assignments[k], used, tazes, first, second, leader)
        values[k, 0] = _power(problem, used)
        values[k, 1] = _diversity(
            problem, assignments[k], tazes, first, second, leader, is_exposed
        )
        values[k, 2] = _communication(problem, assignments[k], place)
    return values


@jit()
def _crowd(  # noqa: PLR0913, PLR0917 - numba takes no keywords
    problem: Problem,
    assignment: Ints,
    used: Ints,
    tazes: Ints,
    first: Floats,
    second: Floats,
    leader: Ints,
) -> None:
    """Fill (n,) containers, tazes, the two highest intensities and the most intense container."""
    used[:] = 0
    tazes[:] = 0
    first[:] = 0.0
    second[:] = 0.0
    leader[:] = -1
    for i in range(assignment.size):
        node, intensity = assignment[i], problem.intensity[i]
        used[node] += 1
        tazes[node] += problem.is_taz[i]
        if leader[node] < 0 or intensity > first[node]:
            second[node] = first[node]
            first[node] = intensity
            leader[node] = i
        elif intensity > second[node]:
            second[node] = intensity


@jit()
def _power(problem: Problem, used: Ints) -> float:
    total = 0.0
    for node in range(used.size):
        if used[node]:
            total += problem.idle_watts[node] + problem.slot_watts[node] * used[node]
    return total


@jit()
def _diversity(  # noqa: PLR0913, PLR0917 - numba takes no keywords
    problem: Problem,
    assignment: Ints,
    tazes: Ints,
    first: Floats,
    second: Floats,
    leader: Ints,
    is_exposed: Bools,
) -> float:
    is_exposed[:] = False
    for i in range(assignment.size):
        if problem.is_taz[i] and tazes[assignment[i]] > 1:
            is_exposed[problem.job[i]] = True
    total = 0.0
    for node in range(leader.size):
        if leader[node] >= 0 and not is_exposed[problem.job[leader[node]]]:
            total += first[node] - second[node]
    return total


@jit()
def _communication(problem: Problem, assignment: Ints, place: Ints) -> float:
    """Count containers of split jobs; ``place`` becomes -2 for those."""
    place[:] = -1
    for i in range(assignment.size):
        job = problem.job[i]
        wish = problem.counts_as[job]
        if wish == _NODE:
            where = assignment[i]
        elif wish == _RACK:
            where = problem.rack[assignment[i]]
        else:
            continue
        if place[job] == -1:
            place[job] = where
        elif place[job] != where:
            place[job] = -2
    total = 0.0
    for job in range(place.size):
        if place[job] == -2:
            total += problem.size[job]
    return total
