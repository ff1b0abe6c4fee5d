"""Derivation of weights from an administrator's input: validation, weights, sensitivity, warnings.

m picks from a front of k points. The rules are those of `weights`. Source: ClavisMO §3.1, C4 and
C5; the paper does not discuss picks that contradict the derived weights, or a single pick with a
large influence.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np

from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.preference.bounds import bound_warnings, invalid_bounds
from apps.placement.core.preference.sentences import contradictions, pick_warnings, sentence
from apps.placement.core.preference.weights import (
    MIN_PICKS,
    SCREENS,
    Weights,
    by_reference,
    by_spread,
    direct,
    leave_one_out,
)
from apps.placement.core.problem.objectives import BUILT_IN, OBJECTIVES

SPREAD: Final = "spread"
REFERENCE: Final = "reference"
DIRECT: Final = "direct"
SCREEN_NAMES: Final = tuple("-".join(screen) for screen in SCREENS)
_SIGNS: Final = np.array([-1.0 if BUILT_IN[o].is_higher_better else 1.0 for o in OBJECTIVES])


@dataclass(frozen=True, slots=True)
class PreferenceInput:
    """Accepted and rejected points of a front, and the rule to derive weights from them.

    Attributes
    ----------
    rule : `SPREAD`, `REFERENCE` or `DIRECT`
    picks : accepted points by screen ("P-D")
    rejected : points
    wanted : by objective: normalised target values (`REFERENCE`) or weights (`DIRECT`)
    bounds : see `preference.bounds`
    others : names of the objectives besides P, D and C that screens and bounds may use
    """

    rule: str
    picks: Mapping[str, Sequence[int]] = field(default_factory=dict)
    rejected: Sequence[int] = ()
    wanted: Mapping[str, float] = field(default_factory=dict)
    bounds: Mapping[str, float] = field(default_factory=dict)
    others: tuple[str, ...] = ()

    def distinct(self) -> list[int]:
        """Return the accepted points in ascending order, without duplicates."""
        return sorted({point for points in self.picks.values() for point in points})


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Weights without one pick, and the largest change of any weight."""

    point: int
    weights: Mapping[str, float]
    change: float


@dataclass(frozen=True, slots=True)
class WeightDerivation:
    """Weights with their sensitivity to single picks, a description and warnings."""

    weights: Weights
    picks: int
    sensitivity: tuple[Sensitivity, ...]
    sentence: str
    warnings: tuple[str, ...]


def derive(
    front: Floats,
    picking: PreferenceInput,
    *,
    is_final: bool = False,
    others: Mapping[str, Floats] = MappingProxyType({}),
) -> WeightDerivation:
    """Derive weights from the input. O(m²) for the picks, O(k) for the front.

    Parameters
    ----------
    front : (k, 3) normalised P, D, C
    is_final : the weights will be stored: each screen needs `MIN_PICKS` picks
    others : (k,) normalised values by each other objective that has a bound

    Raises
    ------
    InvalidInputError : names every invalid screen, pick and value.
    """
    check_input(picking, len(front), is_final=is_final)
    chosen: Ints = np.array(picking.distinct(), dtype=np.int64)
    weights = _DERIVATIONS[picking.rule](front, chosen, picking)
    sensitivity = _sensitivity(front, chosen, weights) if picking.rule == SPREAD else ()
    strongest = max(sensitivity, key=lambda each: each.change, default=None)
    values = front @ (_SIGNS * [weights.weights[name] for name in OBJECTIVES])
    pick_counts = {name: len(set(picking.picks.get(name, ()))) for name in SCREEN_NAMES}
    return WeightDerivation(
        weights=weights,
        picks=chosen.size,
        sensitivity=sensitivity,
        sentence=sentence(picking.rule, weights),
        warnings=(
            *pick_warnings(
                weights,
                pick_counts if picking.rule == SPREAD else {},
                (strongest.point, strongest.weights, strongest.change) if strongest else None,
            ),
            *contradictions(values, chosen, picking.rejected),
            *bound_warnings(columns_of(front, others), chosen.tolist(), picking.bounds),
        ),
    )


