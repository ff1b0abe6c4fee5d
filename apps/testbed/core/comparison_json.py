"""A comparison as JSON values: reports, REST and stored results share it."""

from dataclasses import asdict
from typing import Any

from apps.testbed.core.comparison import Comparison, Interval
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
        "differences": [
            {
                "setting": d.setting,
                "measure": d.measure,
                "single": _listed(d.single),
                "corrected": _listed(d.corrected),
                "percent": _listed(d.percent),
                "outcome": d.outcome.value,
            }
            for d in comparison.differences
        ],
        "leaders": {measure: list(names) for measure, names in comparison.leaders.items()},
        "regrets": [
            {"setting": r.setting, "measure": r.measure, "interval": _listed(r.interval)}
            for r in comparison.regrets
        ],
        "widening": comparison.widening,
    }


def _listed(interval: Interval | None) -> list[float | None] | None:
    return None if interval is None else [interval.estimate, interval.low, interval.high]
