"""Shadow policies: their list, and what one of them has found."""

from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.common.core.errors import NotFoundError
from apps.dashboard.core.shadow_text import finding, groups
from apps.dashboard.selectors import shadows as selectors
from apps.dashboard.views.access import has_role, page, visible_to
from apps.scheduling.core.registry import POLICIES, chosen_parameters
from apps.scheduling.selectors.default_policy import policy_in_use
from apps.scheduling.selectors.shadows import (
    MAX_COMPARED,
    running_shadows,
    shadow_by_id,
    shadow_result,
)


@page
def shadows(request: HttpRequest) -> HttpResponse:
    """List the shadow policies, and offer to start one; ``?policy=`` chooses which."""
    if not has_role(request, Role.OPERATOR):
        return _for_operators(request)
    return render(
        request,
        "dashboard/shadows.html",
        {
            "shadows": selectors.listed_shadows(),
            "running": len(running_shadows()),
            "most": settings.MAX_SHADOWS,
            "cpu": settings.SHADOW_CPU,
            "max_percent": f"{100 * settings.MAX_SHADOW_SHARE:g}",
            "policies": [
                (name, chosen_parameters(POLICIES[name].parameters)) for name in sorted(POLICIES)
            ],
            "in_use": policy_in_use(),
            "chosen": request.GET.get("policy", "random"),
            "limit": MAX_COMPARED,
        },
    )


@page
def shadow(request: HttpRequest, shadow_id: UUID) -> HttpResponse:
    """Show agreement and predicted regret of one shadow policy.

    Raises
    ------
    Http404 : there is no such shadow.
    """
    if not has_role(request, Role.OPERATOR):
        return _for_operators(request)
    try:
        found = shadow_by_id(shadow_id)
    except NotFoundError as error:
        raise Http404(str(error)) from error
    result = shadow_result(found)
    return render(
        request,
        "dashboard/shadow.html",
        {
            "shadow": found,
            "parameters": ", ".join(f"{n} {v:g}" for n, v in found.parameters.items()),
            "finding": finding(found.policy, result.total),
            "groups": groups(result.total, result.groups) if result.total.decisions else (),
            "different": selectors.most_different(found, visible_to(request)),
            "filled": min(1.0, result.total.decisions / MAX_COMPARED),
            "compared": result.total.decisions,
            "limit": MAX_COMPARED,
        },
    )


def _for_operators(request: HttpRequest) -> HttpResponse:
    """Explain that only operators may see shadows: they name decisions of all projects."""
    return render(request, "dashboard/shadows_closed.html", status=403)
