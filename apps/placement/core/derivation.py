"""From what an administrator accepts to weights: what is wrong with it, what follows, in words.

m picks of a front of k points. The rules are those of `weights`; here stand the guards around
them. Source: ClavisMO §3.1, C4 and C5; that picks may contradict the weights they lead to, and
that one pick may decide alone, the paper does not discuss.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np

from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.objectives import BUILT_IN
from apps.placement.core.picking_words import contradictions, guards, sentence
from apps.placement.core.weights import (
    FEWEST,
    OBJECTIVES,
    SCREENS,
    Weights,
    by_reference,
    by_spread,
    direct,
    leave_one_out,
)

SPREAD: Final = "spread"
REFERENCE: Final = "reference"
DIRECT: Final = "direct"
SCREEN_NAMES: Final = tuple("-".join(screen) for screen in SCREENS)
_SIGNS: Final = np.array([-1.0 if BUILT_IN[o].is_higher_better else 1.0 for o in OBJECTIVES])


@dataclass(frozen=True, slots=True)
class Picking:
    """What somebody accepts of a front, and the rule that is to make weights of it.

    Attributes
    ----------
    rule : `SPREAD`, `REFERENCE` or `DIRECT`
    picks : points accepted, by screen ("P-D")
    rejected : points
    wanted : normalised values wanted (`REFERENCE`), or weights (`DIRECT`), by objective
    """

    rule: str
    picks: Mapping[str, Sequence[int]] = field(default_factory=dict)
    rejected: Sequence[int] = ()
    wanted: Mapping[str, float] = field(default_factory=dict)

    def distinct(self) -> list[int]:
        """Return the points accepted, each once, ascending."""
        return sorted({point for held in self.picks.values() for point in held})


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Weights without one pick, and the most that any of them moves."""

    point: int
    weights: Mapping[str, float]
    change: float


@dataclass(frozen=True, slots=True)
class Derivation:
    """Weights, and what to know before one relies on them."""

    weights: Weights
    picks: int
    sensitivity: tuple[Sensitivity, ...]
    sentence: str
    warnings: tuple[str, ...]


def derive(front: Floats, picking: Picking, *, is_final: bool = False) -> Derivation:
    """Make weights of what was accepted. O(m²) for the picks, O(k) for the front.

    Parameters
    ----------
    front : (k, 3) normalised P, D, C
    is_final : they are to be kept: then each screen needs its `FEWEST` picks

    Raises
    ------
    InvalidInputError : names every screen, pick and value that cannot be.
    """
    check(picking, len(front), is_final=is_final)
    chosen: Ints = np.array(picking.distinct(), dtype=np.int64)
    made = _MAKERS[picking.rule](front, chosen, picking)
    sensitivity = _sensitivity(front, chosen, made) if picking.rule == SPREAD else ()
    most = max(sensitivity, key=lambda one: one.change, default=None)
    values = front @ (_SIGNS * [made.weights[name] for name in OBJECTIVES])
    held = {name: len(set(picking.picks.get(name, ()))) for name in SCREEN_NAMES}
    return Derivation(
        weights=made,
        picks=chosen.size,
        sensitivity=sensitivity,
        sentence=sentence(picking.rule, made),
        warnings=(
            *guards(
                made,
                held if picking.rule == SPREAD else {},
                None if most is None else (most.point, most.weights, most.change),
            ),
            *contradictions(values, chosen, picking.rejected),
        ),
    )


def _sensitivity(front: Floats, chosen: Ints, made: Weights) -> tuple[Sensitivity, ...]:
    """Leave each pick out; with so few that none can be left out, nothing."""
    if chosen.size <= FEWEST:
        return ()
    whole = np.array([made.weights[name] for name in OBJECTIVES])
    without = leave_one_out(front, chosen)
    changes = np.abs(without - whole).max(axis=1)
    return tuple(
        Sensitivity(point, MappingProxyType(dict(zip(OBJECTIVES, row, strict=True))), change)
        for point, row, change in zip(
            chosen.tolist(), without.tolist(), changes.tolist(), strict=True
        )
    )


_MAKERS: Final[Mapping[str, Callable[[Floats, Ints, Picking], Weights]]] = MappingProxyType(
    {
        SPREAD: lambda front, chosen, _: by_spread(front, chosen),
        REFERENCE: lambda front, _, picking: by_reference(front, picking.wanted),
        DIRECT: lambda _, __, picking: direct(picking.wanted),
    }
)


def check(picking: Picking, points: int, *, is_final: bool = False) -> None:
    """Check what was accepted against a front of so many points.

    Raises
    ------
    InvalidInputError : names every screen, pick and value that cannot be.
    """
    problems = [
        *_off(picking, points),
        *(_few(picking, is_final=is_final) if picking.rule == SPREAD else _wrong(picking)),
    ]
    if picking.rule == SPREAD and picking.wanted:
        detail = f"only with the rules {REFERENCE} and {DIRECT}"
        problems.append(FieldProblem("/wanted", "not_allowed", detail))
    if problems:
        raise InvalidInputError(problems)


def _off(picking: Picking, points: int) -> Iterator[FieldProblem]:
    """Name screens that are not, points off the front, and those both accepted and rejected."""
    known = f"has the placements 0-{points - 1}" if points else "is needed to pick from"
    lists = {f"/picks/{screen}": held for screen, held in picking.picks.items()}
    for screen in picking.picks:
        if screen not in SCREEN_NAMES:
            detail = f"there is no such screen: there are {', '.join(SCREEN_NAMES)}"
            yield FieldProblem(f"/picks/{screen}", "unknown", detail)
    for pointer, held in {**lists, "/rejected": picking.rejected}.items():
        for i, point in enumerate(held):
            if not 0 <= point < points:
                detail = f"there is no placement {point}: the front {known}"
                yield FieldProblem(f"{pointer}/{i}", "unknown", detail)
    accepted = set(picking.distinct())
    for i, point in enumerate(picking.rejected):
        if point in accepted:
            detail = f"placement {point} is accepted, too: it can only be one"
            yield FieldProblem(f"/rejected/{i}", "contradictory", detail)


def _few(picking: Picking, *, is_final: bool) -> Iterator[FieldProblem]:
    """Name screens with too few picks, where that leaves nothing to derive, or to keep."""
    if len(picking.distinct()) >= FEWEST and not is_final:
        return
    for screen in SCREEN_NAMES:
        held = len(set(picking.picks.get(screen, ())))
        if held < FEWEST:
            detail = f"has {held} of at least {FEWEST} different placements"
            yield FieldProblem(f"/picks/{screen}", "too_few", detail)


def _wrong(picking: Picking) -> Iterator[FieldProblem]:
    """Name values wanted that are missing, unknown or impossible."""
    for name in picking.wanted:
        if name not in OBJECTIVES:
            detail = f"there is no such objective: there are {', '.join(OBJECTIVES)}"
            yield FieldProblem(f"/wanted/{name}", "unknown", detail)
    for name in OBJECTIVES:
        value = picking.wanted.get(name)
        if value is None:
            yield FieldProblem(f"/wanted/{name}", "required", "say how much of it is wanted")
        elif not math.isfinite(value):
            yield FieldProblem(f"/wanted/{name}", "not_finite", "must be a finite number")
        elif picking.rule == DIRECT and value < 0.0:
            yield FieldProblem(f"/wanted/{name}", "too_low", f"must be at least 0, not {value:g}")
    if picking.rule == DIRECT and picking.wanted and not any(picking.wanted.values()):
        yield FieldProblem("/wanted", "too_low", "at least one weight must be above 0")
