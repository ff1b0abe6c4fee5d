"""What the Lab pages show of comparisons."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db.models import QuerySet

from apps.common.core.errors import NotFoundError
from apps.dashboard.core import lab_matrix
from apps.dashboard.core.lab_jobs import SHOWN, JobTable, NamedChange, job_table
from apps.dashboard.core.lab_matrix import LabMatrix
from apps.dashboard.core.lab_sweep import SweepTable, sweep_table
from apps.dashboard.figures.lab_curves import LabCurves
from apps.dashboard.figures.lab_differences import DifferenceRow, LabDifferences
from apps.dashboard.figures.lab_front import FrontPoint, LabFront
from apps.dashboard.figures.lab_halving import LabHalving, SweepLine
from apps.dashboard.figures.lab_used import LabUsed
from apps.testbed.core.lab_loads import at_load, loads_of
from apps.testbed.models import LabComparison, LabScenario
from apps.testbed.selectors.lab import comparison_by_id, comparisons, scenario_by_id
from apps.testbed.selectors.lab_results import halving_of, jobs_that_change, result_with
from apps.workloads.models import Job

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


def matrix(
    comparison: LabComparison, baseline: str = "", load: float | None = None
) -> LabMatrix | None:
    """Return the table of a finished comparison at a load with a baseline; None before."""
    result = result_with(comparison, baseline, load)
    return None if result is None else lab_matrix.matrix(result, comparison.grid)


def changed_jobs(
    comparison: LabComparison, visible: QuerySet[Job], *, setting: str, baseline: str
) -> JobTable | None:
    """Return the jobs that gain or lose most under a setting; None if they are not stored."""
    try:
        found = jobs_that_change(
            comparison, visible, setting=setting, baseline=baseline, limit=SHOWN
        )
    except NotFoundError:
        return None
    named = [
        NamedChange(
            change=row.change,
            application=row.application,
            submitted_s=row.submitted_s,
            name=row.job.name if row.job else "",
            job_id=str(row.job.pk) if row.job else "",
        )
        for row in found.rows
    ]
    return job_table(named, found.summary, setting=setting, baseline=baseline)


def curves(key: str, load: str = "") -> LabCurves:
    """Return the distributions of a comparison at a load, for the figure."""
    comparison = comparison_of(key)
    result = _part(comparison, load) or {"curves": {}, "jobs": 0, "bound": None}
    names = _names(comparison, result["curves"])
    return LabCurves(
        names=names,
        shares=tuple(tuple(result["curves"][name]["performance"]) for name in names),
        bound=result["bound"] or "",
        jobs=result["jobs"],
        seeds=len(comparison.seeds),
    )


def used(key: str, load: str = "") -> LabUsed:
    """Return the units in use over time at a load, for the figure."""
    comparison = comparison_of(key)
    result = _part(comparison, load) or {"used": {"at_s": [], "shares": {}}, "bound": None}
    shares = result["used"]["shares"]
    names = _names(comparison, shares)
    return LabUsed(
        names=names,
        at_s=tuple(result["used"]["at_s"]),
        shares=tuple(tuple(shares[name]) for name in names),
        bound=result["bound"] or "",
        seeds=len(comparison.seeds),
    )


def _part(comparison: LabComparison, load: str) -> dict[str, Any] | None:
    return None if comparison.result is None else at_load(comparison.result, number_in(load))


def number_in(text: str) -> float | None:
    """Return a number in an address; None if it is not one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def front(key: str, load: str = "") -> LabFront:
    """Return performance and jobs near full speed of the settings at a load, for the figure.

    The axes span the points of all loads, so that the figures can be compared.
    """
    comparison = comparison_of(key)
    result = comparison.result
    if result is None:
        return LabFront((), len(comparison.seeds), None, ())
    loads = loads_of(result)
    shown = at_load(result, number_in(load))
    everything = [p for each in loads for p in _points(comparison, at_load(result, each))]
    is_one = len(loads) < 2
    return LabFront(
        points=_points(comparison, shown),
        seeds=len(comparison.seeds),
        load=None if is_one else shown.get("load", 1.0),
        scale=() if is_one else tuple(everything),
        leaders=(_leader(shown, "performance_mean"), _leader(shown, "near_full_speed")),
    )


