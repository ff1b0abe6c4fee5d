"""Verdict on a finished plan in one sentence: realised against predicted changes.

Metrics are those of `cluster.metrics_json`: watts and crossing (lower is better), diversity
(higher is better), F.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MIN_CHANGE: Final = {"watts": 0.5, "diversity": 0.005, "crossing": 0.5}


@dataclass(frozen=True, slots=True)
class FinishedPlan:
    """A plan with no waiting or running migrations.

    Attributes
    ----------
    predicted : metrics "before" and "after", predicted when the plan was made
    realised : metrics "before" (as if nothing had migrated) and "after", empty if no migration
        was done; numbers of jobs that "arrived" and "left" in the meantime; number of migrated
        containers that are "gone" since
    done, failed, asked : migrations; the others were skipped or cancelled
    """

    predicted: Mapping[str, Any]
    realised: Mapping[str, Any]
    done: int = 0
    failed: int = 0
    asked: int = 0


def reduction(change: Mapping[str, Any], name: str) -> float:
    """Decrease of a metric; 0 if it was not measured."""
    before, after = change.get("before") or {}, change.get("after") or {}
    return float(before.get(name, 0.0) - after.get(name, 0.0))


def realised_share(plan: FinishedPlan) -> float | None:
    """Realised decrease of F over the predicted one; None if no decrease was predicted."""
    predicted = reduction(plan.predicted, "F")
    return reduction(plan.realised, "F") / predicted if predicted > 1e-9 else None


def verdict(plan: FinishedPlan) -> str:
    """Describe the result of a plan in one sentence."""
    if not plan.done:
        return _nothing_done(plan)
    share = realised_share(plan)
    parts = [] if share is None else [f"{_plain(100.0 * share, 0)} % of the predicted gain"]
    parts += [part for part in (_power(plan), _diversity(plan), _crossing(plan)) if part]
    parts += [_migrations(plan), *_job_changes(plan.realised)]
    sentence = "; ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}.".replace("-", "−")


def _nothing_done(plan: FinishedPlan) -> str:
    migrations = f"{plan.asked:,} {_plural('migration', plan.asked)}"
    if plan.failed:
        return f"No container was migrated: {plan.failed:,} of {migrations} failed."
    return f"No container was migrated: 0 of {migrations} started; the jobs ended or were skipped."


def _migrations(plan: FinishedPlan) -> str:
    done = f"{plan.done:,} of {plan.asked:,} {_plural('migration', plan.asked)} done"
    gone = plan.realised.get("gone", 0)
    return f"{done}, {gone:,} of them ended since" if gone else done


def _power(plan: FinishedPlan) -> str:
    predicted, realised = reduction(plan.predicted, "watts"), reduction(plan.realised, "watts")
    if abs(predicted) < MIN_CHANGE["watts"]:
        if abs(realised) < MIN_CHANGE["watts"]:
            return ""
        return f"power: {_change(-realised, 0)} W, no change predicted"
    if _is_opposite(predicted, realised, "watts"):
        return (
            f"power: {_change(-realised, 0)} W instead of the predicted {_change(-predicted, 0)} W"
        )
    verb, sign, more = ("saved", 1.0, "") if predicted > 0 else ("uses", -1.0, " more")
    is_large = max(abs(predicted), abs(realised)) >= 1000.0
    scale, digits, unit = (1e3, 1, "kW") if is_large else (1.0, 0, "W")
    actual, expected = (_plain(sign * x / scale, digits) for x in (realised, predicted))
    return f"power: {verb} {actual} of the predicted {expected} {unit}{more}"


def _diversity(plan: FinishedPlan) -> str:
    predicted, realised = (
        -reduction(plan.predicted, "diversity"),
        -reduction(plan.realised, "diversity"),
    )
    if abs(predicted) < MIN_CHANGE["diversity"]:
        return ""
    if abs(realised) < MIN_CHANGE["diversity"]:
        return f"diversity: unchanged instead of the predicted {_change(predicted, 2)}"
    return f"diversity: {_change(realised, 2)} of the predicted {_change(predicted, 2)}"


def _crossing(plan: FinishedPlan) -> str:
    predicted, realised = (
        reduction(plan.predicted, "crossing"),
        reduction(plan.realised, "crossing"),
    )
    if abs(predicted) < MIN_CHANGE["crossing"]:
        return ""
    if _is_opposite(predicted, realised, "crossing"):
        change = f"{_change(-realised, 0)} instead of the predicted {_change(-predicted, 0)}"
        return f"crossing traffic: {change}"
    noun = _plural("container", abs(round(predicted)))
    verb, sign = ("reunited with", 1.0) if predicted > 0 else ("separated from", -1.0)
    counts = f"{_plain(sign * realised, 0)} of {_plain(sign * predicted, 0)}"
    return f"crossing traffic: {counts} {noun} {verb} their job"


def _is_opposite(predicted: float, realised: float, name: str) -> bool:
    """Whether the realised change has the opposite sign."""
    return predicted * realised < 0.0 and abs(realised) >= MIN_CHANGE[name]


def _job_changes(realised: Mapping[str, Any]) -> list[str]:
    arrived, left = realised.get("arrived", 0), realised.get("left", 0)
    parts = []
    if arrived:
        parts.append(f"{arrived:,} {_plural('job', arrived)} arrived")
    if left:
        parts.append(f"{left:,} ended")
    return [f"{' and '.join(parts)} in the meantime"] if parts else []


def _plain(value: float, digits: int) -> str:
    """Format a rounded number, without the sign of a zero."""
    return f"{value:,.{digits}f}" if round(abs(value), digits) else f"{0:.{digits}f}"


def _change(value: float, digits: int) -> str:
    return f"{'+' if value >= 0 else '−'}{abs(value):,.{digits}f}"


def _plural(noun: str, number: float) -> str:
    return noun if number == 1 else f"{noun}s"
