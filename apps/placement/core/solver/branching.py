"""The search tree of the paper, compiled: one level per container, one branch per distinct node.

Each feature can be switched off. Bounds hold for every completion of the partial placement, so an
exhausted tree is a proof, unless pruning was approximate. Source: ClavisMO §3.2, C6.

K slots of a node; p the packed instance, c the costs, s the scored placement.
"""

from typing import Final

import numpy as np

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Ints
from apps.placement.core.problem.costs import Costs
from apps.placement.core.problem.evaluator import PackedInstance
from apps.placement.core.solver.fathoming import fathom
from apps.placement.core.solver.incremental import ScoredPlacement, place, remove_last
from apps.placement.core.solver.search_tree import SearchTree, record_incumbent

NAIVE: Final = 1
ELABORATE: Final = 2
_FATHOM_EVERY: Final = 256  # tree nodes
_PRUNING_TOLERANCE: Final = 1e-12


@jit()
def lower_bound(
    p: PackedInstance, c: Costs, s: ScoredPlacement, order: Ints, level: int, kind: int
) -> float:
    """Return a lower bound on F of every completion.

    Naive: the remaining containers packed densely, every unplaced container of a job not yet
    exposed credited its whole intensity, no further split. Elaborate, for two slots and identical
    nodes: for every number m of unplaced tazes on nodes without another taz, the nodes that m
    needs and the credits it leaves; the best m.
    """
    if kind == 0:
        return -np.inf
    free, lone_tazes, lone_turtles, min_open, min_slot = 0, 0, 0, np.inf, np.inf
    for node in range(s.used.size):
        min_slot = min(min_slot, c.slot[node])
        if s.used[node] == 0:
            min_open = min(min_open, c.open[node])
            continue
        free += p.slots[node] - s.used[node]
        if s.used[node] == 1:
            lone_tazes += s.tazes[node]
            lone_turtles += 1 - s.tazes[node]
    unplaced = order.size - level
    width = s.held.shape[1]
    tazes, creditable, credit, turtle_credit, max_credit = 0, 0, 0.0, 0.0, 0.0
    for k in range(level, order.size):
        i = order[k]
        tazes += p.is_taz[i]
        if s.exposed[p.job[i]] == 0:
            credit += p.intensity[i]
            if p.is_taz[i]:
                creditable += 1
                max_credit = max(max_credit, p.intensity[i])
            else:
                turtle_credit += p.intensity[i]
    opening = min_open if min_open < np.inf else 0.0
    min_nodes = max(0, -(-(unplaced - free) // width))
    base = s.total[0] + min_slot * unplaced
    naive = base + opening * min_nodes - c.credit * credit
    if kind == NAIVE or width > 2:
        return naive
    best = np.inf
    for m in range(tazes + 1):
        apart = m - lone_turtles + max(0, -(-(tazes - m - lone_tazes) // 2))
        nodes = max(min_nodes, apart)
        best = min(best, opening * nodes - c.credit * max_credit * min(m, creditable))
    return max(naive, base + best - c.credit * turtle_credit)


@jit()
def list_branches(  # noqa: PLR0913, PLR0917 - numba takes no keywords
    p: PackedInstance,
    c: Costs,
    s: ScoredPlacement,
    tree: SearchTree,
    level: int,
    is_custom: bool,
    marks: Ints,
) -> None:
    """List the nodes to try for the container of a level; (n,) ``marks`` is scratch.

    Custom: one node of each distinct kind (same rack, costs and slots, the same content by job,
    class and intensity), by ascending cost of the resulting partial placement.
    """
    i = tree.order[level]
    count = 0
    cost = np.empty(s.used.size)
    for node in range(s.used.size):
        if s.used[node] >= p.slots[node]:
            continue
        if is_custom:
            marks[node] = _content_mark(p, c, s, tree, node)
            if _is_duplicate(p, c, marks, tree.branches[level], count, node):
                continue
            before = s.total[0]
            place(p, c, s, i, node)
            cost[count] = s.total[0]
            remove_last(p, c, s, i)
            s.total[0] = before
        tree.branches[level, count] = node
        count += 1
    tree.offered[level] = count
    tree.tried[level] = 0
    tree.figures[2] += count
    if is_custom:
        tree.branches[level, :count] = tree.branches[level, :count][
            np.argsort(cost[:count], kind="mergesort")
        ]


@jit()
def _content_mark(
    p: PackedInstance, c: Costs, s: ScoredPlacement, tree: SearchTree, node: int
) -> int:
    """Return a number that nodes of one rack share when they hold the same.

    A sum of hashed item numbers: two contents of one rack collide with probability 2^-63.
    """
    total = np.uint64(p.rack[node] + 1) * np.uint64(0x9E3779B97F4A7C15)
    for k in range(s.used[node]):
        x = np.uint64(tree.item[s.held[node, k]] + 1) * np.uint64(0xBF58476D1CE4E5B9)
        x ^= x >> np.uint64(29)
        total += x * np.uint64(0x94D049BB133111EB)
    if c.migration > 0.0:  # then every node is distinct
        total += np.uint64(node + 1) * np.uint64(0xD6E8FEB86659FD93)
    return int(total >> np.uint64(1))


@jit()
def _is_duplicate(
    p: PackedInstance, c: Costs, marks: Ints, nodes: Ints, count: int, node: int
) -> bool:
    for k in range(count):
        other = nodes[k]
        if marks[other] == marks[node]:
            is_same = p.slots[other] == p.slots[node]
            if is_same and c.open[other] == c.open[node]:
                return bool(c.slot[other] == c.slot[node])
    return False


@jit()
def advance(  # noqa: PLR0913, PLR0917 - numba takes no keywords
    p: PackedInstance,
    c: Costs,
    s: ScoredPlacement,
    tree: SearchTree,
    marks: Ints,
    is_custom: bool,
    bound_kind: int,
    is_fathoming: bool,
    share: float,
    offset: float,
    steps: int,
) -> None:
    """Evaluate at most ``steps`` tree nodes; prune where the bound is above ``share`` of the best.

    ``offset`` is added to both before they are compared: F may be negative, F + beta is not.
    """
    last = tree.order.size
    for _ in range(steps):
        level = tree.level[0]
        if level < last and tree.tried[level] < tree.offered[level]:
            i, node = tree.order[level], tree.branches[level, tree.tried[level]]
            tree.tried[level] += 1
            place(p, c, s, i, node)
            tree.figures[0] += 1
            if level + 1 == last:
                record_incumbent(s, tree)
                remove_last(p, c, s, i)
                continue
            if bound_kind > 0:
                limit = share * (tree.value[0] + offset) - _PRUNING_TOLERANCE
                if lower_bound(p, c, s, tree.order, level + 1, bound_kind) + offset >= limit:
                    tree.figures[1] += 1
                    remove_last(p, c, s, i)
                    continue
            if is_fathoming and tree.figures[0] % _FATHOM_EVERY == 1:
                fathom(p, c, s, tree, level + 1)
            tree.level[0] = level + 1
            list_branches(p, c, s, tree, level + 1, is_custom, marks)
            continue
        tree.figures[3] = min(tree.figures[3], level)
        if level == 0:
            tree.figures[4] = 1
            return
        tree.level[0] = level - 1
        remove_last(p, c, s, tree.order[level - 1])
