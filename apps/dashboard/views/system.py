"""The System page: health of the clock, agents, backends and operations."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.common.infrastructure.database import database_now
from apps.dashboard.selectors.system import system as system_status
from apps.dashboard.views.access import caller, has_role, page


@page
def system(request: HttpRequest) -> HttpResponse:
    """Show the clock, agents, backends, logs and operations."""
    now = database_now()
    status = system_status(caller(request), now=now)
    may_compare = has_role(request, Role.OPERATOR)
    shown = {"system": status, "now": now, "may_compare": may_compare}
    return render(request, "dashboard/system.html", shown)
