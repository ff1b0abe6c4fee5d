"""The Calibrate page: placements one would accept become weights, and weights come into force."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.dashboard.selectors import calibrate as read
from apps.dashboard.views.access import has_role, page
from apps.inventory.models import Server
from apps.inventory.selectors import cluster_now


@page
def calibrate(request: HttpRequest) -> HttpResponse:
    """Return one front to pick from; its placements are asked for by the page.

    Raises
    ------
    Http404 : the address asks for a front there is not.
    """
    listed = read.fronts()
    try:
        front = read.opened(listed, request.GET.get("front", ""))
    except LookupError as error:
        raise Http404(str(error)) from error
    return render(
        request,
        "dashboard/calibrate.html",
        {
            "fronts": listed,
            "front": front,
            "recorded": read.recorded(),
            "racks": read.racks(),
            "servers": Server.objects.count(),
            "now_s": cluster_now(),
            "may_change": has_role(request, Role.OPERATOR),
        },
    )
