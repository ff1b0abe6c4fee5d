"""The System page: is everything that should run running."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from apps.dashboard.selectors.system import system as read
from apps.dashboard.views.access import page


@page
def system(request: HttpRequest) -> HttpResponse:
    """Show the clock, agents, backends, logs and operations."""
    now = timezone.now()
    return render(request, "dashboard/system.html", {"system": read(now=now), "now": now})
