"""The Jobs list and one job."""

import json
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.dashboard.core.job_query import parse
from apps.dashboard.selectors import decisions, explanation, job_facts
from apps.dashboard.selectors import jobs as read
from apps.dashboard.views.access import has_role, jobs_seen_by, page
from apps.dashboard.views.lists import asked_page
from apps.inventory.selectors import cluster_now
from apps.workloads.core.lifecycle import TERMINAL_STATES

TABS = {
    "why": "Why",
    "performance": "Performance",
    "allocation": "Allocation",
    "events": "Events",
    "spec": "Spec",
    "api": "API",
}


@page
def jobs(request: HttpRequest) -> HttpResponse:
    """One page of the list."""
    text = request.GET.get("q", "").strip()
    query = parse(text)
    seen = jobs_seen_by(request)
    rows, is_stale = asked_page(request, lambda at: read.jobs_page(seen, query, cursor=at))
    return render(
        request,
        "dashboard/jobs.html",
        {
            "q": text,
            "query": query,
            "page": rows,
            "rows": job_facts.job_rows(rows.rows, now_s=cluster_now()),
            "facets": read.facets(seen, text, query, viewer=str(request.user.pk)),
            "totals": job_facts.totals(seen),
            "stale_cursor": is_stale,
            "may_cancel": has_role(request, Role.SUBMITTER),
        },
    )


@page
def preview(request: HttpRequest) -> HttpResponse:
    """Return what a bulk cancel of everything that matches would touch.

    Counts by state and the ids, at most 500.
    """
    query = parse(request.GET.get("q", ""))
    if query.problems:
        return JsonResponse({"problems": query.problems}, status=400)
    return JsonResponse(job_facts.cancel_preview(jobs_seen_by(request), query))


@page
def job(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """One job; the tab in the address says which part."""
    found = read.job(jobs_seen_by(request), job_id)
    tab = request.GET.get("tab", "why")
    tab = tab if tab in TABS else "why"
    now_s = cluster_now()
    context: dict[str, Any] = {
        "job": found,
        "tab": tab,
        "tabs": TABS.items(),
        "tab_template": f"dashboard/tabs/{tab}.html",
        "job_key": str(found.id),
        "stages": read.way(found, now_s=now_s),
        "facts": job_facts.job_facts(found, now_s=now_s),
        "ended": found.state in TERMINAL_STATES,
        "may_change": has_role(request, Role.SUBMITTER),
        **_tab(request, tab, found),
    }
    return render(request, "dashboard/job.html", context)


def _tab(request: HttpRequest, tab: str, found: Any) -> dict[str, Any]:
    """Return what one tab needs and nothing more."""
    if tab == "why":
        known = decisions.decisions_of(found)
        asked = request.GET.get("decision", "")
        shown = next((d for d in known if str(d.id) == asked), known[0] if known else None)
        return {
            "decisions": known,
            "why": explanation.explanation(shown) if shown is not None else None,
            "waiting": job_facts.waiting_reason(found),
        }
    if tab == "allocation":
        return {"allocations": job_facts.allocation_rows(found), "launches": read.launches(found)}
    if tab == "events":
        return {"events": read.events(found)}
    if tab in {"spec", "api"}:
        spec = job_facts.spec_of(found)
        host = request.build_absolute_uri("/").rstrip("/")
        return {
            "spec": json.dumps(spec, indent=2),
            "calls": job_facts.api_calls(found, spec, host=host),
        }
    return {}
