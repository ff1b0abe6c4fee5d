"""Objectives added by an administrator: watts times a curve of prices or carbon intensities.

    {"money": {"label": "Energy cost", "unit": "EUR", "hours": [8, 16],
               "curve": {"": [0.12, 0.31], "rack-b": [0.10, 0.28]}}}

``curve`` is by rack; the empty name is the default for other racks. Source: C2; see the registry
of `objectives`.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.placement.core.problem.objectives import BUILT_IN, Objective, watts_times

NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,30}")
MAX_CURVES: Final = 20
MAX_STEPS: Final = 8_784  # hours of a leap year
MAX_TEXT: Final = 63
_FIELDS: Final = ("label", "unit", "hours", "curve")
HIGHEST: Final = 1e9


@dataclass(frozen=True, slots=True)
class Curve:
    """The price of a kilowatt-hour, or its carbon intensity, over time.

    Attributes
    ----------
    hours : length of each step, > 0
    curve : price or intensity per kWh in each step, >= 0, by rack; ``""`` is the default
    """

    label: str
    unit: str
    hours: tuple[float, ...]
    curve: Mapping[str, tuple[float, ...]]

    def objective(self) -> Objective:
        """Return the objective that charges watts by this curve."""
        curves = {rack: np.array(values) for rack, values in self.curve.items()}
        return watts_times(self.label, self.unit, np.array(self.hours), curves)

    def per_kilowatt(self, rack: str) -> float:
        """Return the cost of one kilowatt in a rack over the whole curve."""
        values = self.curve.get(rack, self.curve.get("", ()))
        return float(sum(h * v for h, v in zip(self.hours, values, strict=True)))


def parse_curves(data: Any, racks: Iterable[str] = ()) -> dict[str, Curve]:
    """Read objectives by name.

    Parameters
    ----------
    racks : names; each needs a curve unless there is a default

    Raises
    ------
    InvalidInputError : lists every invalid field.
    """
    problems: list[FieldProblem] = []
    if not isinstance(data, Mapping):
        raise InvalidInputError([_wrong("", data, "an object of name: curve")])
    if len(data) > MAX_CURVES:
        raise InvalidInputError(
            [FieldProblem("", "too_many", f"{len(data)}; at most {MAX_CURVES}")]
        )
    curves = {}
    for name, given in data.items():
        if curve := _curve(str(name), given, problems):
            curves[str(name)] = curve
            bare = [rack for rack in racks if rack not in curve.curve and "" not in curve.curve]
            if bare:
                detail = f'no curve for rack {bare[0]!r}, and no default under ""'
                problems.append(FieldProblem(f"/{name}/curve", "required", detail))
    if problems:
        raise InvalidInputError(problems)
    return curves


def registry_with(curves: Mapping[str, Curve]) -> dict[str, Objective]:
    """Return the built-in objectives and these."""
    return {**BUILT_IN, **{name: curve.objective() for name, curve in curves.items()}}


def _curve(name: str, given: Any, problems: list[FieldProblem]) -> Curve | None:
    before, at = len(problems), f"/{name}"
    if not NAME.fullmatch(name):
        accepted = "lower-case letters, digits and _, at most 31, starting with a letter"
        problems.append(FieldProblem(at, "bad_name", f"{name!r:.40}: use {accepted}"))
    if not isinstance(given, Mapping):
        problems.append(_wrong(at, given, f"an object with {', '.join(_FIELDS)}"))
        return None
    problems += [
        FieldProblem(f"{at}/{key}", "unknown_field", f"known fields: {', '.join(_FIELDS)}")
        for key in given
        if key not in _FIELDS
    ]
    label = _text(given.get("label", name), f"{at}/label", problems)
    unit = _text(given.get("unit", ""), f"{at}/unit", problems)
    hours = _numbers(given.get("hours"), f"{at}/hours", problems, minimum=1e-6)
    by_rack = given.get("curve")
    if not isinstance(by_rack, Mapping) or not by_rack:
        problems.append(
            _wrong(f"{at}/curve", by_rack, 'an object of rack: list; "" is the default')
        )
        return None
    curve = {}
    for rack, values in by_rack.items():
        read = _numbers(values, f"{at}/curve/{rack}", problems, minimum=0.0)
        if hours and read and len(read) != len(hours):
            detail = f"has {len(read)} values, but hours has {len(hours)}"
            problems.append(FieldProblem(f"{at}/curve/{rack}", "wrong_length", detail))
        curve[str(rack)] = read
    return Curve(label, unit, hours, curve) if len(problems) == before else None


def _text(given: Any, at: str, problems: list[FieldProblem]) -> str:
    if isinstance(given, str) and len(given) <= MAX_TEXT and given.isprintable():
        return given
    problems.append(_wrong(at, given, f"printable text of at most {MAX_TEXT} characters"))
    return ""


def _numbers(
    given: Any, at: str, problems: list[FieldProblem], *, minimum: float
) -> tuple[float, ...]:
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_STEPS:
        problems.append(_wrong(at, given, f"a list of 1 to {MAX_STEPS:,} numbers"))
        return ()
    for place, value in enumerate(given):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or not minimum <= value <= HIGHEST:
            accepted = f"a number between {minimum:g} and {HIGHEST:g}"
            problems.append(_wrong(f"{at}/{place}", value, accepted))
            return ()
    return tuple(float(value) for value in given)


def _wrong(at: str, given: Any, expected: str) -> FieldProblem:
    return FieldProblem(at, "wrong_type", f"{given!r:.60} is not {expected}")
