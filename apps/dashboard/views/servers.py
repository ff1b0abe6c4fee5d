"""The cluster map and one server."""

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone

from apps.accounts.core.roles import Role
from apps.dashboard.selectors import servers as read
from apps.dashboard.views.access import has_role, page
from apps.inventory.models import Server

KEPT_S = 1.0


@page
def cluster_map(request: HttpRequest) -> HttpResponse:
    """Return the map; its cells come as JSON."""
    return render(
        request,
        "dashboard/map.html",
        {"servers": Server.objects.count(), "may_change": has_role(request, Role.OPERATOR)},
    )


@page
def map_layout(request: HttpRequest) -> HttpResponse:
    """Names and places of all servers."""
    return JsonResponse(read.map_layout())


@page
def map_state(request: HttpRequest) -> HttpResponse:
    """Return what every server does now; one answer a second for everybody."""
    state = cache.get("dashboard.map")
    if state is None:
        state = read.map_state(now=timezone.now())
        cache.set("dashboard.map", state, KEPT_S)
    return JsonResponse(state)


@page
def server(request: HttpRequest, name: str) -> HttpResponse:
    """One server."""
    found = read.server(name)
    return render(
        request,
        "dashboard/server.html",
        {
            "server": found,
            "reading": getattr(found, "reading", None),
            "tenancy": read.tenancy(found),
            "considered": read.considered(found),
            "decisions": read.decisions_about(found),
            "now": timezone.now(),
            "may_change": has_role(request, Role.OPERATOR),
        },
    )
