"""The Jobs list and one job."""

import json
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.dashboard.core.job_query import parse
from apps.dashboard.selectors import decisions, explanation, job_facts, misses
from apps.dashboard.selectors import jobs as selectors
from apps.dashboard.selectors.job_facets import job_facets
from apps.dashboard.selectors.preemptions import proposal_for
from apps.dashboard.views.access import has_role, page, projects_of, visible_to
from apps.dashboard.views.lists import requested_page
from apps.execution.models import OutputStream, PreemptionProposal
from apps.execution.selectors.agents import output_tail
from apps.inventory.selectors import cluster_now
from apps.scheduling.models import Decision
from apps.scheduling.selectors import current_decision, is_repeated
from apps.workloads.core.lifecycle import TERMINAL_STATES, JobState
from apps.workloads.models import Job
from apps.workloads.selectors import job_counts, submission_of

TABS = {
    "explain": "Explain",
    "why": "Why",
    "logs": "Logs",
    "performance": "Performance",
    "allocation": "Allocation",
    "events": "Events",
    "spec": "Spec",
    "api": "API",
}

SHOWN_OUTPUT = 1 << 16  # bytes of each stream


@page
def jobs(request: HttpRequest) -> HttpResponse:
    """Show one page of the Jobs list."""
    text = request.GET.get("q", "").strip()
    query = parse(text)
    visible = visible_to(request)
    projects = projects_of(request)
    counts = job_counts(projects)
    found = job_facets(visible, projects, text, query, counts)
    rows, is_stale = requested_page(
        request,
        lambda at: selectors.jobs_page(visible, query, cursor=at, matches=found.matches),
    )
    return render(
        request,
        "dashboard/jobs.html",
        {
            "q": text,
            "query": query,
            "page": rows,
            "rows": job_facts.job_rows(rows.rows, now_s=cluster_now()),
            "facets": found.facets,
            "totals": job_facts.totals(counts),
            "stale_cursor": is_stale,
            "may_cancel": has_role(request, Role.SUBMITTER),
        },
    )


@page
def preview(request: HttpRequest) -> HttpResponse:
    """Return the jobs that a bulk cancel would cancel: counts by state, at most 500 ids."""
    query = parse(request.GET.get("q", ""))
    if query.problems:
        return JsonResponse({"problems": query.problems}, status=400)
    return JsonResponse(job_facts.cancel_preview(visible_to(request), query))


@page
def job(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Show one job, on the tab named in the address."""
    shown_job = selectors.job_by_id(visible_to(request), job_id)
    tab = request.GET.get("tab", "")
    # only a job with a command writes output
    tabs = {key: name for key, name in TABS.items() if key != "logs" or shown_job.program}
    if tab not in tabs:
        tab = "explain" if misses.is_below(shown_job) else "why"
    now_s = cluster_now()
    context: dict[str, Any] = {
        "job": shown_job,
        "tab": tab,
        "tabs": tabs.items(),
        "tab_template": f"dashboard/tabs/{tab}.html",
        "job_key": str(shown_job.id),
        "stages": selectors.stages(shown_job, now_s=now_s),
        "facts": job_facts.job_header(shown_job, now_s=now_s),
        "ended": shown_job.state in TERMINAL_STATES,
        "suspend_action": job_facts.suspend_action(shown_job),
        "may_change": has_role(request, Role.SUBMITTER),
        "manages_all": has_role(request, Role.OPERATOR),
        "proposal": _proposal(request, shown_job),
        **_tab(request, tab, shown_job),
    }
    return render(request, "dashboard/job.html", context)


def _proposal(request: HttpRequest, shown_job: Job) -> PreemptionProposal | None:
    """Return the proposed preemption of a waiting job, for operators."""
    if shown_job.state != JobState.QUEUED or not has_role(request, Role.OPERATOR):
        return None
    return proposal_for(shown_job.id)


def _tab(request: HttpRequest, tab: str, shown_job: Any) -> dict[str, Any]:
    """Return the data of one tab."""
    if tab == "explain":
        at = request.GET.get("at", "")
        return {"explained": misses.explained(shown_job, visible_to(request), at=at)}
    if tab == "why":
        known = decisions.decisions_of(shown_job)
        requested = request.GET.get("decision", "")
        chosen = next((d for d in known if str(d.id) == requested), None)
        shown = chosen or current_decision(shown_job)
        return {
            "decisions": known,
            "why": explanation.explanation(shown, shown_job) if shown is not None else None,
            "is_repeated": shown is not None and is_repeated(shown_job, shown),
            "waiting": job_facts.waiting_reason(shown_job),
            "tab_version": _why_version(shown_job, shown, len(known)),
        }
    if tab in {"spec", "api"}:
        spec = submission_of(shown_job)
        host = request.build_absolute_uri("/").rstrip("/")
        return {
            "spec": json.dumps(spec, indent=2),
            "calls": job_facts.api_calls(shown_job, spec, host=host),
        }
    return _records(tab, shown_job)


def _records(tab: str, shown_job: Any) -> dict[str, Any]:
    """Return what was recorded of a job: its allocations, events or output."""
    if tab == "allocation":
        return {
            "allocations": job_facts.allocation_rows(shown_job),
            "launches": selectors.launches(shown_job),
        }
    if tab == "events":
        return {
            "events": selectors.events(shown_job),
            "kept_days": selectors.events_kept(shown_job),
        }
    if tab == "logs":
        streams = OutputStream.values
        return {"streams": [(s, output_tail(shown_job, s, limit=SHOWN_OUTPUT)) for s in streams]}
    return {}


def _why_version(job: Job, shown: Decision | None, decisions: int) -> str:
    """Return a text that changes when the Why tab does; open pages then replace the tab."""
    if shown is not None:
        also = " ".join(job.reason_also)
        return f"{shown.id} {decisions} {is_repeated(job, shown):d} {also}"
    return f"{job.state} {job.held} {job.reason_code} {job.reason_message}"
