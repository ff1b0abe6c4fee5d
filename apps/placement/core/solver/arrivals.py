"""Placement of arriving jobs; running containers stay on their nodes.

Free slots differ by what shares the node: nothing, turtles, a protected taz, exposed tazes. A job
is placed by every order of these kinds, filling nodes or spreading over them, in each rack that
holds it if it is a ``rack`` job, and anywhere; the placement with the lowest F is used. Jobs that
arrive together are placed one by one, in several orders, and then by the solver, which may move
them but no running container. Source: ClavisMO §4.2 (Expert) places arriving jobs and moves
nothing; the rule is ours.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import permutations
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Ints
from apps.placement.core.problem.instance import NOWHERE, Communication, Instance
from apps.placement.core.problem.objectives import evaluate, exposed
from apps.placement.core.solver.registry import solve
from apps.placement.core.solver.round_robin import node_by_node, slot_by_slot
from apps.placement.core.solver.run import SolverRun

_KINDS: Final = 4
_ORDERS: Final = tuple(permutations(range(_KINDS)))
_MAX_RACKS: Final = 4  # tried, those with the fewest free slots first
_PINNED: Final = 1e3  # weight of a migration, so that no other objective pays for one


def place_arriving(
    instance: Instance,
    weights: Mapping[str, float],
    *,
    clock: Callable[[], float],
    limit_s: float,
) -> Ints:
    """(c,) node of each container; running containers keep their nodes.

    O(jobs x racks tried x (n + c)), plus the solver if several jobs arrive.

    Parameters
    ----------
    weights : of P, D and C
    clock, limit_s : of the solver; a limit of 0 skips it

    Raises
    ------
    ValueError : there are fewer free slots than unplaced containers.
    """
    arriving = np.flatnonzero(instance.current == NOWHERE)
    if arriving.size > instance.slots.sum() - (instance.job.size - arriving.size):
        raise ValueError(f"{arriving.size} containers do not fit in the free slots")
    pinned = {**weights, "M": _PINNED}
    run = SolverRun(instance, pinned, clock=clock, limit_s=limit_s, max_restarts=0)
    jobs = list(dict.fromkeys(instance.job[arriving].tolist()))
    for order in _orders(instance, jobs):
        placed = instance.current.copy()
        for job in order:
            placed = _add_job(instance, weights, placed, job)
        run.offer(placed)
    greedy = run.assignment
    if len(jobs) > 1 and run.remaining_s > 0.0:
        solve(run)
    solved = run.assignment
    if solved is None or greedy is None:
        return instance.current.copy()
    runs = instance.current != NOWHERE
    return solved if np.array_equal(solved[runs], instance.current[runs]) else greedy


def _orders(instance: Instance, jobs: list[int]) -> Iterator[list[int]]:
    """Yield orders of the jobs: as they arrived, the hardest to place first, by size."""
    yield jobs
    if len(jobs) > 1:
        size, scope = instance.size, instance.effective_communication
        yield sorted(jobs, key=lambda job: (-scope[job], -size[job]))
        yield sorted(jobs, key=lambda job: -size[job])
        yield sorted(jobs, key=lambda job: size[job])


def _add_job(instance: Instance, weights: Mapping[str, float], placed: Ints, job: int) -> Ints:
    """(c,) the placement with one more job, where it adds the least to F."""
    among = np.flatnonzero((placed != NOWHERE) | (instance.job == job))
    part = _subset(instance, among, placed[among])
    arriving = np.flatnonzero(part.current == NOWHERE)
    free = part.slots - np.bincount(
        part.current[part.current != NOWHERE], minlength=part.slots.size
    )
    best, min_value, tried = part.current, np.inf, set[bytes]()
    for nodes in _candidates(part, arriving, free):
        if nodes.tobytes() in tried:
            continue
        tried.add(nodes.tobytes())
        candidate = part.current.copy()
        candidate[arriving] = nodes
        value = evaluate(part, candidate, weights).F
        if value < min_value:
            best, min_value = candidate, value
    whole = placed.copy()
    whole[among] = best
    return whole


def _subset(instance: Instance, which: Ints, current: Ints) -> Instance:
    """Return the instance with some of its containers, and their current nodes."""
    if which.size == instance.job.size and np.array_equal(current, instance.current):
        return instance
    _, job = np.unique(instance.job[which], return_inverse=True)
    kept = np.unique(instance.job[which])
    return Instance(
        node_ids=instance.node_ids,
        rack_ids=instance.rack_ids,
        rack=instance.rack.copy(),
        slots=instance.slots.copy(),
        idle_watts=instance.idle_watts.copy(),
        peak_watts=instance.peak_watts.copy(),
        container_ids=tuple(instance.container_ids[i] for i in which.tolist()),
        job_ids=tuple(instance.job_ids[i] for i in kept.tolist()),
        job=job.reshape(-1).astype(np.int64),
        intensity=instance.intensity[which],
        is_taz=instance.is_taz[which],
        communication=instance.communication[kept],
        current=current,
    )


def _candidates(instance: Instance, arriving: Ints, free: Ints) -> Iterator[Ints]:
    """Yield (k,) candidate nodes for the arriving containers."""
    if not arriving.size:
        return
    kinds, order = _kinds(instance, free), np.lexsort((instance.rack, instance.peak_watts))
    for scope in _scopes(instance, arriving, free):
        open_nodes = order[(scope & (free > 0))[order]]
        if free[open_nodes].sum() < arriving.size:
            continue
        for kind_order in _ORDERS:
            rank = np.argsort(np.array(kind_order))[kinds[open_nodes]]
            nodes = open_nodes[np.argsort(rank, kind="stable")]
            yield nodes[slot_by_slot(free[nodes])][: arriving.size]
            by_round = node_by_node(free[nodes], np.sort(rank, kind="stable"))
            yield nodes[by_round][: arriving.size]


def _kinds(instance: Instance, free: Ints) -> Ints:
    """(n,) 0 empty, 1 turtles only, 2 a protected taz, 3 exposed tazes."""
    runs = instance.current != NOWHERE
    at, taz, job = instance.current[runs], instance.is_taz[runs], instance.job[runs]
    is_kept: Bools = ~exposed(taz, job, at, len(instance.job_ids))[job]
    kinds: Ints = np.where(free == instance.slots, 0, 1)
    kinds[at[taz & is_kept]] = 2
    kinds[at[taz & ~is_kept]] = 3
    return kinds


def _scopes(instance: Instance, arriving: Ints, free: Ints) -> Iterator[Bools]:
    """Yield (n,) nodes to consider: racks or nodes that can hold the job, if it needs one; all."""
    scope = instance.effective_communication[instance.job[arriving[0]]]
    if scope == Communication.RACK:
        room = np.bincount(instance.rack, weights=free, minlength=len(instance.rack_ids))
        racks = np.flatnonzero(room >= arriving.size)
        for rack in racks[np.argsort(room[racks], kind="stable")][:_MAX_RACKS].tolist():
            yield instance.rack == rack
    if scope == Communication.NODE:
        yield free >= arriving.size
    yield np.ones(free.size, dtype=np.bool_)
