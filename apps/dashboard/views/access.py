"""Access to pages, and the data a user may see."""

from collections.abc import Callable
from functools import wraps
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from apps.accounts.core.principal import Principal
from apps.accounts.core.roles import Role
from apps.accounts.selectors import holds, principal_by_user
from apps.dashboard.core.ranges import TimeRange, earlier_moment, time_range
from apps.dashboard.core.regions import changed_regions
from apps.inventory.selectors import cluster_now
from apps.workloads.models import Job
from apps.workloads.selectors import visible_jobs, visible_projects

View = Callable[..., HttpResponse]


def page(view: View) -> View:
    """Return a read-only view for signed-in users that is never cached.

    A script that names live regions in ``X-Berth-Regions`` gets those that changed, and no page.
    """

    @require_safe
    @never_cache
    @login_required
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = view(request, *args, **kwargs)
        asked = request.META.get("HTTP_X_BERTH_REGIONS")
        is_html = response.get("Content-Type", "").startswith("text/html")
        if asked is None or not is_html or response.status_code != 200:
            return response
        return _regions(response, asked)

    return guarded


def _regions(page_response: HttpResponse, asked: str) -> HttpResponse:
    """Return the regions of a page that changed; ``asked`` is a list of id or id=digest."""
    known = {name: digest for name, _, digest in (part.partition("=") for part in asked.split())}
    html = page_response.content.decode()
    return JsonResponse({"regions": changed_regions(html, known)})


def has_role(request: HttpRequest, role: Role) -> bool:
    """Whether the user holds the role."""
    return holds(request.user, role)


def requested_range(parameters: QueryDict) -> TimeRange:
    """Return the time range in the address, ending now or at the earlier moment in it."""
    now_s = cluster_now()
    at_s = earlier_moment(parameters.get("at"), now_s=now_s)
    return time_range(parameters.get("range"), now_s=now_s, at_s=at_s)


def caller(request: HttpRequest) -> Principal:
    """Return the rights of the signed-in user.

    Raises
    ------
    PermissionDenied : nobody is signed in, or the account has been deactivated meanwhile.
    """
    user_id = request.user.pk
    principal = None if user_id is None else principal_by_user(user_id)
    if principal is None:
        raise PermissionDenied
    return principal


def projects_of(request: HttpRequest) -> list[UUID] | None:
    """Return the projects whose jobs the user may see; None: all."""
    user_id = request.user.pk
    principal = None if user_id is None else principal_by_user(user_id)
    return [] if principal is None else visible_projects(principal)


def visible_to(request: HttpRequest) -> QuerySet[Job]:
    """Return the jobs the user may see: of their own projects, or all for operators."""
    return visible_jobs(caller(request))
