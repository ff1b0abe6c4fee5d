"""Greedy completions of partial placements, by the counts of the elaborate bound; compiled.

Source: ClavisMO §3.2, elaborate fathoming, C6. p the packed instance, c the costs, s the scored
placement.
"""

from typing import Final

import numpy as np

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Ints
from apps.placement.core.problem.costs import Costs
from apps.placement.core.problem.evaluator import PackedInstance
from apps.placement.core.problem.instance import NOWHERE, Communication
from apps.placement.core.solver.incremental import ScoredPlacement, place, remove_last
from apps.placement.core.solver.search_tree import SearchTree, record_incumbent

_NODE: Final = int(Communication.NODE)
_RACK: Final = int(Communication.RACK)

# what a node with a free slot holds
_ALONE: Final = 0  # a taz that is to stay the only taz
_TURTLES: Final = 1
_SHARED: Final = 2  # tazes that share
_EMPTY: Final = 3
_ANY: Final = 4


@jit()
def protected_tazes(
    p: PackedInstance, c: Costs, s: ScoredPlacement, order: Ints, level: int
) -> int:
    """Return how many unplaced tazes the elaborate bound puts on nodes without another taz."""
    width = s.held.shape[1]
    free, lone_tazes, lone_turtles, opening = 0, 0, 0, np.inf
    for node in range(s.used.size):
        if s.used[node] == 0:
            opening = min(opening, c.open[node])
        else:
            free += p.slots[node] - s.used[node]
        if s.used[node] == 1:
            lone_tazes += s.tazes[node]
            lone_turtles += 1 - s.tazes[node]
    tazes, creditable, credit = 0, 0, 0.0
    for k in range(level, order.size):
        i = order[k]
        tazes += p.is_taz[i]
        if p.is_taz[i] and s.exposed[p.job[i]] == 0:
            creditable += 1
            credit += p.intensity[i]
    mean_credit = c.credit * credit / max(creditable, 1)
    min_nodes = max(0, -(-(order.size - level - free) // width))
    best, min_value = 0, np.inf
    for m in range(tazes + 1):
        nodes = max(min_nodes, m - lone_turtles + max(0, -(-(tazes - m - lone_tazes) // width)))
        value = (opening * nodes if nodes else 0.0) - mean_credit * min(m, creditable)
        if value < min_value:
            best, min_value = m, value
    return best


@jit()
def _find_node(p: PackedInstance, s: ScoredPlacement, shared: Ints, rack: int, kind: int) -> int:
    """Return a node of a kind with a free slot, in a rack or in any (`NOWHERE`)."""
    for node in range(s.used.size):
        if s.used[node] >= p.slots[node] or (rack >= 0 and p.rack[node] != rack):
            continue
        actual = _EMPTY
        if s.used[node] > 0:
            actual = _TURTLES if s.tazes[node] == 0 else (_SHARED if shared[node] else _ALONE)
        if kind in (actual, _ANY):
            return node
    return NOWHERE


@jit()
def _choose_rack(p: PackedInstance, s: ScoredPlacement, job: int, needed: int) -> int:
    """Return the rack of a ``rack`` job: its present one, else the best fit by empty nodes."""
    if p.communication[job] != _RACK:
        return NOWHERE
    empty = np.zeros(s.in_rack.shape[1], np.int64)
    for node in range(s.used.size):
        empty[p.rack[node]] += s.used[node] == 0
    best = 0
    for rack in range(empty.size):
        if s.in_rack[job, rack] > 0:
            return rack
        # the fullest rack with room for the whole job, else the emptiest rack
        room, best_room = min(empty[rack], needed), min(empty[best], needed)
        if room > best_room or (room == best_room == needed and empty[rack] < empty[best]):
            best = rack
    return best


@jit()
def fathom(p: PackedInstance, c: Costs, s: ScoredPlacement, tree: SearchTree, level: int) -> None:
    """Complete the placement greedily, job by job in racks; record it and undo it.

    Whole jobs of tazes are kept apart while the bound's number of such tazes lasts; other tazes
    share nodes. Turtles join tazes that are apart, then each other.
    """
    left = protected_tazes(p, c, s, tree.order, level)
    shared = np.zeros(s.used.size, np.int64)
    for node in range(s.used.size):
        shared[node] = s.tazes[node] > 1
    job, is_apart, rack = NOWHERE, False, NOWHERE
    for k in range(level, tree.order.size):
        i = tree.order[k]
        if p.job[i] != job or not p.is_taz[i]:
            size = 0
            job = p.job[i]
            while k + size < tree.order.size and p.job[tree.order[k + size]] == job:
                size += 1
            is_apart = p.is_taz[i] and s.exposed[job] == 0 and size <= left
            left -= size if is_apart else 0
            nodes = size if is_apart else -(-size // s.held.shape[1])
            rack = _choose_rack(p, s, job, nodes)
        node = _choose_node(p, s, shared, rack, i, is_apart)
        if p.is_taz[i] and not is_apart:
            shared[node] = 1
        place(p, c, s, i, node)
    record_incumbent(s, tree)
    for k in range(tree.order.size - 1, level - 1, -1):
        remove_last(p, c, s, tree.order[k])


@jit()
def _choose_node(
    p: PackedInstance, s: ScoredPlacement, shared: Ints, rack: int, i: int, is_apart: bool
) -> int:
    """Return a node for one container of a greedy completion."""
    job = p.job[i]
    if p.communication[job] == _NODE and not is_apart:
        for k in range(p.job_start[job], p.job_start[job + 1]):
            node = s.at[p.job_containers[k]]
            if node >= 0 and s.used[node] < p.slots[node]:
                return node
    if is_apart:
        kinds = (_TURTLES, _EMPTY, _TURTLES, _EMPTY)
    elif p.is_taz[i]:
        kinds = (_SHARED, _EMPTY, _SHARED, _EMPTY)
    else:
        kinds = (_ALONE, _SHARED, _TURTLES, _EMPTY)
    for scope in (rack, NOWHERE):
        for kind in kinds:
            node = _find_node(p, s, shared, scope, kind)
            if node >= 0:
                return node
    return _find_node(p, s, shared, NOWHERE, _ANY)
