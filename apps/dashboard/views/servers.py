"""The cluster map and one server."""

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.common.infrastructure.database import database_now
from apps.dashboard.selectors import servers as selectors
from apps.dashboard.selectors.recorded_map import recorded_map_state
from apps.dashboard.views.access import has_role, page, requested_range, visible_to
from apps.inventory.models import Server

CACHE_S = 1.0


@page
def cluster_map(request: HttpRequest) -> HttpResponse:
    """Show the map; the page fetches its cells as JSON."""
    return render(
        request,
        "dashboard/map.html",
        {"servers": Server.objects.count(), "may_change": has_role(request, Role.OPERATOR)},
    )


@page
def map_layout(request: HttpRequest) -> HttpResponse:
    """Return names, platforms and racks of all servers."""
    return JsonResponse(selectors.map_layout())


@page
def map_state(request: HttpRequest) -> HttpResponse:
    """Return the state of every server, now or at an earlier moment; cached for a second."""
    span = requested_range(request.GET)
    key = f"dashboard.map.{span.last_s if span.is_past else 'now'}"
    state = cache.get(key)
    if state is None:
        state = (
            recorded_map_state(span.last_s)
            if span.is_past
            else selectors.map_state(now=database_now())
        )
        cache.set(key, state, CACHE_S)
    return JsonResponse(state)


@page
def server(request: HttpRequest, name: str) -> HttpResponse:
    """Show one server."""
    shown = selectors.server_by_name(name)
    visible = visible_to(request)
    return render(
        request,
        "dashboard/server.html",
        {
            "server": shown,
            "reading": getattr(shown, "reading", None),
            "tenancy": selectors.tenancy(shown, visible),
            "l3_caches": selectors.l3_caches(shown),
            "considered": selectors.considered(shown),
            "decisions": selectors.decisions_about(shown, visible),
            "now": database_now(),
            "may_change": has_role(request, Role.OPERATOR),
        },
    )
