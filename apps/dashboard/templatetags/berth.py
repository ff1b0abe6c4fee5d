"""Template filters and tags: formatted numbers, icons, states and small charts."""

import math
import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django import template
from django.conf import settings
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from apps.dashboard import files
from apps.dashboard.core import formats, labels
from apps.dashboard.core.gauge import Gauge
from apps.dashboard.selectors.shell import Shell, shell_of

register = template.Library()

register.filter("thousands", lambda value, digits=0: formats.thousands(_float(value), digits))
register.filter("significant", lambda value, digits=3: formats.significant(_float(value), digits))
register.filter("trimmed", lambda value: formats.trimmed(_float(value)))
register.filter("signed", lambda value, digits=0: formats.signed(_float(value), digits))
register.filter("percent", lambda value, digits=1: formats.percent(_float(value), digits))
register.filter("duration", lambda value: formats.duration(_float(value)))
register.filter("byte_size", lambda value: formats.byte_size(_float(value)))
register.filter("reason_text", labels.reason_text)
register.filter("command_line", shlex.join)
register.filter("target_text", formats.target_text)
register.filter("short_id", lambda value: str(value)[:13])
register.filter("ago_text", lambda at: formats.ago(at, now=timezone.now()))
register.filter("cluster_rate", lambda value: formats.cluster_rate(_float(value)))
register.filter("cluster_time", lambda value: _cluster_time(value, seconds=True))
register.filter("cluster_day", lambda value: _cluster_time(value, seconds=False))
register.filter("wall_time", lambda at: _wall_time(at, formats.wall_time(at, now=timezone.now())))
register.filter("wall_stamp", lambda at: _wall_time(at, formats.wall_stamp(at)))
register.filter("ago", lambda at: _wall_time(at, formats.ago(at, now=timezone.now())))

STATE_ICONS = {
    "submitted": "st-submitted",
    "profiling": "st-profiling",
    "queued": "st-queued",
    "starting": "st-starting",
    "running": "st-running",
    "succeeded": "st-done",
    "failed": "st-failed",
    "cancelled": "st-cancelled",
    "held": "st-held",
    "active": "st-running",
    "cordoned": "st-held",
    "draining": "st-queued",
    "down": "st-failed",
    "proposed": "st-submitted",
    "approved": "st-starting",
    "paused": "st-held",
    "done": "st-done",
    "partly done": "tri",
    "superseded": "undo",
    "waiting": "st-queued",
    "moving": "st-running",
    "skipped": "circ",
}


@register.simple_tag(takes_context=True)
def shell(context: template.Context) -> Shell:
    """Return the frame of every page."""
    return shell_of(context["request"])


@register.simple_tag(takes_context=True)
def preload_figure(context: template.Context, name: str) -> SafeString:
    """Return a link by which the browser requests a figure before the scripts of the page run.

    The script of the charts requests the same address, and gets this answer.
    """
    asked = context["request"].GET
    query = urlencode([(key, asked[key]) for key in ("range", "at") if key in asked])
    address = reverse("figure", args=[name]) + (f"?{query}" if query else "")
    return format_html(
        '<link rel="preload" as="fetch" crossorigin="anonymous" href="{}">', address
    )


@register.simple_tag(takes_context=True)
def preload_modules(context: template.Context) -> SafeString:
    """Return links by which the browser requests all modules of the page at once.

    Modules import each other by file names, so their addresses have no digest.
    """
    request = context["request"]
    match = request.resolver_match
    signed_in = request.user.is_authenticated
    page = (match.url_name if match is not None else None) or ""
    return format_html_join(
        "",
        '<link rel="modulepreload" href="{}berth/js/{}">',
        [(settings.STATIC_URL, path) for path in files.modules_of(page if signed_in else None)],
    )


@register.simple_tag
def icon(name: str, cls: str = "ic") -> SafeString:
    """Return an icon, hidden from screen readers as a text always accompanies it."""
    return format_html('<svg class="{}" aria-hidden="true"><use href="#i-{}"/></svg>', cls, name)


@register.simple_tag
def state(value: str, held: bool = False, attainment: float | None = None) -> SafeString:
    """Return a state as icon and text; the icon of a job below its target is not green."""
    shown = "held" if held and value in {"submitted", "profiling", "queued"} else value
    below = mark_safe(' data-below title="below target"') if _is_below(attainment) else ""
    return format_html(
        '<span class="state" data-s="{}"{}>{}{}</span>',
        shown,
        below,
        icon(STATE_ICONS.get(shown, "circ")),
        shown.capitalize(),
    )


