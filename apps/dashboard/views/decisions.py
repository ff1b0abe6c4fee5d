"""The decision log, one decision, and sample quality."""

import json
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.dashboard.core.decision_query import parse
from apps.dashboard.core.ranges import LABELS, RANGES_S
from apps.dashboard.selectors import decisions as selectors
from apps.dashboard.selectors import sampling as ranks
from apps.dashboard.selectors.explanation import explanation
from apps.dashboard.views.access import has_role, page, requested_range, visible_to
from apps.dashboard.views.lists import requested_page
from apps.scheduling.core.registry import POLICIES
from apps.scheduling.models import Outcome
from apps.scheduling.selectors import target_of
from apps.testbed.selectors.sampling_checks import (
    SAMPLE_SIZES,
    last_sampling_check,
    open_sampling_check,
)

OUTCOMES = [(str(value), str(value)) for value in Outcome.values]


# the number of a target that can be changed on the page of a decision
_TARGETS = {
    "completion_time": {"target_key": "seconds", "target_words": "seconds"},
    "throughput_latency": {"target_key": "qps", "target_words": "queries per second"},
    "ips": {"target_key": "ips", "target_words": "instructions per second"},
}


@page
def decisions(request: HttpRequest) -> HttpResponse:
    """Show one page of the log."""
    visible = visible_to(request)
    outcome = request.GET.get("outcome", "")
    outcome = outcome if outcome in Outcome.values else ""
    span = requested_range(request.GET)
    at_s = span.last_s if span.is_past else None
    made = selectors.Span(span.first_s if request.GET.get("range") in RANGES_S else None, at_s)
    query = parse(request.GET.get("q", ""))
    rows, is_stale = requested_page(
        request,
        lambda cursor: selectors.decisions_page(
            visible, cursor=cursor, outcome=outcome, query=query, span=made
        ),
    )
    is_first = not outcome and not request.GET.get("cursor")
    return render(
        request,
        "dashboard/decisions.html",
        {
            "page": rows,
            "outcome": outcome,
            "outcomes": OUTCOMES,
            "q": request.GET.get("q", ""),
            "query": query,
            "ranges": LABELS.items(),
            "range": span.name if made.from_s is not None else "",
            "unplaced": selectors.unplaced(visible, query=query, span=made) if is_first else (),
            "is_filtered": bool(outcome or request.GET.get("q") or made.from_s is not None),
            "summary": selectors.log_summary(visible, at_s=at_s),
            "at_s": at_s,
            "stale_cursor": is_stale,
            "is_operator": has_role(request, Role.OPERATOR),
        },
    )


@page
def decision(request: HttpRequest, decision_id: UUID) -> HttpResponse:
    """Show one decision with its explanation.

    Parameters of the address: ``policy`` and ``weights`` decide it again when the page opens.
    """
    tried = request.GET.get("policy", "")
    shown = selectors.decision_by_id(visible_to(request), decision_id)
    target = target_of(shown)
    return render(
        request,
        "dashboard/decision.html",
        {
            "decision": shown,
            "job": shown.job,
            "why": explanation(shown),
            "policies": sorted(POLICIES),
            "tried": tried if tried in POLICIES else "",
            "weights": request.GET.get("weights", ""),
            "max_sample": settings.MAX_SAMPLE,
            "target_json": json.dumps(target),
            **_TARGETS.get(target["kind"], {}),
        },
    )


@page
def sampling(request: HttpRequest) -> HttpResponse:
    """Compare measured ranks to the promise for three sample sizes, offline and live."""
    summary, operation = ranks.sampling_summary(), open_sampling_check()
    return render(
        request,
        "dashboard/sampling.html",
        {
            "sizes": SAMPLE_SIZES,
            "summary": summary,
            "is_measured": all(row.checked.samples for row in summary),
            "operation": operation,
            "operation_share": (operation.progress / (operation.total or 1)) if operation else 0.0,
            "last": last_sampling_check(),
            "may_run": has_role(request, Role.OPERATOR),
        },
    )
