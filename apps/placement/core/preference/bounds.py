"""Bounds on objectives: a placement is feasible if it keeps every bound (ε-constraint method).

A bound is the smallest value of an objective of which more is better, and the largest value of any
other; normalised. Weights then choose among the feasible placements, so a choice can lie on a
concave part of the front, which no weights alone return. Source: Haimes, Lasdon and Wismer (1971).

``columns`` are the (k,) normalised values of k placements by objective: of P, D, C and of every
other objective that has a bound.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from apps.common.core.errors import FieldProblem
from apps.inventory.core.snapshot import Bools, Floats
from apps.placement.core.preference.sentences import OBJECTIVE_NAMES
from apps.placement.core.problem.objectives import BUILT_IN, OBJECTIVES

TOLERANCE = 1e-9


def within_bounds(columns: Mapping[str, Floats], bounds: Mapping[str, float]) -> Bools:
    """(k,) whether each placement keeps every bound."""
    feasible: Bools = np.ones(len(columns[OBJECTIVES[0]]), dtype=np.bool_)
    for name, bound in bounds.items():
        feasible &= _sign(name) * columns[name] <= _sign(name) * bound + TOLERANCE
    return feasible


def constrained_choice(
    columns: Mapping[str, Floats], weights: Mapping[str, float], bounds: Mapping[str, float]
) -> int | None:
    """Index of the feasible placement with the smallest weighted sum; None if none is feasible.

    Of equal sums, the first. O(k).
    """
    feasible = np.flatnonzero(within_bounds(columns, bounds))
    if not feasible.size:
        return None
    terms = [_sign(name) * weights.get(name, 0.0) * columns[name] for name in OBJECTIVES]
    return int(feasible[np.sum(terms, axis=0)[feasible].argmin()])


def broken_bounds(values: Mapping[str, float], bounds: Mapping[str, float]) -> list[str]:
    """Return the objectives whose bound the normalised values of one placement break."""
    return [
        name
        for name, bound in bounds.items()
        if _sign(name) * values[name] > _sign(name) * bound + TOLERANCE
    ]


def bound_warnings(
    columns: Mapping[str, Floats], picks: Sequence[int], bounds: Mapping[str, float]
) -> Iterator[str]:
    """Name the picks that break a bound, and warn if the whole front does."""
    if not bounds or not len(columns[OBJECTIVES[0]]):
        return
    feasible = within_bounds(columns, bounds)
    if not feasible.any():
        yield f"No placement of this front keeps your bounds: {_listed(bounds)}."
        return
    for point in picks:
        if not feasible[point]:
            values = {name: float(columns[name][point]) for name in bounds}
            broken = broken_bounds(values, bounds)
            yield (
                f"Placement {point} is outside your bounds"
                f" ({_listed({name: bounds[name] for name in broken})})."
            )


def invalid_bounds(
    bounds: Mapping[str, float], names: Sequence[str] = OBJECTIVES
) -> Iterator[FieldProblem]:
    """Report objectives that are not among ``names``, and values that are not finite."""
    for name, value in bounds.items():
        if name not in names:
            detail = f"unknown objective; valid objectives are {', '.join(names)}"
            yield FieldProblem(f"/bounds/{name}", "unknown", detail)
        elif not math.isfinite(value):
            yield FieldProblem(f"/bounds/{name}", "not_finite", "must be a finite number")


def _listed(bounds: Mapping[str, float]) -> str:
    return " and ".join(_text(name, value) for name, value in bounds.items())


def _text(name: str, value: float) -> str:
    side = "least" if _sign(name) < 0 else "most"
    return f"{OBJECTIVE_NAMES.get(name, name)} at {side} {value:.2f}"


def _sign(name: str) -> float:
    return -1.0 if name in BUILT_IN and BUILT_IN[name].is_higher_better else 1.0
