"""A placement whose F is updated as containers are placed, removed and exchanged; compiled.

A node is taken out of the sums, changed, and put back, in O(slots): the kernels of `evaluator`
say what it costs and which credit it earns. Containers may have no node yet.

p the packed instance, c the costs, s the scored placement.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.problem.costs import Costs
from apps.placement.core.problem.evaluator import (
    PackedInstance,
    is_split,
    node_charge,
    node_credit,
    widest,
)
from apps.placement.core.problem.instance import NOWHERE, Communication, Instance

_NODE: Final = int(Communication.NODE)
_RACK: Final = int(Communication.RACK)


class ScoredPlacement(NamedTuple):
    """A layout (see `evaluator.Layout`), the sums behind its F, and F.

    Attributes
    ----------
    at : (c,) node, `NOWHERE` while the container is unplaced
    held : (n, K) containers, the first ``used`` of each node
    used, tazes : (n,) containers and tazes held
    worth : (j,) credits of the job's containers
    exposed : (j,) tazes of the job that share a node with another taz
    in_rack : (j, R) placed containers of each ``rack`` job
    racks : (j,) racks that hold containers of a ``rack`` job
    total : (1,) F, except objectives that solvers cannot model
    chance : (1,) state of the random generator
    """

    at: Ints
    held: Ints
    used: Ints
    tazes: Ints
    worth: Floats
    exposed: Ints
    in_rack: Ints
    racks: Ints
    total: Floats
    chance: "np.ndarray[Any, np.dtype[np.uint64]]"


def empty_placement(instance: Instance, seed: int = 0) -> ScoredPlacement:
    """Return a placement without any container. O(n·K + c + j·R) memory."""
    nodes, jobs = len(instance.node_ids), len(instance.job_ids)
    return ScoredPlacement(
        at=np.full(instance.job.size, NOWHERE, dtype=np.int64),
        held=np.zeros((nodes, widest(instance)), dtype=np.int64),
        used=np.zeros(nodes, dtype=np.int64),
        tazes=np.zeros(nodes, dtype=np.int64),
        worth=np.zeros(jobs),
        exposed=np.zeros(jobs, dtype=np.int64),
        in_rack=np.zeros((jobs, len(instance.rack_ids)), dtype=np.int64),
        racks=np.zeros(jobs, dtype=np.int64),
        total=np.zeros(1),
        chance=np.array([seed * 2 + 1], dtype=np.uint64),
    )


def score(
    instance: Instance, p: PackedInstance, c: Costs, assignment: Ints, seed: int = 0
) -> ScoredPlacement:
    """Return an assignment with its sums."""
    placement = empty_placement(instance, seed)
    _place_all(p, c, placement, assignment)
    return placement


@jit(makes_arrays=False)
def _place_all(p: PackedInstance, c: Costs, s: ScoredPlacement, assignment: Ints) -> None:
    for i in range(assignment.size):
        place(p, c, s, i, assignment[i])


@jit(makes_arrays=False)
def place(p: PackedInstance, c: Costs, s: ScoredPlacement, i: int, node: int) -> None:
    """Place a container that has no node."""
    _add_node(p, c, s, node, -1)
    s.held[node, s.used[node]] = i
    s.used[node] += 1
    s.tazes[node] += p.is_taz[i]
    _add_node(p, c, s, node, 1)
    _relocate(p, c, s, i, node)


@jit(makes_arrays=False)
def remove_last(p: PackedInstance, c: Costs, s: ScoredPlacement, i: int) -> None:
    """Remove the container that was placed last on its node."""
    node = s.at[i]
    _relocate(p, c, s, i, NOWHERE)
    _add_node(p, c, s, node, -1)
    s.used[node] -= 1
    s.tazes[node] -= p.is_taz[i]
    _add_node(p, c, s, node, 1)


@jit(makes_arrays=False)
def _add_node(p: PackedInstance, c: Costs, s: ScoredPlacement, node: int, sign: int) -> None:
    """Add a node to the sums (sign 1), or subtract it (-1)."""
    used = s.used[node]
    if used == 0:
        return
    s.total[0] += sign * node_charge(c.open, c.slot, node, used)
    leader, credit = node_credit(p, s, node)
    job = p.job[leader]
    s.worth[job] += sign * credit
    if s.exposed[job] == 0:
        s.total[0] -= sign * c.credit * credit
    if s.tazes[node] < 2:
        return
    for k in range(used):
        if p.is_taz[s.held[node, k]]:
            j = p.job[s.held[node, k]]
            before = s.exposed[j]
            s.exposed[j] = before + sign
            if before == 0:
                s.total[0] += c.credit * s.worth[j]
            elif s.exposed[j] == 0:
                s.total[0] -= c.credit * s.worth[j]


@jit(makes_arrays=False)
def _relocate(p: PackedInstance, c: Costs, s: ScoredPlacement, i: int, to: int) -> None:
    """Change the node of a container, and charge splits and migrations; not what nodes hold."""
    job, source = p.job[i], s.at[i]
    scope = p.communication[job]
    if scope == _RACK:
        _change_rack(p, c, s, job, source, to)
        s.at[i] = to
    elif scope == _NODE:
        was_split = is_split(p, s.at, job)
        s.at[i] = to
        s.total[0] += c.split[job] * (is_split(p, s.at, job) * 1.0 - was_split * 1.0)
    else:
        s.at[i] = to
    current = p.current[i]
    if current != NOWHERE:
        s.total[0] += c.migration * (_is_away(current, to) * 1.0 - _is_away(current, source) * 1.0)


@jit(makes_arrays=False)
def _is_away(current: int, node: int) -> bool:
    return node != current and node != NOWHERE  # noqa: PLR1714 - compiled


@jit(makes_arrays=False)
def _change_rack(
    p: PackedInstance, c: Costs, s: ScoredPlacement, job: int, source: int, to: int
) -> None:
    a = NOWHERE if source == NOWHERE else p.rack[source]
    b = NOWHERE if to == NOWHERE else p.rack[to]
    if a == b:
        return
    before = s.racks[job]
    if a != NOWHERE:
        s.in_rack[job, a] -= 1
        s.racks[job] -= s.in_rack[job, a] == 0
    if b != NOWHERE:
        s.racks[job] += s.in_rack[job, b] == 0
        s.in_rack[job, b] += 1
    s.total[0] += c.split[job] * ((s.racks[job] > 1) * 1.0 - (before > 1) * 1.0)


@jit(makes_arrays=False)
def exchange(  # noqa: PLR0913, PLR0917 - numba takes no keywords
    p: PackedInstance, c: Costs, s: ScoredPlacement, a: int, i: int, b: int, k: int
) -> None:
    """Exchange the i-th container of node a with the k-th of b; either may be a free slot."""
    _add_node(p, c, s, a, -1)
    _add_node(p, c, s, b, -1)
    x = s.held[a, i] if i < s.used[a] else NOWHERE
    y = s.held[b, k] if k < s.used[b] else NOWHERE
    if x != NOWHERE:
        _relocate(p, c, s, x, b)
        s.tazes[a] -= p.is_taz[x]
        s.tazes[b] += p.is_taz[x]
    if y != NOWHERE:
        _relocate(p, c, s, y, a)
        s.tazes[b] -= p.is_taz[y]
        s.tazes[a] += p.is_taz[y]
    if x != NOWHERE and y != NOWHERE:  # noqa: PLR1714 - compiled
        s.held[a, i], s.held[b, k] = y, x
    elif x != NOWHERE:
        _transfer(s, a, i, b)
    elif y != NOWHERE:
        _transfer(s, b, k, a)
    _add_node(p, c, s, a, 1)
    _add_node(p, c, s, b, 1)


@jit(makes_arrays=False)
def _transfer(s: ScoredPlacement, source: int, k: int, to: int) -> None:
    """Append the k-th container of a node to another; the last of the node fills its position."""
    s.held[to, s.used[to]] = s.held[source, k]
    s.used[to] += 1
    s.used[source] -= 1
    s.held[source, k] = s.held[source, s.used[source]]


@jit(makes_arrays=False)
def exchange_nodes(p: PackedInstance, c: Costs, s: ScoredPlacement, a: int, b: int) -> None:
    """Exchange all containers of two nodes with equally many slots."""
    _add_node(p, c, s, a, -1)
    _add_node(p, c, s, b, -1)
    for k in range(s.used[a]):
        _relocate(p, c, s, s.held[a, k], b)
    for k in range(s.used[b]):
        _relocate(p, c, s, s.held[b, k], a)
    for k in range(max(s.used[a], s.used[b])):
        s.held[a, k], s.held[b, k] = s.held[b, k], s.held[a, k]
    s.used[a], s.used[b] = s.used[b], s.used[a]
    s.tazes[a], s.tazes[b] = s.tazes[b], s.tazes[a]
    _add_node(p, c, s, a, 1)
    _add_node(p, c, s, b, 1)
