"""What the Lab pages show of comparisons."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.core.exceptions import ValidationError

from apps.common.core.errors import NotFoundError
from apps.dashboard.core import formats
from apps.dashboard.figures.lab_curves import LabCurves
from apps.dashboard.figures.lab_differences import DifferenceRow, LabDifferences
from apps.testbed.models import LabComparison
from apps.testbed.selectors.lab import comparison_by_id, comparisons

LISTED: Final = 50
OUTCOMES: Final = {
    "better": "better than the baseline, clear of zero",
    "worse": "worse than the baseline, clear of zero",
    "unclear": "within noise of the baseline",
    "untested": "not compared",
}
SYMBOLS: Final = {"better": "▲", "worse": "▼", "unclear": "○", "untested": "–"}


@dataclass(frozen=True, slots=True)
class LabCell:
    """One measure of one setting: value and interval as text.

    ``outcome`` is that of the difference to the baseline, "" for baseline and bound.
    """

    value: str
    interval: str
    outcome: str
    symbol: str
    meaning: str
    leads: bool


@dataclass(frozen=True, slots=True)
class LabRow:
    """One setting."""

    setting: str
    note: str
    role: str  # "baseline", "bound" or ""
    cells: tuple[LabCell, ...]


@dataclass(frozen=True, slots=True)
class LabMatrix:
    """All settings by all measures; ``heads`` are names with units."""

    heads: tuple[tuple[str, str], ...]
    rows: tuple[LabRow, ...]
    note: str


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


def matrix(comparison: LabComparison) -> LabMatrix | None:
    """Return the table of a finished comparison; None before."""
    result = comparison.result
    if result is None:
        return None
    means = {(m["setting"], m["measure"]): m["interval"] for m in result["means"]}
    outcomes = {(d["setting"], d["measure"]): d["outcome"] for d in result["differences"]}
    options = {setting["name"]: setting["options"] for setting in comparison.grid}
    bound = [comparison.bound] if comparison.bound else []
    rows = []
    for name in [*result["settings"], *bound]:
        cells = tuple(
            _cell(
                means[name, measure["key"]],
                outcomes.get((name, measure["key"]), ""),
                leads=name in result["leaders"][measure["key"]],
            )
            for measure in result["measures"]
        )
        role = {comparison.baseline: "baseline", comparison.bound: "bound"}.get(name, "")
        rows.append(LabRow(name, _options(options[name]), role, cells))
    heads = tuple((m["label"], m["unit"]) for m in result["measures"])
    return LabMatrix(heads, tuple(rows), _note(result))


def _options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in sorted(options.items()))


def _cell(interval: list[float | None] | None, outcome: str, *, leads: bool) -> LabCell:
    estimate, low, high = interval or (None, None, None)
    if estimate is None:
        return LabCell(
            "–", "", outcome, SYMBOLS.get(outcome, ""), OUTCOMES.get(outcome, ""), leads
        )
    digits = _digits(estimate)
    ends = (
        ""
        if low is None or high is None
        else (f"[{formats.thousands(low, digits)}, {formats.thousands(high, digits)}]")
    )
    return LabCell(
        formats.thousands(estimate, digits),
        ends,
        outcome,
        SYMBOLS.get(outcome, ""),
        OUTCOMES.get(outcome, ""),
        leads,
    )


def _digits(value: float) -> int:
    return 0 if abs(value) >= 1_000 else 1 if abs(value) >= 10 else 2


def _note(result: Mapping[str, Any]) -> str:
    count = len(result["differences"])
    if len(result["seeds"]) < 2:
        return "One seed has no intervals, so nothing is compared or highlighted."
    if not count:
        return "There is nothing to compare the baseline with."
    clear = sum(d["outcome"] in {"better", "worse"} for d in result["differences"])
    chance = round((1.0 - result["level"]) * count)
    return (
        f"{clear} of {formats.plural(count, 'difference')} are clear of zero. By chance, about"
        f" {chance} would be without the correction, which makes intervals"
        f" {result['widening']:.1f} times as wide (max-t)."
    )


def curves(key: str) -> LabCurves:
    """Return the distributions of a comparison, for the figure."""
    comparison = comparison_of(key)
    result = comparison.result or {"curves": {}, "jobs": 0}
    # the database does not keep the order of the keys
    names = [each["name"] for each in comparison.grid if each["name"] in result["curves"]]
    return LabCurves(
        names=tuple(names),
        shares=tuple(tuple(result["curves"][name]["performance"]) for name in names),
        bound=comparison.bound,
        jobs=result["jobs"],
        seeds=len(comparison.seeds),
    )


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
