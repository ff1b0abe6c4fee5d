"""Template tags of the Queues page."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.dashboard.core import formats, labels

register = template.Library()
register.filter("class_text", labels.class_text)


@register.simple_tag
def start_range(
    name: str, start_s: float | None, latest_s: float | None, end_s: float
) -> SafeString:
    """Return a start estimate on an axis to ``end_s``: tick at the p50, bar to the p90."""
    if start_s is None:
        return SafeString("")
    at = 1.0 + 96.0 * min(1.0, start_s / end_s)
    to = 97.0 if latest_s is None else 1.0 + 96.0 * min(1.0, latest_s / end_s)
    words = f"{name}: starts in {formats.duration(start_s)}"
    if latest_s is not None:
        words += f", by {formats.duration(latest_s)} with 90 %"
    return format_html(
        '<svg class="rng" viewBox="0 0 98 32" preserveAspectRatio="none" role="img" '
        'aria-label="{}"><path d="M1 0v32" class="axis"/>'
        '<path d="M25 0v32M49 0v32M73 0v32M97 0v32" class="grid"/>'
        '<rect x="{}" y="13" width="{}" height="6" class="fn2"/>'
        '<path d="M{} 10v12" class="p50"/></svg>',
        words,
        f"{at:.1f}",
        f"{max(1.5, to - at):.1f}",
        f"{at:.1f}",
    )
