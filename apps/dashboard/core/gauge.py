"""The gauge of a job: performance and prediction on an axis in the unit of the target."""

import math
from dataclasses import dataclass
from typing import Final

from apps.dashboard.core import formats
from apps.workloads.core.durations import DAY_S

SPAN: Final = 1.5  # of the axis, in targets, unless a value needs more
MAX_SPAN: Final = 3.0  # values beyond it are drawn at the end, with an arrow
MIN_TICKS: Final = 3
MINUTE_S: Final = 60.0
DURATIONS: Final = {"completion_time", "throughput_latency"}  # kinds of target
STEPS_S: Final = (15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200)
_FIELDS: Final = {
    "completion_time": "seconds",
    "throughput_latency": "latency_seconds",
    "ips": "ips",
}


@dataclass(frozen=True, slots=True)
class Gauge:
    """Positions are shares of the axis, 0 to 1, which begins at 0.

    Attributes
    ----------
    target : position of the target
    value, predicted, low, high : positions of the measurement and of the prediction with its 90 %
        interval; None = unknown
    is_rate : whether higher is better
    is_beyond, is_predicted_beyond : whether the measurement, or the prediction, lies beyond the
        end of the axis
    ticks : (position, text)
    target_text, value_text, predicted_text : with units; empty = unknown
    headroom : distance of the measurement from the target, as text; empty = unknown
    meets : whether the target is met; None = unknown
    """

    target: float
    value: float | None
    predicted: float | None
    low: float | None
    high: float | None
    is_rate: bool
    is_beyond: bool
    is_predicted_beyond: bool
    ticks: tuple[tuple[float, str], ...]
    target_text: str
    value_text: str
    predicted_text: str
    headroom: str
    meets: bool | None


def gauge(
    target: dict[str, object],
    *,
    performance: float | None,
    attainment: float | None,
    predicted: tuple[float, float, float],
) -> Gauge | None:
    """Return the gauge of a job; None for best effort.

    Parameters
    ----------
    performance : last measured, in the target's unit
    predicted : value, low and high end; NaN = unknown
    """
    kind = str(target.get("kind"))
    limit = target.get(_FIELDS.get(kind, ""))
    if not isinstance(limit, int | float):
        return None
    known = performance is not None and not math.isnan(performance)
    value = performance if known and performance is not None else math.nan
    shown = [x for x in (value, *predicted) if math.isfinite(x)]
    top = min(MAX_SPAN * limit, max(SPAN * limit, 1.1 * max(shown, default=0.0)))

    def place(x: float) -> float | None:
        return None if math.isnan(x) else min(1.0, max(0.0, x / top))

    return Gauge(
        target=limit / top,
        value=place(value),
        predicted=place(predicted[0]),
        low=place(predicted[1]),
        high=place(predicted[2]),
        is_rate=kind == "ips",
        is_beyond=value > top,
        is_predicted_beyond=predicted[0] > top,
        ticks=tuple((tick / top, _tick_text(kind, tick)) for tick in axis_ticks(kind, top)),
        target_text=formats.performance_text(kind, float(limit)),
        value_text=formats.performance_text(kind, value) if known else "",
        predicted_text=""
        if math.isnan(predicted[0])
        else formats.performance_text(kind, predicted[0]),
        headroom=_headroom(kind, float(limit), value, attainment),
        meets=None if attainment is None else attainment >= 1.0,
    )


def _headroom(kind: str, limit: float, value: float, attainment: float | None) -> str:
    """Describe the distance from the target, so that it agrees with the attainment."""
    if attainment is None or math.isnan(value):
        return ""
    if kind == "throughput_latency" and attainment < 1.0 and value <= limit:
        return f"within the latency, but answers only {formats.percent(attainment, 0)} of the load"
    if not math.isfinite(value):
        return "makes no progress"
    apart = formats.performance_text(kind, abs(limit - value))
    share = formats.percent(abs(limit - value) / limit, 0)
    if attainment >= 1.0:
        return f"headroom {apart}, {share} of the target"
    side = "below" if kind == "ips" else "over"
    return f"{apart} {side} the target, {share} of it"


def axis_ticks(kind: str, top: float) -> tuple[float, ...]:
    """Return round values of a kind of target from 0 to at most ``top``: at least three besides 0.

    From a minute, durations are round in minutes, hours or days.
    """
    if kind not in DURATIONS or top < MINUTE_S:
        return round_ticks(top)
    if top >= MIN_TICKS * DAY_S:
        return tuple(DAY_S * days for days in round_ticks(top / DAY_S))
    step = max(each for each in STEPS_S if MIN_TICKS * each <= top)
    return tuple(float(i * step) for i in range(int(top / step) + 1))


def round_ticks(top: float) -> tuple[float, ...]:
    """Return round numbers from 0 to at most ``top``: at least three besides 0."""
    power = 10.0 ** math.floor(math.log10(top))
    factors = (2.5, 2.0, 1.0, 0.5, 0.25)
    step = next(power * x for x in factors if top / (power * x) >= MIN_TICKS - 1e-9)
    return tuple(i * step for i in range(int(top / step + 1e-9) + 1))


def _tick_text(kind: str, value: float) -> str:
    return "0" if value == 0.0 else formats.performance_text(kind, value)
