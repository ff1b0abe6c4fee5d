"""The paper's solver, with each of its features switchable so that its Table 1 can be reproduced.

Source: ClavisMO §3.2 and Table 1, C6. A level of the tree places one container; tazes come first,
job by job. Differences from the paper: a branch is skipped only if another leads to the same F
for every completion (the paper also merges nodes that merely look alike), and bounds hold for
every completion, so an exhausted tree is a proof.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.common.core.arrays import as_readonly
from apps.placement.core.problem.evaluator import evaluate_all, pack
from apps.placement.core.solver import branching, incremental
from apps.placement.core.solver.run import SolverRun
from apps.placement.core.solver.search_tree import SearchTree

_STEPS: Final = 64  # tree nodes between two checks of the clock
_BATCH: Final = 64  # random placements evaluated at once


@dataclass(frozen=True, slots=True)
class Features:
    """The features that are on.

    Attributes
    ----------
    is_custom : branch only into distinct nodes, the most promising first
    bound : 0 none, `branching.NAIVE` or `branching.ELABORATE`
    is_fathoming : complete partial placements greedily from time to time
    share : K; prune where the bound is above this share of the best F + beta; 1 keeps proofs
    """

    is_custom: bool = True
    bound: int = branching.ELABORATE
    is_fathoming: bool = True
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class SearchFigures:
    """The extent of a search.

    Attributes
    ----------
    evaluated : tree nodes, or random placements
    pruned : share of the evaluated tree nodes that were pruned
    levels : share of the tree's levels whose branches were all tried
    is_exhausted : nothing is left to try
    """

    evaluated: int
    pruned: float
    levels: float
    is_exhausted: bool


def branch_and_bound(
    run: SolverRun, features: Features, *, limit_s: float = np.inf
) -> SearchFigures:
    """Search the tree, from the run's incumbent, until it is exhausted or the time is up."""
    until = run.seconds + limit_s
    instance = run.instance
    count = instance.job.size
    if count == 0:
        return SearchFigures(0, 0.0, 1.0, is_exhausted=True)
    packed = pack(instance)
    placement = incremental.empty_placement(instance)
    tree = _tree(run)
    marks = np.zeros(instance.slots.size, dtype=np.int64)
    offset = run.costs.beta - run.costs.other_min
    branching.list_branches(packed, run.costs, placement, tree, 0, features.is_custom, marks)
    while not tree.figures[4] and not run.is_over and run.seconds < until:
        before = tree.value[0]
        branching.advance(
            packed,
            run.costs,
            placement,
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
            run.offer(tree.best)
    if tree.figures[4]:
        value = features.share * (float(tree.value[0]) + offset) - offset
        run.raise_bound(value + run.costs.other_min)
    evaluated, pruned, _, shallowest, is_exhausted = tree.figures.tolist()
    return SearchFigures(
        evaluated,
        pruned / max(evaluated, 1),
        (count - min(shallowest, count)) / count,
        is_exhausted=bool(is_exhausted),
    )


def try_random_placements(run: SolverRun) -> SearchFigures:
    """Try random placements (row 0 of the table) until the run is over."""
    instance = run.instance
    packed = pack(instance)
    slots = np.repeat(np.arange(instance.slots.size), instance.slots)
    scale = np.array([run.objectives[name].scale(instance) for name in "PDC"])
    weight = np.array([run.weights.get(name, 0.0) for name in "PDC"]) * [1.0, -1.0, 1.0]
    cost = np.divide(weight, scale, out=np.zeros(3), where=scale > 0.0)
    tried = 0
    while not run.is_over:
        batch = run.rng.permuted(np.tile(slots, (_BATCH, 1)), axis=1)[:, : instance.job.size]
        values = evaluate_all(packed, as_readonly(batch)) @ cost
        run.offer(batch[int(values.argmin())])
        tried += _BATCH
    return SearchFigures(tried, 0.0, 0.0, is_exhausted=False)


def _tree(run: SolverRun) -> SearchTree:
    instance = run.instance
    count, nodes = instance.job.size, instance.slots.size
    key = np.stack([instance.job, instance.is_taz, instance.intensity], axis=1)
    item = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)
    by_size = -instance.size[instance.job]
    order = np.lexsort((item, instance.job, by_size, ~instance.is_taz))
    best, value = np.zeros(count, dtype=np.int64), np.inf
    if run.assignment is not None:
        best = run.assignment.copy()
        # not the F of the run: the tree does not contain objectives that it cannot model
        scored = incremental.score(instance, pack(instance), run.costs, best)
        value = float(scored.total[0])
    return SearchTree(
        order=order.astype(np.int64),
        item=item.astype(np.int64),
        branches=np.zeros((count, nodes), dtype=np.int64),
        offered=np.zeros(count, dtype=np.int64),
        tried=np.zeros(count, dtype=np.int64),
        level=np.zeros(1, dtype=np.int64),
        best=best,
        value=np.array([value]),
        figures=np.array([0, 0, 0, count, 0], dtype=np.int64),
    )