@register.simple_tag
def over_target(attainment: float | None) -> SafeString:
    """Return performance over target, with a mark if it is below 1; a dash without one."""
    ratio = _float(attainment)
    if math.isnan(ratio):
        return mark_safe('<span class="t3">–</span>')
    if _is_below(ratio):
        return format_html(
            '<span class="ratio bad">{}<span class="sr">below target: </span>{}</span>',
            icon("trib", "ic ic-s"),
            formats.over_target(ratio),
        )
    return format_html('<span class="ratio ok">{}</span>', formats.over_target(ratio))


def _is_below(attainment: float | None) -> bool:
    return _float(attainment) < 1


@register.simple_tag
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


@register.simple_tag
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
        "fbad" if _is_below(points[-1][1]) else "fa",
    )


@register.simple_tag
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


@register.simple_tag
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


@register.simple_tag
def confidence_bar(share: float) -> SafeString:
    """Return a probability in [0, 1] as a bar of 60 px; a number always accompanies it."""
    known = 0.0 if math.isnan(share) else max(0.0, min(1.0, share))
    return format_html(
        '<svg class="pbar" viewBox="0 0 60 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect width="60" height="8" class="fq"/>'
        '<rect width="{}" height="8" class="fa"/></svg>',
        f"{60 * known:.1f}",
    )


@register.simple_tag
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


@register.simple_tag(takes_context=True)
def query(context: template.Context, **changes: Any) -> str:
    """Return the query string of the page with changes; an empty value removes its key."""
    values = context["request"].GET.copy()
    for name, value in changes.items():
        if value in ("", None):
            values.pop(name, None)
        else:
            values[name] = str(value)
    return f"?{values.urlencode()}" if values else "?"


@register.filter
def bolded(sentences: Sequence[str]) -> SafeString:
    """Join sentences to a paragraph; text between ``**`` is bold."""
    parts = formats.unbroken(" ".join(sentences)).split("**")
    return mark_safe(  # noqa: S308 - every part is escaped
        "".join(f"<b>{escape(p)}</b>" if i % 2 else escape(p) for i, p in enumerate(parts))
    )


def _cluster_time(value: Any, *, seconds: bool) -> SafeString:
    """Return a cluster time marked as one; a dash if it is not known."""
    cluster_s = _float(value)
    if math.isnan(cluster_s):
        return mark_safe("–")
    return format_html(
        '<time data-clock="cluster" title="cluster time">{}</time>',
        formats.cluster_day(cluster_s, seconds=seconds),
    )


def _wall_time(at: datetime, text: str) -> SafeString:
    """Return a wall time marked as one, with its full date on hover."""
    return format_html(
        '<time data-clock="wall" datetime="{}" title="wall time {}">{}</time>',
        at.isoformat(),
        formats.wall_stamp(at),
        text,
    )


def _float(value: Any) -> float:
    return math.nan if value is None or value == "" else float(value)


@register.simple_tag
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


@register.simple_tag
def progress(share: float) -> SafeString:
    """Return a progress bar."""
    return format_html(
        '<svg class="stagebar plot" viewBox="0 0 100 8" preserveAspectRatio="none" '
        'role="img" aria-label="{}"><rect width="100" height="8" class="fq"/>'
        '<rect width="{}" height="8" class="fa"/></svg>',
        formats.percent(share, 0),
        f"{100 * max(0.0, min(1.0, share)):.2f}",
    )


@register.simple_tag
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
    arrow = '<path d="M392 37l-7 -5v10z" class="fa"/>' if shown.is_beyond else ""
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
        '<path d="M{} 62h8l-4,-8z" class="fn"/><text x="{}" y="66" class="{}">predicted</text>',
        f"{x - 4:.1f}",
        f"{x + 8 if x < 300.0 else x - 8:.1f}",
        "dim" if x < 300.0 else "end dim",
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


@register.simple_tag
def term(word: str, shown: str = "") -> SafeString:
    """Return a word that explains itself on hover, focus and touch.

    Parameters
    ----------
    word : entry of ``docs/glossary.md``
    shown : text on the page; the word itself by default

    Raises
    ------
    KeyError : the glossary has no such entry.
    """
    meaning = files.glossary()[word.lower()]
    return format_html(
        '<dfn class="term" tabindex="0" aria-description="{}">{}</dfn>', meaning, shown or word
    )
