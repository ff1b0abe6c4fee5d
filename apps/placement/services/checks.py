"""What the solver returns under given weights: asked of a worker, by a process that waits for it.

Solving may need numba and a solver library; so a worker solves and leaves the answer in the cache,
where whoever asked picks it up. No row is written.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final
from uuid import UUID

from django.core.cache import cache

from apps.common.core.errors import TransientError
from apps.placement.core import solver
from apps.placement.core.front import OBJECTIVES
from apps.placement.core.search import Progress, Search
from apps.placement.selectors.fronts import instance_of

WAIT_S: Final = 5.0  # of wall time
SOLVE_S: Final = 3.0
ENOUGH: Final = 1e-3  # gap that is as good as none on a screen
LOOK_S: Final = 0.01
KEPT_S: Final = 60


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
    cache.set(_name(key), asdict(star), KEPT_S)


def await_star(key: str) -> Star:
    """Wait for what a worker solves.

    Raises
    ------
    TransientError : no worker answered in time.
    """
    until = time.monotonic() + WAIT_S
    found: dict[str, Any] | None
    while (found := cache.get(_name(key))) is None:
        if time.monotonic() > until:
            raise TransientError("No worker has solved it in time.")
        time.sleep(LOOK_S)
    cache.delete(_name(key))
    return Star(**found)


def _name(key: str) -> str:
    return f"placement.check.{key}"
