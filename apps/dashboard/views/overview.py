"""The Overview: the current state of the cluster."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.common.infrastructure.database import database_now
from apps.dashboard.core.ranges import LABELS
from apps.dashboard.selectors.attention import needs_attention
from apps.dashboard.selectors.overview import summary
from apps.dashboard.views.access import caller, page, projects_of, requested_range


@page
def overview(request: HttpRequest) -> HttpResponse:
    """Show the Overview; the page fetches its charts."""
    span = requested_range(request.GET)
    return render(
        request,
        "dashboard/overview.html",
        {
            "summary": summary(span),
            "attention": None
            if span.is_past
            else needs_attention(caller(request), now=database_now()),
            "range": span,
            "ranges": LABELS.items(),
            "sees_all_jobs": projects_of(request) is None,
        },
    )
