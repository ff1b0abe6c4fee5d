"""The Calibrate page: derive weights from accepted placements and activate them."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.dashboard.selectors import calibrate as selectors
from apps.dashboard.views.access import has_role, page
from apps.inventory.models import Server
from apps.inventory.selectors import cluster_now


@page
def calibrate(request: HttpRequest) -> HttpResponse:
    """Show one front; the page fetches its placements.

    If the requested front does not exist, the answer is 404 and shows the newest front.
    """
    fronts = selectors.fronts(request.GET.get("front", ""))
    return render(
        request,
        "dashboard/calibrate.html",
        {
            "fronts": fronts.listed,
            "front": fronts.opened,
            "missing": fronts.missing,
            "front_days": settings.BERTH_FRONT_DAYS,
            "recorded": selectors.recorded(),
            "racks": selectors.racks(),
            "objectives": selectors.plot_objectives(),
            "servers": Server.objects.count(),
            "now_s": cluster_now(),
            "may_change": has_role(request, Role.OPERATOR),
        },
        status=404 if fronts.missing else 200,
    )
