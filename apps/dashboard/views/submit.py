"""The Submit form; checking and submitting go through the REST API."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.accounts.models import Project
from apps.common.core.ids import uuid7
from apps.dashboard.views.access import has_role, page
from apps.inventory.models import Platform
from apps.workloads.models import Application

SUGGESTED = 200


@page
def submit(request: HttpRequest) -> HttpResponse:
    """Return the form, with known applications to choose from and a fresh key."""
    applications = Application.objects.order_by("-updated_at").values_list("name", "kind")
    return render(
        request,
        "dashboard/submit.html",
        {
            "applications": applications[:SUGGESTED],
            "platforms": Platform.objects.order_by("rank"),
            "projects": Project.objects.order_by("created_at"),
            "key": uuid7(),
            "host": request.build_absolute_uri("/").rstrip("/"),
            "may_submit": has_role(request, Role.SUBMITTER),
        },
    )
