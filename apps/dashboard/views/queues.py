"""The Queues page: why jobs wait, their predicted starts, and how accurate these were."""

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.dashboard.core.admission_panel import admission_panel
from apps.dashboard.core.queue_rows import QueueFilter, queue_page
from apps.dashboard.selectors.preemptions import decided_rows, proposed_rows
from apps.dashboard.views.access import has_role, page, projects_of
from apps.inventory.selectors import cluster_now
from apps.scheduling.selectors.fair_share import share_rows
from apps.scheduling.selectors.quotas import quota_rows
from apps.scheduling.selectors.reserved import reservation_rows
from apps.scheduling.selectors.waits import (
    admission_now,
    start_scores,
    waiting_counts,
    waiting_jobs,
)
from apps.testbed.selectors.replay import one_snapshot

MAX_RESERVATIONS: Final = 100  # rows


@page
def queues(request: HttpRequest) -> HttpResponse:
    """Show the waiting jobs that the user may see."""
    projects, now_s = projects_of(request), cluster_now()
    by = QueueFilter(*(request.GET.get(name, "") for name in ("project", "reason", "shape")))
    with one_snapshot():
        jobs = waiting_jobs(projects, project=by.project or None, reason=by.reason or None)
        counts, scores = waiting_counts(projects), start_scores(projects, now_s=now_s)
    shown = queue_page(jobs, counts, scores, by, now_s=now_s)
    admission = admission_panel(admission_now())
    quotas = quota_rows(projects)
    context = {"queue": shown, "by": by, "admission": admission, "quotas": quotas}
    context["shares"] = share_rows(projects)
    reserved = reservation_rows(projects)
    context |= {
        "reservations": reserved[:MAX_RESERVATIONS],
        "all_reservations": len(reserved),
        "hidden_reservations": max(0, len(reserved) - MAX_RESERVATIONS),
        "reserved_units": sum(row.units for row in reserved),
    }
    is_operator = has_role(request, Role.OPERATOR)
    context["manages_all"] = is_operator
    context["preemptions"] = proposed_rows() if is_operator else []
    context["decided_preemptions"] = decided_rows() if is_operator else []
    return render(request, "dashboard/queues.html", context)
