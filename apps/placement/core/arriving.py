"""Where the containers of jobs that come in go, while everything else stays where it is.

Free slots differ in what shares the node: nothing, turtles, a protected taz, exposed tazes. A job
of equal containers is placed by every order of these kinds, filling nodes or one to a node, in
every rack that holds it if it wishes so, and anywhere; the least F is taken. Jobs that come in
together are placed one after the other, in several orders, and then by the solver, which may move
them about but nothing else. Source: ClavisMO §4.2 (Expert) places arriving jobs with care and
moves nothing; the rule is ours.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import permutations
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Ints
from apps.placement.core.instance import NOWHERE, Communication, Instance
from apps.placement.core.objectives import evaluate, exposed
from apps.placement.core.search import Search
from apps.placement.core.solver import solve

_KINDS: Final = 4
_ORDERS: Final = tuple(permutations(range(_KINDS)))
_MOST_RACKS: Final = 4  # tried, those with the fewest slots left over first
_PINNED: Final = 1e3  # weight of a move, so that no other objective pays for one


def place_arriving(
    instance: Instance,
    weights: Mapping[str, float],
    *,
    clock: Callable[[], float],
    limit_s: float,
) -> Ints:
    """(c,) node of each container; those that run stay where they run.

    O(jobs x racks tried x (n + c)), and what the solver takes if several jobs come in.

    Parameters
    ----------
    weights : of P, D and C
    clock, limit_s : of the solver; 0 does without it

    Raises
    ------
    ValueError : there are fewer free slots than containers that run nowhere.
    """
    fresh = np.flatnonzero(instance.current == NOWHERE)
    if fresh.size > instance.slots.sum() - (instance.job.size - fresh.size):
        raise ValueError(f"{fresh.size} containers are more than there are free slots")
    search = Search(instance, {**weights, "M": _PINNED}, clock=clock, limit_s=limit_s)
    jobs = list(dict.fromkeys(instance.job[fresh].tolist()))
    for order in _orders(instance, jobs):
        placed = instance.current.copy()
        for job in order:
            placed = _with(instance, weights, placed, job)
        search.offer(placed)
    greedy = search.assignment
    if len(jobs) > 1 and search.left_s > 0.0:
        solve(search)
    found = search.assignment
    if found is None or greedy is None:
        return instance.current.copy()
    runs = instance.current != NOWHERE
    return found if np.array_equal(found[runs], instance.current[runs]) else greedy


def _orders(instance: Instance, jobs: list[int]) -> Iterator[list[int]]:
    """Yield orders of the jobs: as they came, and those first that are hardest to place."""
    yield jobs
    if len(jobs) > 1:
        size, wish = instance.size, instance.counts_as
        yield sorted(jobs, key=lambda job: (-wish[job], -size[job]))
        yield sorted(jobs, key=lambda job: -size[job])
        yield sorted(jobs, key=lambda job: size[job])


def _with(instance: Instance, weights: Mapping[str, float], placed: Ints, job: int) -> Ints:
    """(c,) the placement with one more job, where it adds least to F."""
    among = np.flatnonzero((placed != NOWHERE) | (instance.job == job))
    part = _only(instance, among, placed[among])
    fresh = np.flatnonzero(part.current == NOWHERE)
    free = part.slots - np.bincount(
        part.current[part.current != NOWHERE], minlength=part.slots.size
    )
    best, least, tried = part.current, np.inf, set[bytes]()
    for nodes in _choices(part, fresh, free):
        if nodes.tobytes() in tried:
            continue
        tried.add(nodes.tobytes())
        made = part.current.copy()
        made[fresh] = nodes
        value = evaluate(part, made, weights).F
        if value < least:
            best, least = made, value
    whole = placed.copy()
    whole[among] = best
    return whole


def _only(instance: Instance, which: Ints, current: Ints) -> Instance:
    """Return the problem with some of its containers, and where they are so far."""
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
        wish=instance.wish[kept],
        current=current,
    )


def _choices(instance: Instance, fresh: Ints, free: Ints) -> Iterator[Ints]:
    """(k,) nodes for the containers, one way after the other."""
    if not fresh.size:
        return
    kinds, order = _kinds(instance, free), np.lexsort((instance.rack, instance.peak_watts))
    for scope in _scopes(instance, fresh, free):
        open_nodes = order[(scope & (free > 0))[order]]
        if free[open_nodes].sum() < fresh.size:
            continue
        for wanted in _ORDERS:
            rank = np.argsort(np.array(wanted))[kinds[open_nodes]]
            nodes = open_nodes[np.argsort(rank, kind="stable")]
            yield np.repeat(nodes, free[nodes])[: fresh.size]
            yield _one_each(nodes, free, np.sort(rank, kind="stable"))[: fresh.size]


def _one_each(nodes: Ints, free: Ints, rank: Ints) -> Ints:
    """(Σ free,) nodes: of each kind every node once, then every one with another slot, ..."""
    at = np.repeat(np.arange(nodes.size), free[nodes])
    turn = np.arange(at.size) - np.repeat(np.cumsum(free[nodes]) - free[nodes], free[nodes])
    spread: Ints = nodes[at][np.lexsort((turn, rank[at]))]
    return spread


def _kinds(instance: Instance, free: Ints) -> Ints:
    """(n,) 0 nothing there, 1 turtles only, 2 a taz that is protected, 3 tazes that are not."""
    runs = instance.current != NOWHERE
    at, taz, job = instance.current[runs], instance.is_taz[runs], instance.job[runs]
    is_kept: Bools = ~exposed(taz, job, at, len(instance.job_ids))[job]
    kinds: Ints = np.where(free == instance.slots, 0, 1)
    kinds[at[taz & is_kept]] = 2
    kinds[at[taz & ~is_kept]] = 3
    return kinds


def _scopes(instance: Instance, fresh: Ints, free: Ints) -> Iterator[Bools]:
    """(n,) nodes to look at: single racks, or nodes, that hold a job that wishes so; then all."""
    wish = instance.counts_as[instance.job[fresh[0]]]
    if wish == Communication.RACK:
        room = np.bincount(instance.rack, weights=free, minlength=len(instance.rack_ids))
        racks = np.flatnonzero(room >= fresh.size)
        for rack in racks[np.argsort(room[racks], kind="stable")][:_MOST_RACKS].tolist():
            yield instance.rack == rack
    if wish == Communication.NODE:
        yield free >= fresh.size
    yield np.ones(free.size, dtype=np.bool_)
