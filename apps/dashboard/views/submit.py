"""The Submit form; checking and submitting go through the REST API."""

from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.classification.models import Profile
from apps.common.core.ids import uuid7
from apps.dashboard.views.access import caller, has_role, page
from apps.inventory.models import Platform
from apps.workloads.models import Application

SUGGESTED = 200


@page
def submit(request: HttpRequest) -> HttpResponse:
    """Show the form with known applications and a new idempotency key."""
    profile = Profile.objects.filter(application=OuterRef("pk"), is_current=True)
    applications = (
        Application.objects.order_by("-updated_at")
        .annotate(profile=Subquery(profile.values("number")[:1]))
        .values_list("name", "kind", "profile")
    )
    return render(
        request,
        "dashboard/submit.html",
        {
            "applications": applications[:SUGGESTED],
            "platforms": Platform.objects.order_by("rank"),
            "projects": _projects(request),
            "key": uuid7(),
            "host": request.build_absolute_uri("/").rstrip("/"),
            "may_submit": has_role(request, Role.SUBMITTER),
        },
    )


def _projects(request: HttpRequest) -> list[str]:
    """Return the projects the user may submit to, in the order the API tries them."""
    principal = caller(request)
    return [
        name
        for project_id, (name, _) in sorted(principal.projects.items())
        if principal.may(Role.SUBMITTER, project_id)
    ]
