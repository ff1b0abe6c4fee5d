"""The Calibrate page: placements one would accept become weights, and weights come into force."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.dashboard.selectors import calibrate as read
from apps.dashboard.views.access import has_role, page
from apps.inventory.models import Server
from apps.inventory.selectors import cluster_now


@page
def calibrate(request: HttpRequest) -> HttpResponse:
    """Return one front to pick from; its placements are asked for by the page.

    Where the address asks for a front there is not, 404, with the newest instead.
    """
    fronts = read.fronts(request.GET.get("front", ""))
    return render(
        request,
        "dashboard/calibrate.html",
        {
            "fronts": fronts.listed,
            "front": fronts.opened,
            "missing": fronts.missing,
            "front_days": settings.BERTH_FRONT_DAYS,
            "recorded": read.recorded(),
            "racks": read.racks(),
            "servers": Server.objects.count(),
            "now_s": cluster_now(),
            "may_change": has_role(request, Role.OPERATOR),
        },
        status=404 if fronts.missing else 200,
    )
