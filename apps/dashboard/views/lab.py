"""The Lab: comparisons of policies, and one comparison."""

from typing import Final
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.common.core.errors import NotFoundError
from apps.dashboard.core import lab_facts, lab_matrix
from apps.dashboard.selectors import lab as selectors
from apps.dashboard.views.access import has_role, page
from apps.scheduling.core.registry import POLICIES
from apps.testbed.core.lab import WORLD_NAMES
from apps.testbed.selectors.lab import servers_to_copy

SOURCES: Final = {"history": "history of this cluster", "facebook": "generated day"}


@page
def lab(request: HttpRequest) -> HttpResponse:
    """List the comparisons, and offer a new one, on a stored scenario if the address has one."""
    if not has_role(request, Role.OPERATOR):
        return _for_operators(request)
    policies = [(name, name == settings.DEFAULT_POLICY) for name in POLICIES]
    asked = request.GET.get("scenario", "")
    return render(
        request,
        "dashboard/lab.html",
        {
            "comparisons": selectors.listed_comparisons(),
            "policies": policies,
            "servers": servers_to_copy().count(),
            "scenario": selectors.scenario_of(asked) if asked else None,
            "worlds": [(name, name == settings.EMULATED_WORLD) for name in WORLD_NAMES],
        },
    )


@page
def comparison(request: HttpRequest, comparison_id: UUID) -> HttpResponse:
    """Show one comparison: its progress, and its result once all runs are complete.

    Raises
    ------
    Http404 : there is no such comparison.
    """
    if not has_role(request, Role.OPERATOR):
        return _for_operators(request)
    try:
        found = selectors.comparison_of(str(comparison_id))
    except NotFoundError as error:
        raise Http404(str(error)) from error
    operation = found.operation
    return render(
        request,
        "dashboard/comparison.html",
        {
            "comparison": found,
            "operation": operation,
            "operation_share": operation.progress / (operation.total or 1),
            "is_open": operation.status in {"pending", "running"},
            "matrix": selectors.matrix(found),
            "facts": lab_facts.facts(found.result) if found.result else (),
            "changes": (
                lab_facts.application_changes(found.result, request.GET.get("setting", ""))
                if found.result
                else None
            ),
            "settings": [
                (each["name"], lab_matrix.options_text(each["options"])) for each in found.grid
            ],
            "source": SOURCES[found.scenario.source["workload"]["kind"]],
            "query": f"?comparison={found.pk}",
        },
    )


def _for_operators(request: HttpRequest) -> HttpResponse:
    """Explain that only operators may use the Lab: scenarios copy jobs of all projects."""
    return render(request, "dashboard/lab_closed.html", status=403)
