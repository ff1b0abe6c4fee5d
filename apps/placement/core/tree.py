"""A partial placement, and where a depth-first search of all placements stands; compiled.

State is that of `annealing`, with ``at`` -1 for containers without a node.
"""

from typing import Final, NamedTuple

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.annealing import Fixed, State, count_in
from apps.placement.core.instance import Communication

_NODE: Final = int(Communication.NODE)
_RACK: Final = int(Communication.RACK)


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


@jit()
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


@jit()
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


@jit()
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


@jit()
def keep(s: State, tree: Tree) -> None:
    """Note a whole placement that is better than the best."""
    if s.total[0] < tree.value[0]:
        tree.value[0] = s.total[0]
        tree.best[:] = s.at
