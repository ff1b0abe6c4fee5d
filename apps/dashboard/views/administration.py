"""Administration of users and projects, and the audit log."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.api.serializers import ROLES
from apps.accounts.core.principal import Principal
from apps.accounts.core.roles import Role
from apps.accounts.selectors import (
    members_of,
    principal_by_user,
    project_by,
    share_of,
    user_by,
    visible_projects,
)
from apps.common.core.errors import NotFoundError
from apps.dashboard.core.audit_text import KINDS
from apps.dashboard.selectors import administration as selectors
from apps.dashboard.views.access import has_role, page
from apps.dashboard.views.lists import requested_page

View = Callable[..., HttpResponse]
ROLE_NAMES = [value for value, _ in ROLES]


def admin_page(view: View) -> View:
    """Return a page for administrators."""

    @page
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not has_role(request, Role.ADMIN):
            raise PermissionDenied("This page needs the role admin.")
        return view(request, *args, **kwargs)

    return guarded


@admin_page
def users(request: HttpRequest) -> HttpResponse:
    """Show the users and the blocked sign-ins."""
    text = request.GET.get("q", "").strip()[:150]
    rows, is_stale = requested_page(request, lambda at: selectors.users_page(text, cursor=at))
    context = {
        "page": rows,
        "text": text,
        "stale_cursor": is_stale,
        "blocked": selectors.blocked(),
        "roles": ROLE_NAMES,
        "projects": visible_projects(_principal(request)).order_by("name"),
    }
    return render(request, "dashboard/users.html", context)


@admin_page
def user(request: HttpRequest, name: str) -> HttpResponse:
    """Show one user with the projects and tokens."""
    try:
        found = user_by(name)
    except NotFoundError as error:
        raise Http404(str(error)) from error
    projects = visible_projects(_principal(request)).order_by("name")
    context = {
        "person": found,
        "is_self": found.pk == request.user.pk,
        "tokens": selectors.tokens(found.pk),
        "tokens_url": f"/api/v1/users/{found.pk}/tokens/",
        "roles": ROLE_NAMES,
        "other_projects": projects.exclude(memberships__user=found),
    }
    return render(request, "dashboard/user.html", context)


@page
def projects(request: HttpRequest) -> HttpResponse:
    """Show the projects that the user may see."""
    rows = selectors.project_rows(visible_projects(_principal(request)))
    context = {"rows": rows, "may_change": has_role(request, Role.ADMIN)}
    return render(request, "dashboard/projects.html", context)


@page
def project(request: HttpRequest, name: str) -> HttpResponse:
    """Show one project with its members."""
    try:
        found = project_by(_principal(request), name)
    except NotFoundError as error:
        raise Http404(str(error)) from error
    context = {
        "project": found,
        "labels": "\n".join(selectors.label_texts(found)),
        "members": members_of(found).order_by("user__username"),
        "share": share_of(found),
        "roles": ROLE_NAMES,
        "may_change": has_role(request, Role.ADMIN),
    }
    return render(request, "dashboard/project.html", context)


@admin_page
def audit(request: HttpRequest) -> HttpResponse:
    """Show the audit log."""
    query = selectors.AuditQuery(
        username=_text(request, "user"),
        kind=request.GET["kind"] if request.GET.get("kind") in KINDS else "",
        name=_text(request, "name"),
        since=_day(request, "since"),
        until=_day(request, "until"),
    )
    rows, is_stale = requested_page(request, lambda at: selectors.audit_page(query, cursor=at))
    context = {
        "query": query,
        "page": rows,
        "rows": selectors.audit_rows(rows.rows),
        "stale_cursor": is_stale,
        "kinds": KINDS,
        "export": urlencode(query.parameters()),
    }
    return render(request, "dashboard/audit.html", context)


def _principal(request: HttpRequest) -> Principal:
    """Return the rights of the signed-in user."""
    principal = None if request.user.pk is None else principal_by_user(request.user.pk)
    if principal is None:
        raise PermissionDenied("The account has been deactivated.")
    return principal


def _text(request: HttpRequest, name: str) -> str:
    return request.GET.get(name, "").strip().replace("\x00", "")[:253]


def _day(request: HttpRequest, name: str) -> datetime | None:
    """Return the start of a day in the address; None if there is none."""
    try:
        day = date.fromisoformat(request.GET.get(name, ""))
    except ValueError:
        return None
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
