"""Small drawings of template tags: sparklines, bars, marks and gauges, as SVG."""

import math
from collections.abc import Sequence

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from apps.dashboard.core import formats
from apps.dashboard.core.gauge import Gauge


def spark(values: Sequence[float]) -> SafeString:
    """Return a sparkline of 72 by 32 px with its last point marked; "" below two values."""
    known = [(i, v) for i, v in enumerate(values) if not math.isnan(v)]
    if len(known) < 2:
        return mark_safe("")
    low, high = min(v for _, v in known), max(v for _, v in known)
    span = high - low or 1.0
    points = [
        (i / (len(values) - 1) * 68, 28 - (v - low) / span * 24 if high > low else 16.0)
        for i, v in known
    ]
    path = "L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return format_html(
        '<svg viewBox="0 0 72 32" class="spark plot" aria-hidden="true">'
        '<path d="M{}" class="ln sn"/>'
        '<circle cx="{}" cy="{}" r="2" class="fa"/></svg>',
        path,
        f"{points[-1][0]:.1f}",
        f"{points[-1][1]:.1f}",
    )


def trend(points: Sequence[tuple[float, float]], width: int = 64, height: int = 20) -> SafeString:
    """Return a sparkline of performance over target, with the target as a dotted line.

    Its last point is red if it is below the target.

    Parameters
    ----------
    points : (seconds before now, <= 0; performance over target), ascending; nothing is
        drawn for fewer than two
    """
    if len(points) < 2:
        return mark_safe("")
    top = max(1.25, min(2.5, max(value for _, value in points) * 1.1))
    first = min(points[0][0], -1.0)
    spots = [
        (
            (1 - at / first) * (width - 4) + 1,
            height - 1 - min(value, top) / top * (height - 2),
        )
        for at, value in points
    ]
    level = height - 1 - (height - 2) / top
    return format_html(
        '<svg viewBox="0 0 {} {}" class="trend plot" aria-hidden="true">'
        '<path d="M0 {}H{}" class="tgt dot"/><path d="M{}" class="ln sa"/>'
        '<circle cx="{}" cy="{}" r="2" class="{}"/></svg>',
        width,
        height,
        f"{level:.1f}",
        width,
        "L".join(f"{x:.1f},{y:.1f}" for x, y in spots),
        f"{spots[-1][0]:.1f}",
        f"{spots[-1][1]:.1f}",
        "fbad" if points[-1][1] < 1 else "fa",
    )


def headroom_bar(points: float) -> SafeString:
    """Return a bar of headroom from -50 to +50 points: blue right, brown left of zero."""
    known = 0.0 if math.isnan(points) else max(-50.0, min(50.0, points))
    width = abs(known) / 50 * 22
    return format_html(
        '<svg class="cellbar" viewBox="0 0 44 8" aria-hidden="true">'
        '<rect width="44" height="8" class="fq"/>'
        '<rect x="{}" width="{}" height="8" class="{}"/><path d="M22 -1v10" class="st"/></svg>',
        f"{22 if known >= 0 else 22 - width:.1f}",
        f"{width:.1f}",
        "fp" if known >= 0 else "fm",
    )


def share_bar(share: float, cls: str = "fa") -> SafeString:
    """Return a share in [0, 1] as a bar of 44 px."""
    known = 0.0 if math.isnan(share) else max(0.0, min(1.0, share))
    return format_html(
        '<svg class="cellbar" viewBox="0 0 44 8" aria-hidden="true">'
        '<rect width="44" height="8" class="fq"/>'
        '<rect width="{}" height="8" class="{}"/></svg>',
        f"{44 * known:.1f}",
        cls,
    )


def confidence_bar(share: float) -> SafeString:
    """Return a probability in [0, 1] as a bar of 60 px; a number always accompanies it."""
    known = 0.0 if math.isnan(share) else max(0.0, min(1.0, share))
    return format_html(
        '<svg class="pbar" viewBox="0 0 60 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect width="60" height="8" class="fq"/>'
        '<rect width="{}" height="8" class="fa"/></svg>',
        f"{60 * known:.1f}",
    )


def source_mark(source: str) -> SafeString:
    """Return the mark of a cell's source; a text always accompanies it."""
    shapes = {
        "measured": '<circle cx="6" cy="6" r="4" class="fa"/>',
        "inferred": '<circle cx="6" cy="6" r="3.5" class="sa hollow"/>',
        "override": '<path d="M6 .5 11.5 6 6 11.5 .5 6z" class="f2 st"/>',
    }
    return format_html(
        '<svg class="srcmark" viewBox="0 0 12 12" aria-hidden="true">{}</svg>',
        mark_safe(shapes[str(source)]),  # noqa: S308 - constants
    )


