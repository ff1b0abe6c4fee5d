"""The Lab: comparisons of policies, and one comparison."""

from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.common.core.errors import NotFoundError
from apps.dashboard.selectors import lab as selectors
from apps.dashboard.views.access import has_role, page
from apps.scheduling.core.registry import POLICIES
from apps.testbed.selectors.lab import servers_to_copy


@page
def lab(request: HttpRequest) -> HttpResponse:
    """List the comparisons, and offer a new one."""
    if not has_role(request, Role.OPERATOR):
        return _for_operators(request)
    policies = [(name, name == settings.DEFAULT_POLICY) for name in POLICIES]
    return render(
        request,
        "dashboard/lab.html",
        {
            "comparisons": selectors.listed_comparisons(),
            "policies": policies,
            "servers": servers_to_copy().count(),
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
            "query": f"?comparison={found.pk}",
        },
    )


def _for_operators(request: HttpRequest) -> HttpResponse:
    """Explain that only operators may use the Lab: scenarios copy jobs of all projects."""
    return render(request, "dashboard/lab_closed.html", status=403)
