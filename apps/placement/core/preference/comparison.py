"""Comparison of the solver's optimum for derived weights with the accepted placements.

m picks, k points of the front; values are normalised P, D, C. Source: product risk 1 of weights
from spread: with closely spaced picks, the optimum is usually outside their range, so it is always
shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats
from apps.placement.core.front.archive import losses
from apps.placement.core.preference.bounds import broken_bounds, constrained_choice
from apps.placement.core.preference.sentences import OBJECTIVE_NAMES
from apps.placement.core.preference.support import unsupported
from apps.placement.core.problem.objectives import OBJECTIVES

TOLERANCE: Final = 1e-9


class OptimumPosition(StrEnum):
    """Position of the optimum relative to the range of the picks."""

    INSIDE = "inside"  # within the range in every objective
    BETTER = "better"  # better than the range in an objective, and worse in none
    OUTSIDE = "outside"  # worse than the range in an objective


@dataclass(frozen=True, slots=True)
class OptimumComparison:
    """Comparison of the optimum with the picks.

    Attributes
    ----------
    position : relative to the range of the picks; None without picks and reference point
    distance : to the centre of the picks; None as for position
    nearest : point of the front nearest to the optimum
    unreachable : picks that no weights return
    broken : objectives whose bound the optimum breaks
    bounded : point of the front that the weights choose within the bounds; None without bounds,
        or if no point keeps them
    """

    position: OptimumPosition | None
    distance: float | None
    nearest: int
    unreachable: list[int]
    sentence: str
    broken: tuple[str, ...] = ()
    bounded: int | None = None


def compare_with_bounds(
    comparison: OptimumComparison,
    star: Mapping[str, float],
    columns: Mapping[str, Floats],
    weights: Mapping[str, float],
    bounds: Mapping[str, float],
) -> OptimumComparison:
    """Add the bounds that the optimum breaks, and the point that keeps them.

    Parameters
    ----------
    star : normalised values of the optimum
    columns : see `preference.bounds`
    """
    if not bounds:
        return comparison
    return replace(
        comparison,
        broken=tuple(broken_bounds(star, bounds)),
        bounded=constrained_choice(columns, weights, bounds),
    )


def compare_optimum(
    star: Floats, front: Floats, picks: Sequence[int], reference: Floats | None
) -> OptimumComparison:
    """Compare the solver's optimum with the picks, or with the reference point if none.

    Parameters
    ----------
    star : (3,) values of the optimum
    front : (k, 3) values, k >= 1
    reference : (3,) values
    """
    accepted = front[list(picks)] if picks else np.empty((0, 3))
    if not picks and reference is not None:
        accepted = reference[None, :]
    nearest = int(((front - star) ** 2).sum(axis=1).argmin())
    unreachable = unsupported(losses(front), picks)
    if not len(accepted):
        sentence = "No placement was accepted to compare the optimum with."
        return OptimumComparison(None, None, nearest, unreachable, sentence)
    distance = float(np.linalg.norm(star - accepted.mean(axis=0)))
    optimum, accepted_losses = losses(star[None, :])[0], losses(accepted)
    is_worse = optimum > accepted_losses.max(axis=0) + TOLERANCE
    is_better = optimum < accepted_losses.min(axis=0) - TOLERANCE
    position = (
        OptimumPosition.OUTSIDE
        if is_worse.any()
        else OptimumPosition.BETTER
        if is_better.any()
        else OptimumPosition.INSIDE
    )
    subject = "your picks" if picks else "your reference point"
    centre = "their centre" if len(accepted) > 1 else "it"
    sentence = f"{_description(is_worse, is_better, subject)}, {distance:.2f} from {centre}."
    return OptimumComparison(position, distance, nearest, unreachable, sentence)


def _description(is_worse: Floats, is_better: Floats, subject: str) -> str:
    parts = [
        f"{word} than {subject} in {' and '.join(names)}"
        for word, flags in (("worse", is_worse), ("better", is_better))
        if (
            names := [
                OBJECTIVE_NAMES[o] for o, flag in zip(OBJECTIVES, flags, strict=True) if flag
            ]
        )
    ]
    position = " and ".join(parts) or f"within the range of {subject} in every objective"
    return f"The optimum of these weights is {position}"
