"""Template filters and tags: formatted numbers, icons and states."""

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
from apps.dashboard.selectors.shell import Shell, shell_of
from apps.dashboard.templatetags import drawings
from apps.workloads.core.lifecycle import Suspension

register = template.Library()

register.filter("thousands", lambda value, digits=0: formats.thousands(_float(value), digits))
register.filter("significant", lambda value, digits=3: formats.significant(_float(value), digits))
register.filter("trimmed", lambda value: formats.trimmed(_float(value)))
register.filter("signed", lambda value, digits=0: formats.signed(_float(value), digits))
register.filter("percent", lambda value, digits=1: formats.percent(_float(value), digits))
register.filter("duration", lambda value: formats.duration(_float(value)))
register.filter("byte_size", lambda value: formats.byte_size(_float(value)))
register.filter("operation_text", labels.operation_text)
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

for drawn in (
    drawings.spark,
    drawings.trend,
    drawings.headroom_bar,
    drawings.share_bar,
    drawings.confidence_bar,
    drawings.source_mark,
    drawings.stage_bar,
    drawings.progress,
    drawings.gauge,
):
    register.simple_tag(drawn)

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
    "suspending": "st-held",
    "suspended": "st-held",
    "resuming": "st-starting",
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
def state(
    value: str, held: bool = False, attainment: float | None = None, suspension: str = ""
) -> SafeString:
    """Return a state as icon and text; the icon of a job below its target is not green."""
    shown = "held" if held and value in {"submitted", "profiling", "queued"} else value
    if suspension:
        shown = "suspending" if suspension == Suspension.REQUESTED else suspension
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
