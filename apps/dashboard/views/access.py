"""Who may see a page, and what a page may do in somebody's name."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from apps.accounts.core.roles import Role
from apps.accounts.selectors import holds, principal_by_user
from apps.dashboard.core.ranges import TimeRange, time_range
from apps.inventory.selectors import cluster_now
from apps.workloads.models import Job
from apps.workloads.selectors import visible_jobs

View = Callable[..., HttpResponse]


def page(view: View) -> View:
    """Return a page: read only, for people who have signed in, never kept by a shared cache."""

    @require_safe
    @never_cache
    @login_required
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return view(request, *args, **kwargs)

    return guarded


def has_role(request: HttpRequest, role: Role) -> bool:
    """Whether the person may do what the role may."""
    return holds(request.user, role)


def asked_range(request: HttpRequest) -> TimeRange:
    """Return the time range the address asks for, ending now."""
    return time_range(request.GET.get("range"), now_s=cluster_now())


def jobs_seen_by(request: HttpRequest) -> QuerySet[Job]:
    """Return the jobs the person may see: those of the own projects, all for operators."""
    user_id = request.user.pk
    principal = None if user_id is None else principal_by_user(user_id)
    return Job.objects.none() if principal is None else visible_jobs(principal)
