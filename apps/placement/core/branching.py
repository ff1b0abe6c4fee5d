"""The search tree of the paper, compiled: a level a container, a branch a node that differs.

Each feature can be switched off. Bounds hold for every completion of the partial placement, so a
tree that is exhausted without approximate pruning is a proof. Source: ClavisMO §3.2, C6.

State is that of `annealing`, with ``at`` -1 for containers without a node. K slots of a node.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, cast

import numba
import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.annealing import Fixed, State, count_in
from apps.placement.core.instance import Communication

_NODE: Final = int(Communication.NODE)
_RACK: Final = int(Communication.RACK)
NAIVE: Final = 1
ELABORATE: Final = 2
_OFTEN: Final = 256  # tree nodes between two greedy completions

_F = TypeVar("_F", bound=Callable[..., Any])
# numba's decorator is untyped; cached on disk so that a worker starts without compiling
_jit = cast("Callable[[_F], _F]", numba.njit(cache=True, nogil=True))


class Tree(NamedTuple):
    """Where a depth-first search stands.

    Attributes
    ----------
    order : (c,) container of each level
    item : (c,) containers of one job, class and intensity have one number
    branches : (c, n) nodes to try at each level, the most promising first
    offered, tried : (c,) branches there are, and how many were tried
    level : (1,) how many containers are placed
    best : (c,) best placement found
    value : (1,) its F
    figures : (5,) tree nodes evaluated, branches pruned, branches made, the shallowest level left
        behind with all its branches tried, 1 when the tree is exhausted
    """

    order: Ints
    item: Ints
    branches: Ints
    offered: Ints
    tried: Ints
    level: Ints
    best: Ints
    value: Floats
    figures: Ints


@_jit
def put(known: Fixed, s: State, i: int, node: int) -> None:
    """Place a container that is nowhere."""
    count_in(known, s, node, -1)
    s.held[node, s.used[node]] = i
    s.used[node] += 1
    s.tazes[node] += known.is_taz[i]
    count_in(known, s, node, 1)
    job = known.job[i]
    wish = known.counts_as[job]
    if wish == _RACK:
        rack = known.rack[node]
        before = s.places[job]
        s.places[job] += s.in_rack[job, rack] == 0
        s.in_rack[job, rack] += 1
        s.total[0] += known.split[job] * ((s.places[job] > 1) * 1.0 - (before > 1) * 1.0)
    before_cost = _apart_so_far(known, s, job) if wish == _NODE else 0.0
    s.at[i] = node
    if wish == _NODE:
        s.total[0] += _apart_so_far(known, s, job) - before_cost
    if known.current[i] >= 0 and known.current[i] != node:
        s.total[0] += known.move


@_jit
def lift(known: Fixed, s: State, i: int) -> None:
    """Take back the container placed last on its node."""
    node = s.at[i]
    job = known.job[i]
    wish = known.counts_as[job]
    before_cost = _apart_so_far(known, s, job) if wish == _NODE else 0.0
    s.at[i] = -1
    if wish == _NODE:
        s.total[0] += _apart_so_far(known, s, job) - before_cost
    if wish == _RACK:
        rack = known.rack[node]
        before = s.places[job]
        s.in_rack[job, rack] -= 1
        s.places[job] -= s.in_rack[job, rack] == 0
        s.total[0] += known.split[job] * ((s.places[job] > 1) * 1.0 - (before > 1) * 1.0)
    if known.current[i] >= 0 and known.current[i] != node:
        s.total[0] -= known.move
    count_in(known, s, node, -1)
    s.used[node] -= 1
    s.held[node, s.used[node]] = -1
    s.tazes[node] -= known.is_taz[i]
    count_in(known, s, node, 1)


@_jit
def _apart_so_far(known: Fixed, s: State, job: int) -> float:
    """Return what a ``node`` job costs for certain: two of its containers are on two nodes."""
    first = -1
    for k in range(known.first[job], known.first[job + 1]):
        node = s.at[known.of_job[k]]
        if node >= 0:
            if first >= 0 and node != first:
                return float(known.split[job])
            first = node
    return 0.0


@_jit
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


@_jit
def _taz_hope(known: Fixed, s: State, order: Ints, level: int) -> float:
    total = 0.0
    for k in range(level, order.size):
        if known.is_taz[order[k]] and s.exposed[known.job[order[k]]] == 0:
            total += known.intensity[order[k]]
    return total


@_jit
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


@_jit
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


@_jit
def _is_known(known: Fixed, marks: Ints, nodes: Ints, count: int, node: int) -> bool:
    for k in range(count):
        other = nodes[k]
        if marks[other] == marks[node]:
            alike = known.slots[other] == known.slots[node]
            if alike and known.open[other] == known.open[node]:
                return bool(known.slot[other] == known.slot[node])
    return False


@_jit
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


@_jit
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


@_jit
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


@_jit
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
    _keep(s, tree)
    for k in range(tree.order.size - 1, level - 1, -1):
        lift(known, s, tree.order[k])


@_jit
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


@_jit
def _keep(s: State, tree: Tree) -> None:
    if s.total[0] < tree.value[0]:
        tree.value[0] = s.total[0]
        tree.best[:] = s.at


@_jit
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
                _keep(s, tree)
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


@_jit
def begin(known: Fixed, s: State, tree: Tree, is_custom: bool, marks: Ints) -> None:
    """List the branches of the root."""
    _branch(known, s, tree, 0, is_custom, marks)
