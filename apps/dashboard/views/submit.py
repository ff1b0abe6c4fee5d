"""The Submit form; checking and submitting go through the REST API."""

import json
from typing import Any

from django.conf import settings
from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.accounts.selectors import archived_projects
from apps.classification.models import Profile
from apps.common.core.ids import uuid7
from apps.dashboard.core.usual_job import UsualJob, suggested_targets, usual_job
from apps.dashboard.selectors.jobs import job_by_id
from apps.dashboard.selectors.usual_job import past_jobs
from apps.dashboard.views.access import caller, has_role, page, visible_to
from apps.inventory.models import Platform
from apps.scheduling.core.registry import sampling_policy
from apps.scheduling.core.types import MAX_UNITS
from apps.scheduling.selectors.default_policy import policy_in_use
from apps.scheduling.services import check_job
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import read_target
from apps.workloads.models import Application
from apps.workloads.selectors import job_limits, submission_of

SUGGESTED = 200


@page
def submit(request: HttpRequest) -> HttpResponse:
    """Show the form with known applications and a new idempotency key.

    ``?again=`` names a job whose specification fills the form, ``&units=`` another size for it.
    """
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
            "policies": job_limits().policies,
            "default_policy": policy_in_use(),
            "sampling_policy": sampling_policy(policy_in_use()),
            "max_sample": settings.MAX_SAMPLE,
            "projects": projects_to_submit_to(request),
            "key": uuid7(),
            "host": request.build_absolute_uri("/").rstrip("/"),
            "may_submit": has_role(request, Role.SUBMITTER),
            "may_compare": has_role(request, Role.OPERATOR),
            **_again(request),
        },
    )


def _again(request: HttpRequest) -> dict[str, Any]:
    """Return the job to submit again and its document; nothing if the address names none."""
    key = request.GET.get("again", "")
    if not key:
        return {}
    job = job_by_id(visible_to(request), key)
    document = submission_of(job)
    document["metadata"].pop("name")  # the new job gets a name of its own
    units = request.GET.get("units", "")
    if units.isdecimal() and 1 <= int(units) <= MAX_UNITS:
        document["spec"]["units"] = int(units)
    return {"again": job, "again_document": json.dumps(document)}


@page
def usual(request: HttpRequest) -> HttpResponse:
    """Return the usual job of an application and sensible targets, from jobs the user may see.

    Empty for a new application.
    """
    application = Application.objects.filter(name=request.GET.get("application", "")).first()
    if application is None:
        return JsonResponse({})
    past = past_jobs(application, visible_to(request))
    filled = usual_job(past, application.kind)
    grid = check_job(_spec(application, filled)).feasibility
    return JsonResponse(
        {
            "target": filled.target,
            "input_bytes": filled.input_bytes,
            "tasks": filled.tasks,
            "duration_seconds": filled.duration_s,
            "units": filled.units,
            "reason": filled.reason,
            "suggestions": [
                {"text": one.text, "target": one.target, "reason": one.reason}
                for one in suggested_targets(past, filled, grid)
            ],
        }
    )


def _spec(application: Application, filled: UsualJob) -> JobSpec:
    return JobSpec(
        application=application.name,
        target=read_target(filled.target),
        application_kind=application.kind,
        input_bytes=filled.input_bytes,
        tasks=filled.tasks,
        duration_s=filled.duration_s,
    )


def projects_to_submit_to(request: HttpRequest) -> list[str]:
    """Return the projects the user may submit to, oldest first."""
    principal = caller(request)
    archived = archived_projects(principal.projects)
    return [
        name
        for project_id, (name, _) in sorted(principal.projects.items())
        if principal.may(Role.SUBMITTER, project_id) and project_id not in archived
    ]
