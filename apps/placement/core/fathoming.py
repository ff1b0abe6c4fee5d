"""Greedy completions of partial placements, as the elaborate bound foresees them; compiled.

Source: ClavisMO §3.2, elaborate fathoming, C6.
"""

from typing import Final

import numpy as np

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Ints
from apps.placement.core.annealing import Fixed, State
from apps.placement.core.instance import Communication
from apps.placement.core.tree import Tree, keep, lift, put

_NODE: Final = int(Communication.NODE)
_RACK: Final = int(Communication.RACK)


@jit()
def apart(known: Fixed, s: State, order: Ints, level: int) -> int:
    """Return how many unplaced tazes the elaborate bound would give a node without another."""
    width = s.held.shape[1]
    free, lone_tazes, lone_turtles, opening = 0, 0, 0, np.inf
    for node in range(s.used.size):
        if s.used[node] == 0:
            opening = min(opening, known.open[node])
        else:
            free += known.slots[node] - s.used[node]
        if s.used[node] == 1:
            lone_tazes += s.tazes[node]
            lone_turtles += 1 - s.tazes[node]
    tazes, hopeful, hope = 0, 0, 0.0
    for k in range(level, order.size):
        i = order[k]
        tazes += known.is_taz[i]
        if known.is_taz[i] and s.exposed[known.job[i]] == 0:
            hopeful += 1
            hope += known.intensity[i]
    each = known.credit * hope / max(hopeful, 1)
    more = max(0, -(-(order.size - level - free) // width))
    best, least = 0, np.inf
    for m in range(tazes + 1):
        nodes = max(more, m - lone_turtles + max(0, -(-(tazes - m - lone_tazes) // width)))
        value = (opening * nodes if nodes else 0.0) - each * min(m, hopeful)
        if value < least:
            best, least = m, value
    return best


@jit()
def _find(known: Fixed, s: State, shared: Ints, rack: int, want: int) -> int:
    """Find a node with room, in a rack or anywhere (-1), that holds what is wanted.

    0 one taz that is to stay alone, 1 turtles only, 2 tazes that share, 3 nothing, 4 anything.
    """
    for node in range(s.used.size):
        if s.used[node] >= known.slots[node] or (rack >= 0 and known.rack[node] != rack):
            continue
        kind = 3
        if s.used[node] > 0:
            kind = 1 if s.tazes[node] == 0 else (2 if shared[node] else 0)
        if want in (kind, 4):
            return node
    return -1


@jit()
def _home(known: Fixed, s: State, job: int, need: int) -> int:
    """Find the rack for a job that wishes for one: its own, else that with most empty nodes."""
    if known.counts_as[job] != _RACK:
        return -1
    empty = np.zeros(s.in_rack.shape[1], np.int64)
    for node in range(s.used.size):
        empty[known.rack[node]] += s.used[node] == 0
    best = 0
    for rack in range(empty.size):
        if s.in_rack[job, rack] > 0:
            return rack
        # the fullest rack that still has room for the whole job, else the emptiest
        room, best_room = min(empty[rack], need), min(empty[best], need)
        if room > best_room or (room == best_room == need and empty[rack] < empty[best]):
            best = rack
    return best


@jit()
def fathom(known: Fixed, s: State, tree: Tree, level: int) -> None:
    """Complete greedily by the counts of the elaborate bound, in the racks of jobs.

    Whole jobs of tazes are kept apart while the bound's number of such tazes lasts; the others
    share nodes. Turtles join tazes that are apart, then each other.
    """
    left = apart(known, s, tree.order, level)
    shared = np.zeros(s.used.size, np.int64)
    for node in range(s.used.size):
        shared[node] = s.tazes[node] > 1
    job, is_apart, rack = -1, False, -1
    for k in range(level, tree.order.size):
        i = tree.order[k]
        if known.job[i] != job or not known.is_taz[i]:
            size = 0
            job = known.job[i]
            while k + size < tree.order.size and known.job[tree.order[k + size]] == job:
                size += 1
            is_apart = known.is_taz[i] and s.exposed[job] == 0 and size <= left
            left -= size if is_apart else 0
            rack = _home(known, s, job, size if is_apart else -(-size // s.held.shape[1]))
        node = _seat(known, s, shared, rack, i, is_apart)
        if known.is_taz[i] and not is_apart:
            shared[node] = 1
        put(known, s, i, node)
    keep(s, tree)
    for k in range(tree.order.size - 1, level - 1, -1):
        lift(known, s, tree.order[k])


@jit()
def _seat(known: Fixed, s: State, shared: Ints, rack: int, i: int, is_apart: bool) -> int:
    """Choose a node for one container of a greedy completion."""
    job = known.job[i]
    if known.counts_as[job] == _NODE:
        for k in range(known.first[job], known.first[job + 1]):
            node = s.at[known.of_job[k]]
            if node >= 0 and s.used[node] < known.slots[node] and not is_apart:
                return node
    if is_apart:
        wants = (1, 3, 1, 3)
    elif known.is_taz[i]:
        wants = (2, 3, 2, 3)
    else:
        wants = (0, 2, 1, 3)
    for place in (rack, -1):
        for want in wants:
            node = _find(known, s, shared, place, want)
            if node >= 0:
                return node
    return _find(known, s, shared, -1, 4)
