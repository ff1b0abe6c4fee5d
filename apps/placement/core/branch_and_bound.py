"""The paper's solver, with each of its features switchable so that its Table 1 can be reproduced.

Source: ClavisMO §3.2 and Table 1, C6. A level of the tree places one container; tazes come first,
job by job. What differs from the paper: a branch is left out only when another leads to the same
F for every completion (the paper also merges nodes that merely look alike), and bounds hold for
every completion, so a tree that ends is a proof.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.placement.core import annealing, branching, kernels
from apps.placement.core.search import Search
from apps.placement.core.tree import Tree

_STEPS: Final = 64  # tree nodes between two looks at the clock
_BATCH: Final = 64  # random placements evaluated at once


@dataclass(frozen=True, slots=True)
class Features:
    """What the solver uses.

    Attributes
    ----------
    is_custom : branch only into nodes that differ, the most promising first
    bound : 0 none, `branching.NAIVE` or `branching.ELABORATE`
    is_fathoming : complete greedily from time to time
    share : K; prune where the bound is above this share of the best F + beta; 1 keeps proofs
    """

    is_custom: bool = True
    bound: int = branching.ELABORATE
    is_fathoming: bool = True
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Figures:
    """How far a search came.

    Attributes
    ----------
    evaluated : tree nodes, or placements tried at random
    pruned : share of the evaluated tree nodes that were not followed
    levels : share of the tree's levels whose branches were all tried
    is_exhausted : nothing is left to try
    """

    evaluated: int
    pruned: float
    levels: float
    is_exhausted: bool


def branch_and_bound(search: Search, features: Features, *, limit_s: float = np.inf) -> Figures:
    """Search the tree until it is exhausted, or for so long; starts from the search's best."""
    until = search.seconds + limit_s
    instance = search.instance
    count = instance.job.size
    if count == 0:
        return Figures(0, 0.0, 1.0, is_exhausted=True)
    known = annealing.fixed(instance, search.costs)
    state = annealing.empty(known, count)
    tree = _tree(search, known)
    marks = np.zeros(instance.slots.size, dtype=np.int64)
    offset = search.costs.beta - search.costs.least
    branching.begin(known, state, tree, features.is_custom, marks)
    while not tree.figures[4] and not search.is_over and search.seconds < until:
        before = tree.value[0]
        branching.advance(
            known,
            state,
            tree,
            marks,
            features.is_custom,
            features.bound,
            features.is_fathoming,
            features.share,
            offset,
            _STEPS,
        )
        if tree.value[0] < before:
            search.offer(tree.best)
    if tree.figures[4]:
        search.prove(
            features.share * (float(tree.value[0]) + offset) - offset + search.costs.least
        )
    evaluated, pruned, _, shallowest, ended = tree.figures.tolist()
    return Figures(
        evaluated,
        pruned / max(evaluated, 1),
        (count - min(shallowest, count)) / count,
        is_exhausted=bool(ended),
    )


def at_random(search: Search) -> Figures:
    """Try placements drawn at random (row 0 of the table) until the search is over."""
    instance = search.instance
    problem = kernels.problem(instance)
    slots = np.repeat(np.arange(instance.slots.size), instance.slots)
    scale = np.array([search.objectives[name].scale(instance) for name in "PDC"])
    weight = np.array([search.weights.get(name, 0.0) for name in "PDC"]) * [1.0, -1.0, 1.0]
    each = np.divide(weight, scale, out=np.zeros(3), where=scale > 0.0)
    tried = 0
    while not search.is_over:
        drawn = search.rng.permuted(np.tile(slots, (_BATCH, 1)), axis=1)[:, : instance.job.size]
        values = kernels.evaluate_all(problem, np.ascontiguousarray(drawn)) @ each
        search.offer(drawn[int(values.argmin())])
        tried += _BATCH
    return Figures(tried, 0.0, 0.0, is_exhausted=False)


def _tree(search: Search, known: annealing.Fixed) -> Tree:
    instance = search.instance
    count, nodes = instance.job.size, instance.slots.size
    key = np.stack([instance.job, instance.is_taz, instance.intensity], axis=1)
    item = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)
    by_size = -instance.size[instance.job]
    order = np.lexsort((item, instance.job, by_size, ~instance.is_taz))
    best = search.assignment
    # what solvers know nothing about is not in the tree's F
    value = np.inf if best is None else float(annealing.state(known, best, 0).total[0])
    return Tree(
        order=order.astype(np.int64),
        item=item.astype(np.int64),
        branches=np.zeros((count, nodes), dtype=np.int64),
        offered=np.zeros(count, dtype=np.int64),
        tried=np.zeros(count, dtype=np.int64),
        level=np.zeros(1, dtype=np.int64),
        best=best.copy() if best is not None else np.zeros(count, dtype=np.int64),
        value=np.array([value]),
        figures=np.array([0, 0, 0, count, 0], dtype=np.int64),
    )
