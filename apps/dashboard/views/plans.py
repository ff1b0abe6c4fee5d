"""Plans: what would move, what moves, what came of it."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.common.core.errors import NotFoundError
from apps.dashboard.selectors import plan as one
from apps.dashboard.selectors import plans as read
from apps.dashboard.views.access import has_role, page
from apps.dashboard.views.lists import asked_page
from apps.placement.models import PlanState
from apps.placement.selectors import plans as rows


@page
def plans(request: HttpRequest) -> HttpResponse:
    """One page of plans, how the loop is set, and what moves to and fro."""
    if not has_role(request, Role.OPERATOR):
        return _for_operators(request)
    state = request.GET.get("state", "")
    state = state if state in PlanState.values else ""
    (found, listed), is_stale = asked_page(
        request, lambda at: read.plans_page(cursor=at, state=state)
    )
    return render(
        request,
        "dashboard/plans.html",
        {
            "page": found,
            "plans": listed,
            "state": state,
            "counts": read.counts(),
            "loop": read.loop_state(),
            "thrash": read.thrash(),
            "stale_cursor": is_stale,
        },
    )


@page
def plan(request: HttpRequest, key: str) -> HttpResponse:
    """One plan.

    Raises
    ------
    Http404 : there is no such plan.
    """
    if not has_role(request, Role.OPERATOR):
        return _for_operators(request)
    try:
        found = rows.plan_by(key)
    except NotFoundError as error:
        raise Http404(str(error)) from error
    moves = list(rows.moves_of(found.pk))
    return render(
        request,
        "dashboard/plan.html",
        {
            "plan": found,
            "plan_query": f"?plan={found}",
            "standing": one.standing(found, moves),
            "effects": one.effects(found),
            "stakes": one.stakes(found),
            "bundles": one.bundles(moves),
            "blast": one.blast(moves),
            "weights": read.weights_text(found.weights),
            "jobs": found.predicted.get("jobs", []),
            "reversed_by": found.reversed_by.order_by("number").last(),
            "settings": rows.loop(),
        },
    )


def _for_operators(request: HttpRequest) -> HttpResponse:
    """Say who may see plans: they name the jobs of every project."""
    return render(request, "dashboard/plans_closed.html", status=403)
