"""The decision log, one decision, and how good the samples are."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.dashboard.selectors import decisions as read
from apps.dashboard.selectors import sampling as ranks
from apps.dashboard.selectors.explanation import explanation
from apps.dashboard.views.access import jobs_seen_by, page
from apps.dashboard.views.lists import asked_page
from apps.scheduling.models import Outcome

OUTCOMES = [(str(value), str(value)) for value in Outcome.values]


@page
def decisions(request: HttpRequest) -> HttpResponse:
    """One page of the log."""
    seen = jobs_seen_by(request)
    outcome = request.GET.get("outcome", "")
    outcome = outcome if outcome in Outcome.values else ""
    rows, is_stale = asked_page(
        request, lambda at: read.decisions_page(seen, cursor=at, outcome=outcome)
    )
    return render(
        request,
        "dashboard/decisions.html",
        {
            "page": rows,
            "outcome": outcome,
            "outcomes": OUTCOMES,
            "summary": read.log_summary(),
            "stale_cursor": is_stale,
        },
    )


@page
def decision(request: HttpRequest, decision_id: UUID) -> HttpResponse:
    """One decision with all it knew."""
    found = read.decision(jobs_seen_by(request), decision_id)
    return render(
        request,
        "dashboard/decision.html",
        {"decision": found, "job": found.job, "why": explanation(found)},
    )


@page
def sampling(request: HttpRequest) -> HttpResponse:
    """Measured rank against the promise, for three sample sizes, offline and live."""
    return render(
        request,
        "dashboard/sampling.html",
        {"sizes": ranks.SAMPLE_SIZES, "summary": ranks.sampling_summary()},
    )
