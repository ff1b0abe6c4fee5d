"""Solve the workload of a front under given weights, on a worker.

Solving may need numba and a solver library, so a worker solves and stores the answer in the cache.
The web process waits for it there. No row is written.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final
from uuid import UUID

import numpy as np

from apps.common.infrastructure.worker_results import await_result, store_result
from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.front.moments import mean_scales
from apps.placement.core.front.other_objectives import objective_column
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.objectives import OBJECTIVES, CurveLacksRackError, scales
from apps.placement.core.solver import registry
from apps.placement.core.solver.run import Solution, SolverProgress, SolverRun
from apps.placement.selectors.fronts import instances_of
from apps.placement.selectors.other_objectives import other_objectives

ANSWER_TIMEOUT_S: Final = 5.0  # of wall time
TIME_LIMIT_S: Final = 3.0
TARGET_GAP: Final = 1e-3  # too small to see on a screen


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """Placement that the solver returns for the weights.

    Attributes
    ----------
    raw, normalised : P, D and C
    others : normalised value by each other objective that has values for all racks
    F : weighted sum, minimised
    gap : of F to the lower bound; None if no bound is known
    """

    raw: dict[str, float]
    normalised: dict[str, float]
    others: dict[str, float]
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
    instances = instances_of(front_id)
    limit_s = TIME_LIMIT_S / len(instances)
    divisors = mean_scales(instances)
    solved = [
        _solve(instance, _weights_of_moment(instance, weights, divisors), limit_s)
        for instance in instances
    ]
    raw = np.mean([[one.evaluation.raw[name] for name in OBJECTIVES] for one in solved], axis=0)
    gaps = [one.gap for one in solved]
    answer = SolverAnswer(
        raw=dict(zip(OBJECTIVES, raw.tolist(), strict=True)),
        normalised=dict(zip(OBJECTIVES, (raw / divisors).tolist(), strict=True)),
        others=dict(_others(instances, [one.assignment for one in solved])),
        F=float(np.mean([one.evaluation.F for one in solved])),
        gap=max(gaps) if all(map(math.isfinite, gaps)) else None,
        optimal=all(one.is_optimal for one in solved),
        seconds=math.fsum(one.seconds for one in solved),
    )
    store_result(key, asdict(answer))


def _others(
    instances: Sequence[Instance], assignments: Sequence[Ints]
) -> Iterator[tuple[str, float]]:
    """Evaluate one placement over all moments by every objective except P, D and C."""
    placement = np.concatenate(assignments)[None, :]
    for name, objective in other_objectives().items():
        with suppress(CurveLacksRackError):
            yield name, float(objective_column(instances, placement, objective).normalised[0])


def _weights_of_moment(
    instance: Instance, weights: Mapping[str, float], divisors: Floats
) -> dict[str, float]:
    """Return weights under which the mean of F over the moments is F of the averages.

    A moment normalises its objectives by its own maxima, the averages by the mean of the maxima.
    """
    own = scales(instance)
    ratio = np.where(np.isfinite(own) & np.isfinite(divisors), own / divisors, 1.0)
    factors = dict(zip(OBJECTIVES, ratio.tolist(), strict=True))
    return {name: weight * factors.get(name, 1.0) for name, weight in weights.items()}


def _solve(instance: Instance, weights: Mapping[str, float], limit_s: float) -> Solution:
    registry.prepare(instance, weights)
    is_close = False

    def check_gap(progress: SolverProgress) -> None:
        nonlocal is_close
        is_close = progress.gap <= TARGET_GAP

    search = SolverRun(
        instance,
        weights,
        clock=time.monotonic,
        limit_s=limit_s,
        should_stop=lambda: is_close,
        on_progress=check_gap,
    )
    return registry.solve(search)


def await_solver_answer(key: str) -> SolverAnswer:
    """Wait for the answer of a worker.

    Raises
    ------
    TransientError : no worker answered in time.
    """
    return SolverAnswer(**await_result(key, within_s=ANSWER_TIMEOUT_S))
