"""A comparison as JSON values: reports, REST and stored results share it."""

from dataclasses import asdict
from typing import Any

from apps.testbed.core.comparison import Comparison, Difference, Interval
from apps.testbed.core.verdict import verdict


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Return the verdict and all numbers; an interval is [estimate, low, high], or null."""
    return {
        "verdict": verdict(comparison),
        "baseline": comparison.baseline,
        "bound": comparison.bound,
        "level": comparison.level,
        "seeds": list(comparison.seeds),
        "settings": list(comparison.settings),
        "measures": [asdict(measure) for measure in comparison.measures],
        "means": [
            {"setting": setting, "measure": measure, "interval": _listed(interval)}
            for (setting, measure), interval in comparison.means.items()
        ],
        "differences": [difference_json(d) for d in comparison.differences],
        "leaders": {measure: list(names) for measure, names in comparison.leaders.items()},
        "regrets": [
            {"setting": r.setting, "measure": r.measure, "interval": _listed(r.interval)}
            for r in comparison.regrets
        ],
        "widening": comparison.widening,
    }


def difference_json(difference: Difference) -> dict[str, Any]:
    """Return one difference as JSON."""
    return {
        "setting": difference.setting,
        "measure": difference.measure,
        "single": _listed(difference.single),
        "corrected": _listed(difference.corrected),
        "percent": _listed(difference.percent),
        "outcome": difference.outcome.value,
    }


def _listed(interval: Interval | None) -> list[float | None] | None:
    return None if interval is None else [interval.estimate, interval.low, interval.high]
