"""The state of a depth-first search of all placements; compiled.

The partial placement itself is an `incremental.ScoredPlacement`.
"""

from typing import NamedTuple

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.solver.incremental import ScoredPlacement


class SearchTree(NamedTuple):
    """The state of a depth-first search.

    Attributes
    ----------
    order : (c,) container of each level
    item : (c,) a number that containers of one job, class and intensity share
    branches : (c, n) nodes to try at each level, the most promising first
    offered, tried : (c,) number of branches, and of those tried
    level : (1,) number of containers placed
    best : (c,) best placement so far
    value : (1,) its F
    figures : (5,) tree nodes evaluated, branches pruned, branches made, the lowest level whose
        branches were all tried, 1 if the tree is exhausted
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


@jit(makes_arrays=False)
def record_incumbent(s: ScoredPlacement, tree: SearchTree) -> None:
    """Store a whole placement if it is better than the best."""
    if s.total[0] < tree.value[0]:
        tree.value[0] = s.total[0]
        for i in range(s.at.size):
            tree.best[i] = s.at[i]
