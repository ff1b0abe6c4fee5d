"""A comparison in plain sentences."""

from collections.abc import Sequence

from apps.testbed.core.comparison import (
    Better,
    Comparison,
    Difference,
    DifferenceOutcome,
    Interval,
    Measure,
)


def verdict(comparison: Comparison) -> str:
    """Say which setting beats the baseline by how much, and what it costs.

    The best setting on the first measure is described; intervals are the corrected ones.
    """
    if len(comparison.seeds) < 2:
        return "Each setting ran with one seed, so differences have no intervals: add seeds."
    if len(comparison.settings) < 2:
        return f"{comparison.baseline} ran alone: there is nothing to compare it with."
    primary = comparison.measures[0]
    candidates = [
        d
        for d in comparison.differences
        if d.measure == primary.key and d.outcome is not DifferenceOutcome.UNTESTED
    ]
    if not candidates:
        return f"No two settings have a {primary.label} in every run, so they cannot be compared."
    clear = [d for d in candidates if d.outcome is DifferenceOutcome.BETTER]
    best = max(clear or candidates, key=lambda d: _gain(d, primary))
    if all(d.outcome is DifferenceOutcome.WORSE for d in candidates):
        headline = (
            f"{comparison.baseline} beats every other setting on {primary.label}; the closest,"
            f" {best.setting}, is worse by {amount(best, primary)}."
        )
    else:
        headline = _headline(comparison, best, primary)
    return " ".join([headline, *_bound_sentence(comparison, primary)])


def amount(difference: Difference, measure: Measure) -> str:
    """Return the size of a difference without its sign, with its interval: "41 % [36, 46]"."""
    interval = difference.percent or difference.corrected
    if interval is None:
        return "an unknown amount"
    unit = "points" if measure.unit == "%" else measure.unit
    if difference.percent is not None:
        unit = "%"
    return _sized(interval, unit)


def _sized(interval: Interval, unit: str) -> str:
    flip = -1.0 if interval.estimate < 0.0 else 1.0
    ends = sorted(flip * x for x in (interval.low, interval.high) if x is not None)
    digits = _digits(abs(interval.estimate), *map(abs, ends))
    while digits < 3 and len(ends) == 2 and number(ends[0], digits) == number(ends[1], digits):
        digits += 1
    text = f"{number(abs(interval.estimate), digits)} {unit}".rstrip()
    return f"{text} [{', '.join(number(end, digits) for end in ends)}]" if ends else text


def _digits(*values: float) -> int:
    """Decimals that show two significant digits of the largest value; at most 3."""
    largest = max(values)
    if largest >= 20.0 or largest == 0.0:
        return 0
    if largest >= 2.0:
        return 1
    return 2 if largest >= 0.2 else 3


def number(value: float, digits: int) -> str:
    """Write a number with thousands separators and a real minus sign, without "-0"."""
    text = f"{value:,.{digits}f}".replace("-", "−")
    return text.removeprefix("−") if not text.strip("−0.,") else text


def _gain(difference: Difference, measure: Measure) -> float:
    if difference.corrected is None:
        return float("-inf")
    sign = 1.0 if measure.better is Better.HIGHER else -1.0
    return sign * difference.corrected.estimate


def _headline(comparison: Comparison, best: Difference, primary: Measure) -> str:
    base = comparison.baseline
    if best.outcome is DifferenceOutcome.BETTER:
        rest = _rest(comparison, best.setting)
        return (
            f"{best.setting} beats {base} on {primary.label} by {amount(best, primary)}"
            f"{'; ' + rest if rest else ''}."
        )
    is_ahead = _gain(best, primary) >= 0.0
    rank, side = ("best", "ahead") if is_ahead else ("next best", "behind")
    return (
        f"No setting clearly beats {base} on {primary.label}; the {rank}, {best.setting}, is"
        f" {amount(best, primary)} {side}."
    )


def _rest(comparison: Comparison, setting: str) -> str:
    """Describe a setting on the measures after the first."""
    groups: dict[DifferenceOutcome, list[str]] = {outcome: [] for outcome in DifferenceOutcome}
    for measure in comparison.measures[1:]:
        difference = comparison.difference(setting, measure.key)
        text = measure.label
        if difference.outcome in (DifferenceOutcome.BETTER, DifferenceOutcome.WORSE):
            text += f" by {amount(difference, measure)}"
        groups[difference.outcome].append(text)
    parts = [
        f"{lead} {_listed(groups[outcome])}"
        for outcome, lead in (
            (DifferenceOutcome.BETTER, "better on"),
            (DifferenceOutcome.WORSE, "worse on"),
            (DifferenceOutcome.UNCLEAR, "no clear difference in"),
        )
        if groups[outcome]
    ]
    return "; ".join(parts)


def _listed(items: Sequence[str]) -> str:
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def _bound_sentence(comparison: Comparison, primary: Measure) -> list[str]:
    regrets = [r for r in comparison.regrets if r.measure == primary.key and r.interval]
    if not regrets:
        return []
    closest = min(regrets, key=lambda r: r.interval.estimate if r.interval else float("inf"))
    if closest.interval is None:
        return []
    unit = "points" if primary.unit == "%" else primary.unit
    side = "above" if closest.interval.estimate < 0.0 else "short of"
    return [
        f"{closest.setting} stays {_sized(closest.interval, unit)} {side} the bound"
        f" {comparison.bound}."
    ]
