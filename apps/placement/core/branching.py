"""The search tree of the paper, compiled: a level a container, a branch a node that differs.

Each feature can be switched off. Bounds hold for every completion of the partial placement, so a
tree that is exhausted without approximate pruning is a proof. Source: ClavisMO §3.2, C6.

K slots of a node; states and trees are those of `tree`.
"""

from typing import Final

import numpy as np

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Ints
from apps.placement.core.annealing import Fixed, State
from apps.placement.core.fathoming import fathom
from apps.placement.core.tree import Tree, keep, lift, put

NAIVE: Final = 1
ELABORATE: Final = 2
_OFTEN: Final = 256  # tree nodes between two greedy completions


@jit()
def bound(known: Fixed, s: State, order: Ints, level: int, kind: int) -> float:
    """Return an F that no completion is below.

    Naive: power as if all else were packed, every unplaced container of a job not yet exposed
    credited its whole intensity, no further split. Elaborate, for two slots and all nodes alike:
    for every number m of unplaced tazes that get a node without another taz, the nodes that m
    needs and the credits it leaves; the best m.
    """
    if kind == 0:
        return -np.inf
    free, lone_tazes, lone_turtles, cheapest, least_slot = 0, 0, 0, np.inf, np.inf
    for node in range(s.used.size):
        least_slot = min(least_slot, known.slot[node])
        if s.used[node] == 0:
            cheapest = min(cheapest, known.open[node])
            continue
        free += known.slots[node] - s.used[node]
        if s.used[node] == 1:
            lone_tazes += s.tazes[node]
            lone_turtles += 1 - s.tazes[node]
    left = order.size - level
    width = s.held.shape[1]
    tazes, hopeful, hope, least, most = 0, 0, 0.0, np.inf, 0.0
    for k in range(level, order.size):
        i = order[k]
        is_open = s.exposed[known.job[i]] == 0
        tazes += known.is_taz[i]
        if is_open:
            hope += known.intensity[i]
            if known.is_taz[i]:
                hopeful += 1
                most = max(most, known.intensity[i])
            else:
                least = min(least, -known.intensity[i])
    opening = cheapest if cheapest < np.inf else 0.0
    more = max(0, -(-(left - free) // width))
    base = s.total[0] + least_slot * left
    value = base + opening * more - known.credit * hope
    if kind == NAIVE or width > 2:
        return value
    turtle_hope = hope - _taz_hope(known, s, order, level)
    best = np.inf
    for m in range(tazes + 1):
        apart = m - lone_turtles + max(0, -(-(tazes - m - lone_tazes) // 2))
        needs = max(more, apart)
        best = min(best, opening * needs - known.credit * most * min(m, hopeful))
    return max(value, base + best - known.credit * turtle_hope)


@jit()
def _taz_hope(known: Fixed, s: State, order: Ints, level: int) -> float:
    total = 0.0
    for k in range(level, order.size):
        if known.is_taz[order[k]] and s.exposed[known.job[order[k]]] == 0:
            total += known.intensity[order[k]]
    return total


@jit()
def _branch(known: Fixed, s: State, tree: Tree, level: int, is_custom: bool, marks: Ints) -> None:
    """List the nodes to try for the container of a level.

    Custom: one node of each kind that differs (same rack, costs and slots, the same content by
    job, class and intensity), in the order of what the partial placement then costs.
    """
    i = tree.order[level]
    count = 0
    rise = np.empty(s.used.size)
    for node in range(s.used.size):
        if s.used[node] >= known.slots[node]:
            continue
        if is_custom:
            marks[node] = _mark(known, s, tree, node)
            if _is_known(known, marks, tree.branches[level], count, node):
                continue
            before = s.total[0]
            put(known, s, i, node)
            rise[count] = s.total[0]
            lift(known, s, i)
            s.total[0] = before
        tree.branches[level, count] = node
        count += 1
    tree.offered[level] = count
    tree.tried[level] = 0
    tree.figures[2] += count
    if is_custom:
        tree.branches[level, :count] = tree.branches[level, :count][
            np.argsort(rise[:count], kind="mergesort")
        ]


@jit()
def _mark(known: Fixed, s: State, tree: Tree, node: int) -> int:
    """Return a number that nodes of one rack have in common when they hold the same.

    Sums of mixed item numbers: a clash of two contents in one rack is a matter of 2^-63.
    """
    total = np.uint64(known.rack[node] + 1) * np.uint64(0x9E3779B97F4A7C15)
    for k in range(s.used[node]):
        x = np.uint64(tree.item[s.held[node, k]] + 1) * np.uint64(0xBF58476D1CE4E5B9)
        x ^= x >> np.uint64(29)
        total += x * np.uint64(0x94D049BB133111EB)
    if known.move > 0.0:  # then every node is one of its own
        total += np.uint64(node + 1) * np.uint64(0xD6E8FEB86659FD93)
    return int(total >> np.uint64(1))


@jit()
def _is_known(known: Fixed, marks: Ints, nodes: Ints, count: int, node: int) -> bool:
    for k in range(count):
        other = nodes[k]
        if marks[other] == marks[node]:
            alike = known.slots[other] == known.slots[node]
            if alike and known.open[other] == known.open[node]:
                return bool(known.slot[other] == known.slot[node])
    return False


@jit()
def advance(  # noqa: PLR0913, PLR0917 - numba takes no keywords
    known: Fixed,
    s: State,
    tree: Tree,
    marks: Ints,
    is_custom: bool,
    kind: int,
    is_fathoming: bool,
    share: float,
    offset: float,
    steps: int,
) -> None:
    """Go on for so many tree nodes; prune where the bound is above ``share`` of the best.

    ``offset`` is added to both before they are compared: F may be negative, F + beta is not.
    """
    last = tree.order.size
    for _ in range(steps):
        level = tree.level[0]
        if level < last and tree.tried[level] < tree.offered[level]:
            node = tree.branches[level, tree.tried[level]]
            tree.tried[level] += 1
            put(known, s, tree.order[level], node)
            tree.figures[0] += 1
            if level + 1 == last:
                keep(s, tree)
                lift(known, s, tree.order[level])
                continue
            if kind > 0:
                limit = share * (tree.value[0] + offset) - 1e-12
                if bound(known, s, tree.order, level + 1, kind) + offset >= limit:
                    tree.figures[1] += 1
                    lift(known, s, tree.order[level])
                    continue
            if is_fathoming and tree.figures[0] % _OFTEN == 1:
                fathom(known, s, tree, level + 1)
            tree.level[0] = level + 1
            _branch(known, s, tree, level + 1, is_custom, marks)
            continue
        tree.figures[3] = min(tree.figures[3], level)
        if level == 0:
            tree.figures[4] = 1
            return
        tree.level[0] = level - 1
        lift(known, s, tree.order[level - 1])


@jit()
def begin(known: Fixed, s: State, tree: Tree, is_custom: bool, marks: Ints) -> None:
    """List the branches of the root."""
    _branch(known, s, tree, 0, is_custom, marks)