def columns_of(front: Floats, others: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return (k, 3) normalised P, D, C and other objectives as columns by name."""
    return {**dict(zip(OBJECTIVES, front.T, strict=True)), **others}


def _sensitivity(front: Floats, chosen: Ints, weights: Weights) -> tuple[Sensitivity, ...]:
    """Leave out each pick in turn; empty if there are too few picks for that."""
    if chosen.size <= MIN_PICKS:
        return ()
    whole = np.array([weights.weights[name] for name in OBJECTIVES])
    without = leave_one_out(front, chosen)
    changes = np.abs(without - whole).max(axis=1)
    return tuple(
        Sensitivity(point, MappingProxyType(dict(zip(OBJECTIVES, row, strict=True))), change)
        for point, row, change in zip(
            chosen.tolist(), without.tolist(), changes.tolist(), strict=True
        )
    )


_DERIVATIONS: Final[Mapping[str, Callable[[Floats, Ints, PreferenceInput], Weights]]] = (
    MappingProxyType(
        {
            SPREAD: lambda front, chosen, _: by_spread(front, chosen),
            REFERENCE: lambda front, _, picking: by_reference(front, picking.wanted),
            DIRECT: lambda _, __, picking: direct(picking.wanted),
        }
    )
)


def check_input(picking: PreferenceInput, points: int, *, is_final: bool = False) -> None:
    """Validate the input for a front with a number of points.

    Raises
    ------
    InvalidInputError : names every invalid screen, pick and value.
    """
    problems = [
        *_invalid_points(picking, points),
        *invalid_bounds(picking.bounds, (*OBJECTIVES, *picking.others)),
        *(
            _missing_picks(picking, is_final=is_final)
            if picking.rule == SPREAD
            else _invalid_values(picking)
        ),
    ]
    if picking.rule == SPREAD and picking.wanted:
        detail = f"is accepted only with the rules {REFERENCE} and {DIRECT}"
        problems.append(FieldProblem("/wanted", "not_allowed", detail))
    if problems:
        raise InvalidInputError(problems)


def _invalid_points(picking: PreferenceInput, points: int) -> Iterator[FieldProblem]:
    """Report unknown screens and points, and points that are both accepted and rejected."""
    valid = f"the front has placements 0-{points - 1}" if points else "picks require a front"
    lists = {f"/picks/{screen}": picks for screen, picks in picking.picks.items()}
    for screen in picking.picks:
        if not _is_screen(screen, picking.others):
            known = ", ".join((*OBJECTIVES, *picking.others))
            detail = f"unknown screen; a screen is {SCREEN_NAMES[0]} or another two of {known}"
            yield FieldProblem(f"/picks/{screen}", "unknown", detail)
    for pointer, listed in {**lists, "/rejected": picking.rejected}.items():
        for i, point in enumerate(listed):
            if not 0 <= point < points:
                detail = f"placement {point} does not exist: {valid}"
                yield FieldProblem(f"{pointer}/{i}", "unknown", detail)
    accepted = set(picking.distinct())
    for i, point in enumerate(picking.rejected):
        if point in accepted:
            detail = f"placement {point} cannot be both accepted and rejected"
            yield FieldProblem(f"/rejected/{i}", "contradictory", detail)


def _is_screen(name: str, others: Sequence[str]) -> bool:
    """Whether a name joins two different objectives."""
    pair = name.split("-")
    return len(pair) == len({*pair}) == 2 and {*pair} <= {*OBJECTIVES, *others}


def _missing_picks(picking: PreferenceInput, *, is_final: bool) -> Iterator[FieldProblem]:
    """Report screens with too few picks, if the weights cannot be derived or stored."""
    if len(picking.distinct()) >= MIN_PICKS and not is_final:
        return
    for screen in SCREEN_NAMES:
        count = len(set(picking.picks.get(screen, ())))
        if count < MIN_PICKS:
            detail = f"needs at least {MIN_PICKS} different placements, got {count}"
            yield FieldProblem(f"/picks/{screen}", "too_few", detail)


def _invalid_values(picking: PreferenceInput) -> Iterator[FieldProblem]:
    """Report target values or weights that are missing, unknown or out of range."""
    for name in picking.wanted:
        if name not in OBJECTIVES:
            detail = f"unknown objective; valid objectives are {', '.join(OBJECTIVES)}"
            yield FieldProblem(f"/wanted/{name}", "unknown", detail)
    for name in OBJECTIVES:
        value = picking.wanted.get(name)
        if value is None:
            yield FieldProblem(f"/wanted/{name}", "required", "a value is required")
        elif not math.isfinite(value):
            yield FieldProblem(f"/wanted/{name}", "not_finite", "must be a finite number")
        elif picking.rule == DIRECT and value < 0.0:
            yield FieldProblem(f"/wanted/{name}", "too_low", f"must be at least 0, not {value:g}")
    if picking.rule == DIRECT and picking.wanted and not any(picking.wanted.values()):
        yield FieldProblem("/wanted", "too_low", "at least one weight must be above 0")
