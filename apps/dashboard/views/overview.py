"""The Overview: what is the cluster doing right now."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from apps.dashboard.core.ranges import LABELS
from apps.dashboard.selectors.attention import needs_attention
from apps.dashboard.selectors.overview import summary
from apps.dashboard.views.access import asked_range, jobs_seen_by, page


@page
def overview(request: HttpRequest) -> HttpResponse:
    """Return the page; its charts are asked for one by one."""
    span = asked_range(request)
    return render(
        request,
        "dashboard/overview.html",
        {
            "summary": summary(span),
            "attention": needs_attention(jobs_seen_by(request), now=timezone.now()),
            "range": span,
            "ranges": LABELS.items(),
        },
    )
