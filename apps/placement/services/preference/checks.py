"""Solve the workload of a front under given weights, on a worker.

Solving may need numba and a solver library, so a worker solves and stores the answer in the cache.
The web process waits for it there. No row is written.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final
from uuid import UUID

from apps.common.infrastructure.worker_results import await_result, store_result
from apps.placement.core.problem.objectives import OBJECTIVES
from apps.placement.core.solver import registry
from apps.placement.core.solver.run import SolverProgress, SolverRun
from apps.placement.selectors.fronts import instance_of

ANSWER_TIMEOUT_S: Final = 5.0  # of wall time
TIME_LIMIT_S: Final = 3.0
TARGET_GAP: Final = 1e-3  # too small to see on a screen


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """Placement that the solver returns for the weights.

    Attributes
    ----------
    raw, normalised : P, D and C
    F : weighted sum, minimised
    gap : of F to the lower bound; None if no bound is known
    """

    raw: dict[str, float]
    normalised: dict[str, float]
    F: float
    gap: float | None
    optimal: bool
    seconds: float


def solve_and_store(key: str, front_id: UUID, weights: Mapping[str, float]) -> None:
    """Solve the workload of a front and store the answer for `await_solver_answer`.

    Parameters
    ----------
    key : identifies the request
    """
    instance = instance_of(front_id)
    registry.prepare(instance, weights)
    is_close = False

    def check_gap(progress: SolverProgress) -> None:
        nonlocal is_close
        is_close = progress.gap <= TARGET_GAP

    search = SolverRun(
        instance,
        weights,
        clock=time.monotonic,
        limit_s=TIME_LIMIT_S,
        should_stop=lambda: is_close,
        on_progress=check_gap,
    )
    solution = registry.solve(search)
    evaluation = solution.evaluation
    answer = SolverAnswer(
        raw={name: evaluation.raw[name] for name in OBJECTIVES},
        normalised={name: evaluation.normalised[name] for name in OBJECTIVES},
        F=evaluation.F,
        gap=solution.gap if math.isfinite(solution.gap) else None,
        optimal=solution.is_optimal,
        seconds=solution.seconds,
    )
    store_result(key, asdict(answer))


def await_solver_answer(key: str) -> SolverAnswer:
    """Wait for the answer of a worker.

    Raises
    ------
    TransientError : no worker answered in time.
    """
    return SolverAnswer(**await_result(key, within_s=ANSWER_TIMEOUT_S))
