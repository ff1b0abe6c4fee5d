"""Who may see a page, and what a page may do in somebody's name."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from apps.accounts.core.roles import Role, includes
from apps.dashboard.core.ranges import TimeRange, time_range
from apps.inventory.selectors import cluster_now

View = Callable[..., HttpResponse]


def page(view: View) -> View:
    """A page: read only, for people who have signed in, never kept by a shared cache."""

    @require_safe
    @never_cache
    @login_required
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return view(request, *args, **kwargs)

    return guarded


def has_role(request: HttpRequest, role: Role) -> bool:
    """Whether the person may do what the role may."""
    held = getattr(request.user, "role", None)
    return bool(request.user.is_authenticated and held and includes(held, role))


def asked_range(request: HttpRequest) -> TimeRange:
    """The time range the address asks for, ending now."""
    return time_range(request.GET.get("range"), now_s=cluster_now())
