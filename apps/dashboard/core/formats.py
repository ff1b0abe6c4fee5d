"""Numbers, times, targets and lists formatted for people.

Unit after a space, minus as "−", thousands with a comma.
"""

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from apps.workloads.core.durations import DAY_S, in_two_units

UNITS: Final = re.compile(
    r"(?<=[\dkMGT]) "
    r"(%|[kMGT]?[BW]\b|[kMGT]\b|ms\b|µs\b|s\b|min\b|h\b|d\b|units?\b|queries/s|instr\./s)"
)

PERCENT: Final = re.compile(r"(?<=\d)%")


def thousands(value: float, digits: int = 0) -> str:
    """Return a number with commas, e.g. "13,056"; a dash if it is NaN."""
    if math.isnan(value):
        return "–"
    return f"{value:,.{digits}f}".replace("-", "−")


def significant(value: float, digits: int = 3) -> str:
    """Return a number with ``digits`` significant digits, no exponent, e.g. "61.2", "0.042"."""
    if math.isnan(value):
        return "–"
    if value == 0 or math.isinf(value):
        return "0" if value == 0 else "∞"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return thousands(value, min(places, 6))


def over_target(ratio: float, digits: int = 3) -> str:
    """Return performance over target; below 1 it is never rounded up to 1, e.g. "0.999"."""
    places = 10.0**digits
    return significant(min(ratio, 1 - 1 / places) if 1 - 1 / places < ratio < 1 else ratio, digits)


def trimmed(value: float, digits: int = 3) -> str:
    """Like `significant`, without trailing zeros of a fraction, e.g. "20", "1.2"."""
    text = significant(value, digits)
    return text.rstrip("0").rstrip(".") if "." in text else text


def signed(value: float, digits: int = 0) -> str:
    """Return a number with its sign, e.g. "+14", "−7", "0"."""
    if math.isnan(value):
        return "–"
    text = f"{abs(value):,.{digits}f}"
    if float(text.replace(",", "")) == 0:
        return text
    return ("+" if value > 0 else "−") + text


def percent(share: float, digits: int = 1) -> str:
    """Return a share in [0, 1] as "95.6 %"."""
    if math.isnan(share):
        return "–"
    return f"{thousands(100 * share, digits)} %"


def spaced(text: str) -> str:
    """Return a text with a space before each percent sign, as in all texts of the pages."""
    return PERCENT.sub(" %", text)


def cost_text(ceiling: float | None, cost: float) -> str:
    """Return a predicted cost beside its ceiling, in unit-seconds; empty without a ceiling."""
    if ceiling is None:
        return ""
    limit = f"{thousands(ceiling)} unit-seconds"
    return f"at most {limit}" if math.isnan(cost) else f"{thousands(cost)} of at most {limit}"


def duration(seconds: float) -> str:
    """Return a duration in its two largest units, e.g. "2 min 41 s", "12.4 s", "18 ms"."""
    if not math.isfinite(seconds):
        return "–" if math.isnan(seconds) else "never"
    if seconds < 0:
        return "−" + duration(-seconds)
    return _short(seconds) if seconds < 59.95 else in_two_units(round(seconds))


def _short(seconds: float) -> str:
    if seconds == 0 or seconds >= 0.9995:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    if seconds < 0.0009995:
        return f"{trimmed(1e6 * seconds)} µs"
    return f"{trimmed(1000 * seconds)} ms"


def cluster_time(cluster_s: float, *, seconds: bool = False) -> str:
    """Return cluster time as a time of day, e.g. "14:32"; the first day starts at 0.

    Only where the text beside it says that it is cluster time; else use `cluster_day`.
    """
    if math.isnan(cluster_s):
        return "–"
    rest = int(cluster_s) % DAY_S
    text = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}"
    return f"{text}:{rest % 60:02d}" if seconds else text


def cluster_day(cluster_s: float, *, seconds: bool = False) -> str:
    """Return cluster time with its day, e.g. "day 2, 14:32"."""
    if math.isnan(cluster_s):
        return "–"
    return f"day {int(cluster_s) // DAY_S + 1}, {cluster_time(cluster_s, seconds=seconds)}"


def cluster_rate(speed: float) -> str:
    """Return the rate of cluster time per wall time, e.g. "60×", or "stopped"."""
    return f"{trimmed(speed)}×" if speed > 0 else "stopped"


def wall_time(at: datetime, *, now: datetime) -> str:
    """Return a wall time in UTC to the second; with its date unless it is today."""
    utc = at.astimezone(UTC)
    same_day = now.astimezone(UTC).date() == utc.date()
    return f"{utc:%H:%M:%S} UTC" if same_day else wall_stamp(at)


def wall_stamp(at: datetime) -> str:
    """Return a wall time in UTC with its date, e.g. "2011-05-01 14:32:07 UTC"."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def ago(at: datetime, *, now: datetime) -> str:
    """Return a wall time: relative within an hour, then the time, then the date, in UTC."""
    passed = (now - at).total_seconds()
    if passed < 1:
        return "just now"
    if passed < 3600:
        return f"{int(passed)} s ago" if passed < 60 else f"{int(passed) // 60} min ago"
    utc = at.astimezone(UTC)
    same_day = now.astimezone(UTC).date() == utc.date()
    return f"{utc:%H:%M} UTC" if same_day else f"{utc.day} {utc:%b %H:%M} UTC"


def byte_size(size: float) -> str:
    """Return bytes in the largest decimal unit, e.g. "128 MB", "1.5 TB"."""
    for factor, unit in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(size) >= factor:
            return f"{trimmed(size / factor)} {unit}"
    return f"{thousands(size)} B"


def quantity(value: float, unit: str) -> str:
    """Return a large number with a unit prefix, e.g. "20 k queries/s", "1.2 G instr./s"."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= factor:
            scale = 1e3 if prefix == "k" else factor
            joined = f"{prefix}{unit}" if len(unit) == 1 else f"{prefix} {unit}"
            return f"{trimmed(value / scale)} {joined}".rstrip()
    return f"{trimmed(value)} {unit}".rstrip()


def target_text(target: dict[str, object]) -> str:
    """Return a job's target, e.g. "done within 10 min", "20 k queries/s, p99 ≤ 10 ms"."""
    kind = target.get("kind")
    if kind == "completion_time":
        return f"done within {duration(_number(target, 'seconds'))}"
    if kind == "throughput_latency":
        load = quantity(_number(target, "qps"), "queries/s")
        latency = duration(_number(target, "latency_seconds"))
        return f"{load}, p{_number(target, 'percentile', 99):g} ≤ {latency}"
    if kind == "ips":
        return quantity(_number(target, "ips"), "instr./s")
    return "best effort"


def performance_text(target_kind: str, value: float) -> str:
    """Return a measured or predicted performance in the unit of its target."""
    if target_kind in {"completion_time", "throughput_latency"}:
        return duration(value)
    if target_kind == "ips":
        return quantity(value, "instr./s")
    return f"{significant(3600 * value)} of the work per hour"


def unbroken(text: str) -> str:
    """Return a text with non-breaking spaces between numbers and units."""
    return UNITS.sub("\u00a0\\1", text)


def plural(count: int, noun: str, plural_noun: str | None = None) -> str:
    """Return a count with its noun, e.g. "1 job", "46 jobs"."""
    return f"{thousands(count)} {noun if count == 1 else plural_noun or noun + 's'}"


def listed(parts: Sequence[str]) -> str:
    """Join parts, e.g. "a, b and c"."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _number(target: dict[str, object], name: str, default: float = math.nan) -> float:
    value = target.get(name, default)
    return float(value) if isinstance(value, int | float) else default
