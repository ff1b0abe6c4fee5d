"""The state of one solve: the incumbent, the lower bound on F, and when to stop."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Ints
from apps.placement.core.problem.costs import Costs, costs
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.objectives import BUILT_IN, Evaluation, Objective, evaluate

TOLERANCE: Final = 1e-9  # relative: solvers sum the thousands of terms of F in other orders


@dataclass(frozen=True, slots=True)
class SolverProgress:
    """Time, incumbent and bound, reported to the caller of a run."""

    seconds: float
    value: float
    bound: float
    gap: float


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The best placement of a run.

    Attributes
    ----------
    assignment : (c,) node of each container
    evaluation : its values, including F
    bound : lower bound on F of every assignment
    gap : (F − bound)/(F + beta), the largest share of F that could still be saved; 0 if optimal
    is_optimal : proven, to nine digits
    """

    assignment: Ints
    evaluation: Evaluation
    bound: float
    gap: float
    is_optimal: bool
    seconds: float
    solver: str


class SolverRun:
    """One solve: solvers offer placements, raise the bound, and ask whether to go on.

    Core code has no clock: ``clock`` returns seconds, ``should_stop`` whether the caller wants to
    stop the run. ``max_restarts`` is 0 for callers that prefer an early answer to a better one.
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
        on_progress: Callable[[SolverProgress], None] = lambda _: None,
        max_restarts: int = sys.maxsize,
        seed: int = 0,
    ) -> None:
        self.instance = instance
        self.weights = weights
        self.objectives = objectives
        self.costs: Costs = costs(instance, weights, objectives)
        self.max_restarts = max_restarts
        self.rng = np.random.default_rng(seed)
        self.assignment: Ints | None = None
        self._evaluation: Evaluation | None = None
        self.value = np.inf
        self.bound = self.costs.other_min - self.costs.beta  # D is at most 1, the rest at least 0
        self._clock, self._began, self._limit_s = clock, clock(), limit_s
        self._should_stop, self._on_progress = should_stop, on_progress
        self._tolerance = TOLERANCE * max(1.0, sum(weights.values()))

    @property
    def seconds(self) -> float:
        """Time since the run began."""
        return self._clock() - self._began

    @property
    def remaining_s(self) -> float:
        """Time until the limit."""
        return self._limit_s - self.seconds

    @property
    def is_optimal(self) -> bool:
        """Whether the incumbent is proven optimal."""
        return bool(self.value - self.bound <= self._tolerance)

    @property
    def is_over(self) -> bool:
        """Whether to stop: proven, out of time, or stopped. Solvers ask often, so it reports."""
        self._report()
        return self.is_optimal or self.remaining_s <= 0.0 or self._should_stop()

    @property
    def gap(self) -> float:
        """(F − bound)/(F + beta); infinite while there is no incumbent or no bound."""
        if self.is_optimal:
            return 0.0
        ratio = self.value + self.costs.beta
        return float((self.value - self.bound) / ratio) if ratio > 0.0 else float("inf")

    def offer(self, assignment: Ints) -> bool:
        """Make a placement the incumbent if its F is lower; return whether it was.

        Raises
        ------
        ValueError : it leaves a container without a node, or overfills one.
        """
        used = np.bincount(assignment, minlength=self.instance.slots.size)
        if (used > self.instance.slots).any():
            node = int((used - self.instance.slots).argmax())
            raise ValueError(f"node {self.instance.node_ids[node]!r} would hold {used[node]}")
        evaluation = evaluate(self.instance, assignment, self.weights, objectives=self.objectives)
        if self.value <= evaluation.F:
            return False
        self.value, self.assignment = evaluation.F, assignment.copy()
        self._evaluation = evaluation
        self._report()
        return True

    def raise_bound(self, bound: float) -> None:
        """Adopt a lower bound on F if it is higher than the current one."""
        if bound > self.bound:
            self.bound = bound
            self._report()

    def solution(self, solver: str) -> Solution:
        """Return the incumbent.

        Raises
        ------
        RuntimeError : no placement was ever offered.
        """
        evaluation = self._evaluation
        if self.assignment is None or evaluation is None:
            raise RuntimeError(f"{solver} ended without a placement")
        return Solution(
            assignment=self.assignment,
            evaluation=evaluation,
            bound=min(self.bound, evaluation.F),
            gap=self.gap,
            is_optimal=self.is_optimal,
            seconds=self.seconds,
            solver=solver,
        )

    def _report(self) -> None:
        self._on_progress(SolverProgress(self.seconds, self.value, self.bound, self.gap))
