"""What the solver returns under given weights: asked of a worker, by a process that waits for it.

Solving may need numba and a solver library; so a worker solves and leaves the answer in the cache,
where whoever asked picks it up. No row is written.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final
from uuid import UUID

from apps.common.answers import await_answer, leave_answer
from apps.placement.core import solver
from apps.placement.core.front import OBJECTIVES
from apps.placement.core.search import Progress, Search
from apps.placement.selectors.fronts import instance_of

WAIT_S: Final = 5.0  # of wall time
SOLVE_S: Final = 3.0
ENOUGH: Final = 1e-3  # gap that is as good as none on a screen


@dataclass(frozen=True, slots=True)
class Star:
    """The solver's own answer.

    Attributes
    ----------
    raw, normalised : P, D and C
    F : weighted sum, minimised
    gap : of F, that may still be saved; None where no bound is known
    """

    raw: dict[str, float]
    normalised: dict[str, float]
    F: float
    gap: float | None
    optimal: bool
    seconds: float


def leave_star(key: str, front_id: UUID, weights: Mapping[str, float]) -> None:
    """Solve the workload of a front and leave the answer where `await_star` looks.

    Parameters
    ----------
    key : of this one question
    """
    instance = instance_of(front_id)
    solver.prepare(instance, weights)
    is_enough = False

    def look(progress: Progress) -> None:
        nonlocal is_enough
        is_enough = progress.gap <= ENOUGH

    search = Search(
        instance,
        weights,
        clock=time.monotonic,
        limit_s=SOLVE_S,
        should_stop=lambda: is_enough,
        watch=look,
    )
    found = solver.solve(search)
    judged = found.evaluation
    star = Star(
        raw={name: judged.raw[name] for name in OBJECTIVES},
        normalised={name: judged.normalised[name] for name in OBJECTIVES},
        F=judged.F,
        gap=found.gap if math.isfinite(found.gap) else None,
        optimal=found.is_optimal,
        seconds=found.seconds,
    )
    leave_answer(key, asdict(star))


def await_star(key: str) -> Star:
    """Wait for what a worker solves.

    Raises
    ------
    TransientError : no worker answered in time.
    """
    return Star(**await_answer(key, within_s=WAIT_S))
