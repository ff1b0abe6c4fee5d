"""The whole way to a front: counts where they decide, the solver at several weights, NSGA-II.

Where the front of class counts applies, placements are packed for its points; once every point is
a placement the front is proven, and the search is over. Otherwise those placements, what rules of
thumb make and what the solver answers at several weights are where NSGA-II begins. Source:
ClavisMO §3.1, C3; limits.md §3.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core import nsga2, solver
from apps.placement.core.examples import Draw, draw
from apps.placement.core.front import MOST_HELD, MOST_SHOWN, Front, losses, scales, thin
from apps.placement.core.front_counts import CountsFront, counts_front, placed
from apps.placement.core.instance import Instance
from apps.placement.core.nsga2 import Progress
from apps.placement.core.search import Search
from apps.placement.core.starts import by_rule, weights_to_try

_PACKING_SHARE: Final = 0.4  # of the budget
_SOLVER_SHARE: Final = 0.25
_WEIGHTS: Final = 10  # vectors at which the solver is asked


def find_front(  # noqa: PLR0913 - all but three have defaults
    instance: Instance,
    *,
    clock: Callable[[], float],
    budget_s: float,
    seed: int = 0,
    most: int = MOST_SHOWN,
    should_stop: Callable[[], bool] = lambda: False,
    watch: Callable[[Progress], None] = lambda _: None,
) -> Front:
    """Search for the front until the budget is used up, told to stop, or it is proven.

    Parameters
    ----------
    clock : gives seconds
    most : points of the answer
    watch : is told a few times a second

    Raises
    ------
    ValueError : a budget that is not positive, or fewer than one point asked for.
    """
    if not budget_s > 0.0:
        raise ValueError(f"budget_s must be above 0, not {budget_s}")
    if most < 1:
        raise ValueError(f"most must be at least 1, not {most}")
    run = _Run(instance, clock, budget_s, should_stop)
    counts = counts_front(instance)
    starts = by_rule(instance)
    if counts is not None:
        starts += run.packed(counts)
    is_exact = counts is not None and run.reached(counts, starts)
    if not is_exact:
        starts += run.solved(seed)
    search = nsga2.Search(instance, starts, clock=clock, seed=seed, began=run.began)
    if not is_exact:
        search.run(budget_s, should_stop=should_stop, watch=watch)
        is_exact = counts is not None and search.archive.holds(_targets(instance, counts))
    watch(search.progress())
    return search.front(most, is_exact=is_exact)


def prepare(instance: Instance) -> None:
    """Load, and the first time compile, what a search will need: before its clock runs."""
    small = draw(Draw(4), 0)
    counts = counts_front(small)
    if counts is not None:
        _Run(small, lambda: 0.0, 1.0, lambda: False).packed(counts)
    search = nsga2.Search(small, by_rule(small), clock=lambda: 0.0, size=2)
    search.advance(1)
    search.front(1)
    if counts_front(instance) is None:
        solver.prepare(instance, dict.fromkeys("PDC", 1.0))


class _Run:
    """What is under way, and when it has to end."""

    def __init__(
        self,
        instance: Instance,
        clock: Callable[[], float],
        budget_s: float,
        should_stop: Callable[[], bool],
    ) -> None:
        self.began = clock()
        self._instance, self._clock, self._budget_s = instance, clock, budget_s
        self._should_stop = should_stop

    def packed(self, counts: CountsFront) -> list[Ints]:
        """Pack a placement for each point of the front, those that stand for most first."""
        targets = _targets(self._instance, counts)
        made = []
        for point in _in_order(targets):
            if self._is_over(_PACKING_SHARE):
                break
            made.append(placed(self._instance, counts, point))
        return made

    def reached(self, counts: CountsFront, starts: list[Ints]) -> bool:
        """Whether every point of the front is a placement."""
        targets = _targets(self._instance, counts)
        found = losses(_raw(self._instance, starts) / scales(self._instance))
        return {*map(tuple, targets.tolist())} <= {*map(tuple, found.tolist())}

    def solved(self, seed: int) -> list[Ints]:
        """Ask the solver at several weights."""
        made: list[Ints] = []
        limit_s = self._budget_s * _SOLVER_SHARE / _WEIGHTS
        if not self._instance.job.size:
            return made
        for weights in weights_to_try(_WEIGHTS).tolist():
            if self._is_over(_PACKING_SHARE + _SOLVER_SHARE):
                break
            search = Search(
                self._instance,
                dict(zip("PDC", weights, strict=True)),
                clock=self._clock,
                limit_s=limit_s,
                should_stop=self._should_stop,
                seed=seed,
            )
            made.append(solver.solve(search).assignment)
        return made

    def _is_over(self, share: float) -> bool:
        return self._clock() - self.began > share * self._budget_s or self._should_stop()


def _targets(instance: Instance, counts: CountsFront) -> Floats:
    return losses(counts.raw / scales(instance))


def _in_order(targets: Floats) -> list[int]:
    """Points in an order whose every beginning is spread over the whole."""
    from apps.placement.core.front_kernels import spread_out  # noqa: PLC0415 - numba

    few = thin(targets, MOST_HELD)
    order = spread_out(np.ascontiguousarray(targets[few]), few.size)
    return few[order].tolist()


def _raw(instance: Instance, starts: list[Ints]) -> Floats:
    return nsga2.raw_values(instance, np.array(starts).reshape(len(starts), instance.job.size))
