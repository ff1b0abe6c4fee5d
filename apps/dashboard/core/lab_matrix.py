"""The result of a comparison as the table of its page: values, marks and sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apps.dashboard.core import formats

OUTCOMES: Final = {
    "better": "better than the baseline, clear of zero",
    "worse": "worse than the baseline, clear of zero",
    "unclear": "within noise of the baseline",
    "untested": "not compared",
}
HALF_BAR: Final = 15.0  # px of the largest difference of a measure
Result = Mapping[str, Any]  # JSON of `testbed.core.lab_results.compared`


@dataclass(frozen=True, slots=True)
class LabCell:
    """One measure of one setting: value and interval as text.

    Attributes
    ----------
    outcome : of the difference to the baseline; "" for the baseline and the bound
    left, width : px of the bar of the difference, right of the middle if it is better
    leads : clearly better than every setting that does not lead
    """

    value: str
    interval: str
    outcome: str
    meaning: str
    left: float
    width: float
    leads: bool


@dataclass(frozen=True, slots=True)
class LabRow:
    """One setting; ``role`` is "baseline", "bound" or ""."""

    setting: str
    note: str
    role: str
    cells: tuple[LabCell, ...]


@dataclass(frozen=True, slots=True)
class LabMatrix:
    """All settings by all measures; ``heads`` are names with units."""

    title: str
    has_intervals: bool
    heads: tuple[tuple[str, str], ...]
    rows: tuple[LabRow, ...]
    note: str


def matrix(result: Result, grid: Sequence[Mapping[str, Any]]) -> LabMatrix:
    """Return the table of a result; ``grid`` has the names and options of the settings."""
    means = {(m["setting"], m["measure"]): m["interval"] for m in result["means"]}
    differences = {(d["setting"], d["measure"]): d for d in result["differences"]}
    options = {setting["name"]: setting["options"] for setting in grid}
    roles = {result["baseline"]: "baseline", result["bound"]: "bound"}
    bound = [result["bound"]] if result["bound"] else []
    rows = tuple(
        LabRow(
            setting=name,
            note=_with_migrations(options_text(options[name]), result, name),
            role=roles.get(name, ""),
            cells=tuple(
                _cell(
                    means[name, measure["key"]],
                    differences.get((name, measure["key"])),
                    is_higher_better=measure["better"] == "higher",
                    largest=_largest(result, measure["key"]),
                    leads=name in result["leaders"][measure["key"]],
                )
                for measure in result["measures"]
            ),
        )
        for name in [*result["settings"], *bound]
    )
    heads = tuple((m["label"], m["unit"]) for m in result["measures"])
    has_intervals = len(result["seeds"]) > 1
    return LabMatrix(_title(result), has_intervals, heads, rows, _note(result))


def _with_migrations(text: str, result: Result, setting: str) -> str:
    """Add the migrations of a run to the options of a setting, if it has weights."""
    count = result.get("migrations", {}).get(setting)
    return text if count is None else f"{text}; {formats.thousands(count)} migrations a run"


def subject(result: Result) -> str:
    """Return the setting with the best mean of the first measure, the baseline included."""
    primary = result["measures"][0]
    sign = 1.0 if primary["better"] == "higher" else -1.0
    means = {
        m["setting"]: sign * m["interval"][0]
        for m in result["means"]
        if m["measure"] == primary["key"] and m["interval"] and m["setting"] in result["settings"]
    }
    best: str = max(means, key=means.__getitem__) if means else result["baseline"]
    return best


def options_text(options: Mapping[str, Any]) -> str:
    """Return the options of a setting in words."""
    plain = {name: value for name, value in options.items() if not isinstance(value, Mapping)}
    named = sorted(plain.items()) + sorted(options.get("parameters", {}).items())
    parts = [f"{key} {value}" for key, value in named]
    if weights := options.get("weights"):
        parts.append(f"weights {weights_text(weights)}")
    return ", ".join(parts)


def weights_text(weights: Mapping[str, float]) -> str:
    """Return weights of the objectives in words."""
    return " ".join(f"{name} {value:.3g}" for name, value in weights.items())


def _largest(result: Result, measure: str) -> float:
    """Largest difference of a measure to the baseline, which a bar of full width shows."""
    sizes = [
        abs(d["corrected"][0])
        for d in result["differences"]
        if d["measure"] == measure and d["corrected"]
    ]
    return max(sizes, default=0.0)


def _cell(
    interval: Sequence[float | None] | None,
    difference: Mapping[str, Any] | None,
    *,
    is_higher_better: bool,
    largest: float,
    leads: bool,
) -> LabCell:
    outcome = difference["outcome"] if difference else ""
    gain = 0.0
    if difference and difference["corrected"] and largest:
        gain = difference["corrected"][0] * (1.0 if is_higher_better else -1.0) / largest
    width = HALF_BAR * abs(gain)
    value, ends = interval_text(interval)
    return LabCell(
        value=value,
        interval=ends,
        outcome=outcome,
        meaning=OUTCOMES.get(outcome, ""),
        left=round(HALF_BAR - (width if gain < 0.0 else 0.0), 2),
        width=round(width, 2),
        leads=leads,
    )


def interval_text(interval: Sequence[float | None] | None) -> tuple[str, str]:
    """Return an estimate and its interval as text; "–" and "" if unknown."""
    estimate, low, high = interval or (None, None, None)
    if estimate is None:
        return "–", ""
    digits = 0 if abs(estimate) >= 1_000 else 1 if abs(estimate) >= 10 else 2
    if low is None or high is None:
        return formats.thousands(estimate, digits), ""
    return (
        formats.thousands(estimate, digits),
        f"[{formats.thousands(low, digits)}, {formats.thousands(high, digits)}]",
    )


def _title(result: Result) -> str:
    best, base = subject(result), result["baseline"]
    if len(result["seeds"]) < 2:
        return "One seed: means without intervals"
    if best == base:
        return f"No setting has a better mean than {base}"
    outcomes = [d["outcome"] for d in result["differences"] if d["setting"] == best]
    better, worse = outcomes.count("better"), outcomes.count("worse")
    count = formats.plural(len(outcomes), "measure")
    loses = "loses on none" if not worse else f"loses on {worse}"
    return f"{best} beats {base} on {better} of {count}, {loses}"


def _note(result: Result) -> str:
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
