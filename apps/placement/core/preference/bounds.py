"""Bounds on objectives: a placement is feasible if it keeps every bound (ε-constraint method).

A bound is the smallest value of an objective of which more is better, and the largest value of any
other; normalised. Weights then choose among the feasible placements, so a choice can lie on a
concave part of the front, which no weights alone return. Source: Haimes, Lasdon and Wismer (1971).
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from apps.common.core.errors import FieldProblem
from apps.inventory.core.snapshot import Bools, Floats
from apps.placement.core.preference.sentences import OBJECTIVE_NAMES
from apps.placement.core.problem.objectives import BUILT_IN, OBJECTIVES

TOLERANCE = 1e-9


def within_bounds(values: Floats, bounds: Mapping[str, float]) -> Bools:
    """(k,) whether each placement keeps every bound.

    Parameters
    ----------
    values : (k, 3) normalised P, D, C
    """
    feasible: Bools = np.ones(len(values), dtype=np.bool_)
    for name, bound in bounds.items():
        column, sign = values[:, OBJECTIVES.index(name)], _sign(name)
        feasible &= sign * column <= sign * bound + TOLERANCE
    return feasible


def constrained_choice(
    values: Floats, weights: Mapping[str, float], bounds: Mapping[str, float]
) -> int | None:
    """Index of the feasible placement with the smallest weighted sum; None if none is feasible.

    Of equal sums, the first. O(k).

    Parameters
    ----------
    values : (k, 3) normalised P, D, C
    """
    feasible = np.flatnonzero(within_bounds(values, bounds))
    if not feasible.size:
        return None
    signed = np.array([_sign(name) * weights.get(name, 0.0) for name in OBJECTIVES])
    return int(feasible[(values[feasible] @ signed).argmin()])


def broken_bounds(values: Floats, bounds: Mapping[str, float]) -> list[str]:
    """Return the objectives whose bound one placement of (3,) values breaks."""
    return [name for name in bounds if not within_bounds(values[None, :], {name: bounds[name]})[0]]


def bound_warnings(
    front: Floats, picks: Sequence[int], bounds: Mapping[str, float]
) -> Iterator[str]:
    """Name the picks that break a bound, and warn if the whole front does.

    Parameters
    ----------
    front : (k, 3) normalised P, D, C
    picks : indices
    """
    if not bounds or not len(front):
        return
    feasible = within_bounds(front, bounds)
    if not feasible.any():
        yield f"No placement of this front keeps your bounds: {_listed(bounds)}."
        return
    for point in picks:
        if not feasible[point]:
            broken = broken_bounds(front[point], bounds)
            yield (
                f"Placement {point} is outside your bounds"
                f" ({_listed({name: bounds[name] for name in broken})})."
            )


def invalid_bounds(bounds: Mapping[str, float]) -> Iterator[FieldProblem]:
    """Report unknown objectives and values that are not finite."""
    for name, value in bounds.items():
        if name not in OBJECTIVES:
            detail = f"unknown objective; valid objectives are {', '.join(OBJECTIVES)}"
            yield FieldProblem(f"/bounds/{name}", "unknown", detail)
        elif not math.isfinite(value):
            yield FieldProblem(f"/bounds/{name}", "not_finite", "must be a finite number")


def _listed(bounds: Mapping[str, float]) -> str:
    return " and ".join(
        f"{OBJECTIVE_NAMES[name]} at {'least' if _sign(name) < 0 else 'most'} {value:.2f}"
        for name, value in bounds.items()
    )


def _sign(name: str) -> float:
    return -1.0 if BUILT_IN[name].is_higher_better else 1.0