def stage_bar(parts: Sequence[tuple[str, float]]) -> SafeString:
    """Return a bar of the time before the start, divided into named stages."""
    total = sum(seconds for _, seconds in parts) or 1.0
    shades = {"profiling": "fn", "queue": "fa", "start": "ft"}
    at, bars, names = 0.0, [], []
    for name, seconds in parts:
        width = max(0.4, 100 * seconds / total)
        bars.append(
            format_html(
                '<rect x="{}" width="{}" height="8" class="{}"/>',
                f"{min(at, 99.6):.2f}",
                f"{width:.2f}",
                shades[name],
            )
        )
        names.append(format_html("<span>{} {}</span>", name, formats.duration(seconds)))
        at += 100 * seconds / total
    return format_html(
        '<svg class="stagebar plot" viewBox="0 0 100 8" preserveAspectRatio="none" '
        'aria-hidden="true">{}</svg>'
        '<p class="stage-names">{}</p>',
        mark_safe("".join(bars)),  # noqa: S308 - every part is escaped
        mark_safe("".join(names)),  # noqa: S308 - every part is escaped
    )


def progress(share: float) -> SafeString:
    """Return a progress bar."""
    return format_html(
        '<svg class="stagebar plot" viewBox="0 0 100 8" preserveAspectRatio="none" '
        'role="img" aria-label="{}"><rect width="100" height="8" class="fq"/>'
        '<rect width="{}" height="8" class="fa"/></svg>',
        formats.percent(share, 0),
        f"{100 * max(0.0, min(1.0, share)):.2f}",
    )


def gauge(shown: Gauge) -> SafeString:
    """Return a gauge on an axis in the target's unit, with the headroom to the target."""
    x = {name: _gauge_x(getattr(shown, name)) for name in ("target", "value", "predicted")}
    missed = (x["target"], 392.0) if not shown.is_rate else (8.0, x["target"])
    parts = [
        _gauge_bar(8.0, 392.0, "fq"),
        _gauge_bar(*missed, "fbad wash"),
        *_measured(shown, x["value"], x["target"]),
        format_html('<path d="M{} 22v30" class="tgt"/>', f"{x['target']:.1f}"),
        format_html(
            '<text x="{}" y="16" class="mid strong">target {}</text>',
            f"{min(330.0, max(70.0, x['target'])):.1f}",
            shown.target_text,
        ),
        *_predicted_mark(shown, x["predicted"]),
        *(_gauge_tick(at, text) for at, text in shown.ticks),
    ]
    words = [shown.value_text or "not measured yet", f"target {shown.target_text}", shown.headroom]
    return format_html(
        '<svg class="gaugebar plot" viewBox="0 0 400 92" role="img" aria-label="{}">{}</svg>',
        "; ".join(word for word in words if word),
        mark_safe("".join(parts)),  # noqa: S308 - every part is escaped
    )


def _gauge_x(share: float | None) -> float:
    return math.nan if share is None else 8.0 + 384.0 * share


def _gauge_bar(left: float, right: float, cls: str) -> SafeString:
    return format_html(
        '<rect x="{}" y="30" width="{}" height="14" class="{}"/>',
        f"{left:.1f}",
        f"{max(0.0, right - left):.1f}",
        cls,
    )


def _measured(shown: Gauge, x: float, target: float) -> list[SafeString]:
    """Return the bar of the measurement, and the distance from it to the target."""
    if math.isnan(x):
        return []
    tone = "fp" if shown.meets else "fbad"
    distance = format_html(
        '<rect x="{}" y="47" width="{}" height="4" class="{}"/>',
        f"{min(x, target):.1f}",
        f"{abs(target - x):.1f}",
        tone,
    )
    bar = format_html('<rect x="8" y="34" width="{}" height="6" class="fa"/>', f"{x - 8:.1f}")
    arrow = '<path d="M400 37l-10 -9v18z" class="fa"/>' if shown.is_beyond else ""
    return [bar, distance, mark_safe(arrow)]  # noqa: S308 - a constant


def _predicted_mark(shown: Gauge, x: float) -> list[SafeString]:
    """Return the prediction as a triangle with its interval."""
    if math.isnan(x):
        return []
    low, high = _gauge_x(shown.low), _gauge_x(shown.high)
    whisker = (
        format_html('<path d="M{} 57H{}" class="sn"/>', f"{low:.1f}", f"{high:.1f}")
        if not (math.isnan(low) or math.isnan(high))
        else mark_safe("")
    )
    mark = format_html(
        '<path d="M{} 62h8l-4,-8z" class="fn"/><text x="{}" y="66" class="{}">{}</text>',
        f"{x - 4:.1f}",
        f"{x + 8 if x < 300.0 else x - 8:.1f}",
        "dim" if x < 300.0 else "end dim",
        f"predicted {shown.predicted_text} ▸" if shown.is_predicted_beyond else "predicted",
    )
    return [whisker, mark]


def _gauge_tick(share: float, text: str) -> SafeString:
    cls = "dim" if share == 0.0 else "end dim" if share > 0.95 else "mid dim"
    x = _gauge_x(share)
    return format_html(
        '<path d="M{} 68v4" class="sn"/><text x="{}" y="84" class="{}">{}</text>',
        f"{x:.1f}",
        f"{x:.1f}",
        cls,
        text,
    )
