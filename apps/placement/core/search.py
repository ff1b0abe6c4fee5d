"""One solve under way: the best placement so far, what is proven about it, and when to stop."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Ints
from apps.placement.core.costs import Costs, costs
from apps.placement.core.instance import Instance
from apps.placement.core.objectives import BUILT_IN, Evaluation, Objective, evaluate

TOLERANCE: Final = 1e-9  # relative: F sums thousands of terms in an order of its own


@dataclass(frozen=True, slots=True)
class Progress:
    """What a watcher is told when something was found or proven."""

    seconds: float
    value: float
    bound: float
    gap: float


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """An answer.

    Attributes
    ----------
    assignment : (c,) node of each container
    evaluation : its values, F among them
    bound : no assignment has an F below it
    gap : (F − bound)/(F + beta), the share of F that may still be saved; 0 when optimal
    is_optimal : proven, to nine digits
    """

    assignment: Ints
    evaluation: Evaluation
    bound: float
    gap: float
    is_optimal: bool
    seconds: float
    solver: str


class Search:
    """The blackboard of one solve: solvers offer placements and bounds, and ask whether to go on.

    Core code has no clock: ``clock`` gives seconds, and ``should_stop`` a caller's wish to end.
    """

    def __init__(  # noqa: PLR0913 - all but three have defaults
        self,
        instance: Instance,
        weights: Mapping[str, float],
        *,
        clock: Callable[[], float],
        limit_s: float,
        objectives: Mapping[str, Objective] = BUILT_IN,
        should_stop: Callable[[], bool] = lambda: False,
        watch: Callable[[Progress], None] = lambda _: None,
        seed: int = 0,
    ) -> None:
        self.instance = instance
        self.weights = weights
        self.objectives = objectives
        self.costs: Costs = costs(instance, weights, objectives)
        self.rng = np.random.default_rng(seed)
        self.assignment: Ints | None = None
        self._evaluation: Evaluation | None = None
        self.value = np.inf
        self.bound = self.costs.least - self.costs.beta  # D is at most 1, the rest at least 0
        self._clock, self._began, self._limit_s = clock, clock(), limit_s
        self._should_stop, self._watch = should_stop, watch
        self._tolerance = TOLERANCE * max(1.0, sum(weights.values()))

    @property
    def seconds(self) -> float:
        """Time since the beginning."""
        return self._clock() - self._began

    @property
    def left_s(self) -> float:
        """Time until the limit."""
        return self._limit_s - self.seconds

    @property
    def is_optimal(self) -> bool:
        """Whether the best placement is proven best."""
        return bool(self.value - self.bound <= self._tolerance)

    @property
    def is_over(self) -> bool:
        """Whether to stop: proven, out of time, or told to; as it is asked often, it reports."""
        self._tell()
        return self.is_optimal or self.left_s <= 0.0 or self._should_stop()

    @property
    def gap(self) -> float:
        """(F − bound)/(F + beta); infinite while there is no placement or no bound."""
        if self.is_optimal:
            return 0.0
        ratio = self.value + self.costs.beta
        return float((self.value - self.bound) / ratio) if ratio > 0.0 else float("inf")

    def offer(self, assignment: Ints) -> bool:
        """Take a placement if it is better than the best so far; says whether it was.

        Raises
        ------
        ValueError : it leaves a container without a node, or overfills one.
        """
        used = np.bincount(assignment, minlength=self.instance.slots.size)
        if (used > self.instance.slots).any():
            node = int((used - self.instance.slots).argmax())
            raise ValueError(f"node {self.instance.node_ids[node]!r} would hold {used[node]}")
        found = evaluate(self.instance, assignment, self.weights, objectives=self.objectives)
        if self.value <= found.F:
            return False
        self.value, self.assignment, self._evaluation = found.F, assignment.copy(), found
        self._tell()
        return True

    def prove(self, bound: float) -> None:
        """Take a lower bound on F if it is higher than the one known."""
        if bound > self.bound:
            self.bound = bound
            self._tell()

    def solution(self, solver: str) -> Solution:
        """Return the answer as it stands.

        Raises
        ------
        RuntimeError : nothing was ever offered.
        """
        found = self._evaluation
        if self.assignment is None or found is None:
            raise RuntimeError(f"{solver} ended without a placement")
        return Solution(
            assignment=self.assignment,
            evaluation=found,
            bound=min(self.bound, found.F),
            gap=self.gap,
            is_optimal=self.is_optimal,
            seconds=self.seconds,
            solver=solver,
        )

    def _tell(self) -> None:
        self._watch(Progress(self.seconds, self.value, self.bound, self.gap))
