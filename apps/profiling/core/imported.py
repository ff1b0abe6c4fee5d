"""Measured cells from the report of a real profile, as a live profile would give them.

A score has the standard error of its 90 % interval. A source that full intensity does not reach
has the score 100, and interference caused has no interval in a report: both get `UNSURE`, the
resolution at which the profiler ends its search.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from apps.common.core.errors import FieldProblem
from apps.common.core.interference import SOURCES
from apps.profiling.core.measurements import MeasuredCell
from apps.profiling.core.ramp import HALF_WIDTH_90
from apps.profiling.core.report import FORMAT
from apps.profiling.core.report_scores import report_scores
from apps.profiling.core.sensitivity import RESOLUTION, State
from apps.profiling.core.stressors import STRESSORS

UNSURE: Final = RESOLUTION
MIN_ERROR: Final = 1.0  # points
MAX_SOURCES: Final = 100


def report_problems(report: Mapping[str, Any]) -> list[FieldProblem]:
    """Return what makes a report unreadable, each with its pointer; empty if nothing does."""
    if report.get("format") != FORMAT:
        detail = f"must be {FORMAT!r}, not {report.get('format')!r:.60}"
        return [FieldProblem("/report/format", "unknown_value", detail)]
    command = report.get("command")
    problems = []
    if not (isinstance(command, list) and command and all(isinstance(c, str) for c in command)):
        detail = "must be a list of strings with the program first"
        problems.append(FieldProblem("/report/command", "wrong_type", detail))
    if not _is_share(report.get("cpu_share"), high=1e6):
        detail = "must be a number of at least 0, or null"
        problems.append(FieldProblem("/report/cpu_share", "wrong_type", detail))
    sources = report.get("sources")
    if not isinstance(sources, list) or not 1 <= len(sources) <= MAX_SOURCES:
        detail = f"must be a list of 1 to {MAX_SOURCES} sources"
        return [*problems, FieldProblem("/report/sources", "wrong_type", detail)]
    for place, found in enumerate(sources):
        problems += _source_problems(found, f"/report/sources/{place}")
    return problems


def _source_problems(found: Any, at: str) -> list[FieldProblem]:
    if not isinstance(found, Mapping):
        return [FieldProblem(at, "wrong_type", "must be an object")]
    checks = (
        ("stressor", found.get("stressor") in STRESSORS, f"one of {', '.join(STRESSORS)}"),
        (
            "source",
            found.get("source") in {None, *SOURCES},
            f"null or one of {', '.join(SOURCES)}",
        ),
        ("state", found.get("state") in set(State), f"one of {', '.join(State)}"),
        ("stressor_speed", _is_share(found.get("stressor_speed"), high=1e6), "a number or null"),
        ("points", _are_points(found.get("points")), "a list of objects with pairs"),
    )
    problems = [
        FieldProblem(f"{at}/{name}", "unknown_value", f"must be {accepted}")
        for name, is_right, accepted in checks
        if not is_right
    ]
    if not problems and found["state"] == State.MEASURED:
        problems = [
            FieldProblem(f"{at}/{name}", "out_of_range", "must be a number from 0 to 100")
            for name in ("score", "low", "high")
            if found.get(name) is None or not _is_share(found[name], high=100.0)
        ]
    return problems


def _is_share(value: Any, *, high: float) -> bool:
    if value is None:
        return True
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0.0 <= value <= high


def _are_points(points: Any) -> bool:
    return isinstance(points, list) and all(
        isinstance(point, Mapping) and isinstance(point.get("pairs"), int) and point["pairs"] > 0
        for point in points
    )


def report_cells(report: Mapping[str, Any]) -> list[MeasuredCell]:
    """Return the cells of a report without problems.

    Tolerated: of every source with a score. Caused: of every source whose stressor ran. Values are
    those of `report_scores`.
    """
    scores, cells = report_scores(report), []
    for place, source in enumerate(SOURCES):
        found = [each for each in report["sources"] if each["source"] == source]
        samples = max(1, sum(point["pairs"] for each in found for point in each["points"]))
        if found and source not in scores.unknown:
            value = float(scores.tolerated[place])
            error = _error(found, value)
            cells.append(MeasuredCell("tolerated", source, value, error, samples))
        if any(_has_cause(each, report) for each in found):
            value = float(scores.caused[place])
            cells.append(MeasuredCell("caused", source, value, UNSURE, samples))
    return cells


def _has_cause(found: Mapping[str, Any], report: Mapping[str, Any]) -> bool:
    own = report.get("cpu_share") if found["stressor"] == "shared_core" else None
    return found["stressor_speed"] is not None or own is not None


def _error(found: Sequence[Mapping[str, Any]], value: float) -> float:
    """Return the standard error of the lowest score."""
    for each in found:
        if each["state"] == State.MEASURED and float(each["score"]) == value:
            return max(MIN_ERROR, (each["high"] - each["low"]) / (2.0 * HALF_WIDTH_90))
    return UNSURE
