"""Migration plans: proposed, running and ended."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.common.core.errors import NotFoundError
from apps.dashboard.selectors import plan as details
from apps.dashboard.selectors import plans as listing
from apps.dashboard.selectors.plan_changes import rebase_summary
from apps.dashboard.views.access import has_role, page
from apps.dashboard.views.lists import requested_page
from apps.placement.core.rebalancing.lifecycle import PlanState
from apps.placement.selectors import plans as placement_plans


@page
def plans(request: HttpRequest) -> HttpResponse:
    """Show one page of plans, the settings of the loop, and thrashing jobs."""
    if not has_role(request, Role.OPERATOR):
        return _for_operators(request)
    state = request.GET.get("state", "")
    state = state if state in list(PlanState) else ""
    (found, listed), is_stale = requested_page(
        request, lambda at: listing.plans_page(cursor=at, state=state)
    )
    return render(
        request,
        "dashboard/plans.html",
        {
            "page": found,
            "plans": listed,
            "state": state,
            "counts": listing.counts(),
            "loop": listing.loop_state(),
            "thrash": listing.thrash(),
            "stale_cursor": is_stale,
        },
    )


@page
def plan(request: HttpRequest, key: str) -> HttpResponse:
    """Show one plan.

    Raises
    ------
    Http404 : there is no such plan.
    """
    if not has_role(request, Role.OPERATOR):
        return _for_operators(request)
    try:
        found = placement_plans.plan_by_key(key)
    except NotFoundError as error:
        raise Http404(str(error)) from error
    moves = list(placement_plans.migrations_of(found.pk))
    return render(
        request,
        "dashboard/plan.html",
        {
            "plan": found,
            "plan_query": f"?plan={found}",
            "status": details.plan_status(found, moves),
            "effects": details.effects(found),
            "approval": details.approval_summary(found),
            "bundles": details.bundles(found, moves),
            "rebase": rebase_summary(found),
            "impact": details.impact(moves),
            "weights": listing.weights_text(found.weights),
            "jobs": found.predicted.get("jobs", []),
            "reversed_by": found.reversed_by.order_by("number").last(),
            "settings": placement_plans.loop_settings(),
        },
    )


def _for_operators(request: HttpRequest) -> HttpResponse:
    """Explain that only operators may see plans: they name jobs of all projects."""
    return render(request, "dashboard/plans_closed.html", status=403)
