"""What the Lab pages show of comparisons."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.core.exceptions import ValidationError

from apps.common.core.errors import NotFoundError
from apps.dashboard.core import lab_matrix
from apps.dashboard.core.lab_matrix import LabMatrix
from apps.dashboard.figures.lab_curves import LabCurves
from apps.dashboard.figures.lab_differences import DifferenceRow, LabDifferences
from apps.dashboard.figures.lab_front import FrontPoint, LabFront
from apps.dashboard.figures.lab_used import LabUsed
from apps.testbed.models import LabComparison, LabScenario
from apps.testbed.selectors.lab import comparison_by_id, comparisons, scenario_by_id

LISTED: Final = 50


def listed_comparisons() -> list[LabComparison]:
    """Return the newest comparisons."""
    return list(comparisons().defer("result").order_by("-created_at", "-id")[:LISTED])


def comparison_of(key: str) -> LabComparison:
    """Return a comparison by the id in an address.

    Raises
    ------
    NotFoundError : there is none.
    """
    try:
        return comparison_by_id(UUID(key))
    except (ValueError, ValidationError) as error:
        raise NotFoundError(f"There is no comparison {key}.") from error


def scenario_of(key: str) -> LabScenario | None:
    """Return a scenario by the id in an address; None if there is none."""
    try:
        return scenario_by_id(UUID(key))
    except (ValueError, NotFoundError):
        return None


def matrix(comparison: LabComparison) -> LabMatrix | None:
    """Return the table of a finished comparison; None before."""
    result = comparison.result
    return None if result is None else lab_matrix.matrix(result, comparison.grid)


def curves(key: str) -> LabCurves:
    """Return the distributions of a comparison, for the figure."""
    comparison = comparison_of(key)
    result = comparison.result or {"curves": {}, "jobs": 0}
    names = _names(comparison, result["curves"])
    return LabCurves(
        names=names,
        shares=tuple(tuple(result["curves"][name]["performance"]) for name in names),
        bound=comparison.bound,
        jobs=result["jobs"],
        seeds=len(comparison.seeds),
    )


def used(key: str) -> LabUsed:
    """Return the units in use over time, for the figure."""
    comparison = comparison_of(key)
    result = comparison.result or {"used": {"at_s": [], "shares": {}}}
    shares = result["used"]["shares"]
    names = _names(comparison, shares)
    return LabUsed(
        names=names,
        at_s=tuple(result["used"]["at_s"]),
        shares=tuple(tuple(shares[name]) for name in names),
        bound=comparison.bound,
        seeds=len(comparison.seeds),
    )


def front(key: str) -> LabFront:
    """Return performance and jobs near full speed of all settings, for the figure."""
    comparison = comparison_of(key)
    result = comparison.result or {"means": []}
    means = {(m["setting"], m["measure"]): m["interval"] for m in result["means"]}
    points = (
        FrontPoint(
            setting=each["name"],
            near=_ends(means.get((each["name"], "near_full_speed"))),
            overall=_ends(means.get((each["name"], "performance_mean"))),
            is_bound=each["name"] == comparison.bound,
        )
        for each in comparison.grid
        if means.get((each["name"], "performance_mean"))
    )
    return LabFront(tuple(points), len(comparison.seeds))


def _ends(interval: Any) -> tuple[float, float | None, float | None]:
    estimate, low, high = interval
    return float(estimate), low, high


def _names(comparison: LabComparison, found: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the settings in the order of the grid, which the database keeps for lists only."""
    return tuple(each["name"] for each in comparison.grid if each["name"] in found)


def differences(key: str) -> LabDifferences:
    """Return the differences to the baseline on the first measure and others, for the figure."""
    comparison = comparison_of(key)
    result = comparison.result or {"differences": [], "measures": []}
    measures = {measure["key"]: measure for measure in result["measures"]}
    rows = tuple(
        DifferenceRow(
            setting=d["setting"],
            measure=measures[d["measure"]]["label"],
            unit="points" if measures[d["measure"]]["unit"] == "%" else "%",
            is_higher_better=measures[d["measure"]]["better"] == "higher",
            interval=tuple(d["percent"] or d["corrected"]),
            outcome=d["outcome"],
        )
        for d in result["differences"]
        if _is_shown(d, measures)
    )
    return LabDifferences(
        comparison.baseline, rows, len(comparison.seeds), is_open=comparison.result is None
    )


def _is_shown(difference: Mapping[str, Any], measures: Mapping[str, Any]) -> bool:
    interval = difference["percent"] or difference["corrected"]
    is_relative = difference["percent"] or measures[difference["measure"]]["unit"] == "%"
    return bool(is_relative) and interval is not None and None not in interval