def _leader(result: Mapping[str, Any], measure: str) -> str:
    """Return the only leader in a measure; "" if none is alone."""
    names = result["leaders"].get(measure, [])
    return str(names[0]) if len(names) == 1 else ""


def _points(comparison: LabComparison, result: Mapping[str, Any]) -> tuple[FrontPoint, ...]:
    means = {(m["setting"], m["measure"]): m["interval"] for m in result["means"]}
    return tuple(
        FrontPoint(
            setting=each["name"],
            near=_ends(means.get((each["name"], "near_full_speed"))),
            overall=_ends(means.get((each["name"], "performance_mean"))),
            is_bound=each["name"] == result["bound"],
        )
        for each in comparison.grid
        if means.get((each["name"], "performance_mean"))
    )


def _ends(interval: Any) -> tuple[float, float | None, float | None]:
    estimate, low, high = interval
    return float(estimate), low, high


def _names(comparison: LabComparison, found: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the settings in the order of the grid, which the database keeps for lists only."""
    return tuple(each["name"] for each in comparison.grid if each["name"] in found)


def halving(key: str) -> LabHalving:
    """Return the rounds of a sweep, for the figure; without rounds if the comparison is none."""
    comparison = comparison_of(key)
    found = halving_of(comparison) or {"rounds": []}
    rounds = found["rounds"]
    names = _competitors(comparison) if rounds else []
    return LabHalving(
        lines=tuple(_sweep_line(name, rounds) for name in names),
        rounds=tuple(one["seeds"] for one in rounds),
    )


def _sweep_line(setting: str, rounds: Sequence[Mapping[str, Any]]) -> SweepLine:
    seeds, gaps, is_dropped = [], [], False
    for one in rounds:
        found = next((each for each in one["behind"] if each["setting"] == setting), None)
        if found is None and one["leader"] != setting:
            break
        seeds.append(one["seeds"])
        gaps.append(found["interval"][0] if found else 0.0)
        is_dropped = bool(found and found["is_dropped"])
    return SweepLine(setting, tuple(seeds), tuple(gaps), is_dropped)


def sweep(comparison: LabComparison) -> SweepTable | None:
    """Return the settings that a sweep has dropped so far; None if the comparison is none."""
    found = halving_of(comparison)
    if found is None:
        return None
    return sweep_table(
        found,
        settings=len(_competitors(comparison)),
        runs=comparison.runs_done,  # type: ignore[attr-defined] # annotated
        most=len(comparison.grid) * len(comparison.seeds),
    )


def _competitors(comparison: LabComparison) -> list[str]:
    return [each["name"] for each in comparison.grid if each["name"] != comparison.bound]


def differences(key: str, baseline: str = "", load: str = "") -> LabDifferences:
    """Return the differences to a baseline on the first measure and others, for the figure."""
    comparison = comparison_of(key)
    found = result_with(comparison, baseline, number_in(load))
    result = found or {"differences": [], "measures": [], "baseline": comparison.baseline}
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
    outcomes = [d["outcome"] for d in result["differences"]]
    return LabDifferences(
        baseline=result["baseline"],
        rows=rows,
        seeds=len(comparison.seeds),
        is_open=found is None,
        clear=outcomes.count("better") + outcomes.count("worse"),
        total=len(outcomes),
    )


def _is_shown(difference: Mapping[str, Any], measures: Mapping[str, Any]) -> bool:
    interval = difference["percent"] or difference["corrected"]
    is_relative = difference["percent"] or measures[difference["measure"]]["unit"] == "%"
    return bool(is_relative) and interval is not None and None not in interval
