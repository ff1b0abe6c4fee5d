"""Dry runs of submissions."""

from collections.abc import Mapping
from typing import ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.common.api.queries import read, read_flag
from apps.common.api.views import ApiView
from apps.scheduling.api.check_serializers import (
    CheckRequestSerializer,
    CheckSerializer,
    represent_check,
)
from apps.scheduling.core.start_of_check import from_start
from apps.scheduling.services import check_job, check_start
from apps.workloads.api.job_views import MAX_BODY_BYTES, JobList
from apps.workloads.api.serializers import JobRequestSerializer, SubmittedJobSerializer
from apps.workloads.api.submission import (
    caller_as_user,
    choose_project,
    parse_array_job,
    submission_warnings,
)
from apps.workloads.core.arrays import ArraySpec
from apps.workloads.core.spec import JobSpec, parse_job
from apps.workloads.selectors import job_limits
from apps.workloads.services import as_submitted, require_accepted


def dry_run(request: Request, spec: JobSpec, array: ArraySpec | None = None) -> Response:
    """Respond with the predicted outcome of a job, or of each member of an array."""
    principal = principal_of(request)
    project = choose_project(principal, spec.project)
    spec = as_submitted(spec, project.name, caller_as_user(principal))
    require_accepted(spec, project)
    result = check_job(spec, project=project.pk)
    start = check_start(spec, result, project=project.pk)
    result = from_start(spec, result, start)
    members = None if array is None else len(array.indexes)
    warnings = submission_warnings(spec)
    return Response(represent_check(result, start, members=members, warnings=warnings))


class DryRunView(ApiView):
    """Dry run of a submission."""

    rate_class = "solver"
    max_body_bytes = MAX_BODY_BYTES

    @extend_schema(request=CheckRequestSerializer, responses=CheckSerializer)
    def post(self, request: Request) -> Response:
        """Size and place a job on the current state of the cluster, without writing anything.

        With an `array`, its indexes are checked too, and the job stands for each member.
        """
        if isinstance(request.data, Mapping) and "array" in request.data:
            return dry_run(request, *parse_array_job(request.data))
        return dry_run(request, parse_job(request.data, limits=job_limits()))


class JobListOrCheck(JobList):
    """Jobs: list the ones you may see, submit new ones, or test one with ``?dry_run=true``."""

    query_parameters: ClassVar = frozenset({"dry_run"})

    @property
    def rate_class(self) -> str | None:
        """A check counts as one; None: as any read or write."""
        is_check = self.request.query_params.get("dry_run") in {"true", "1"}
        return "solver" if self.request.method == "POST" and is_check else None

    @extend_schema(
        request=JobRequestSerializer,
        responses={201: SubmittedJobSerializer, 200: CheckSerializer},
        parameters=[OpenApiParameter("dry_run", bool, description="Only predict the outcome.")],
    )
    def post(self, request: Request) -> Response:
        """Submit a job; once this responds, it is stored. With `dry_run`, predict the outcome."""
        flag = request.query_params.get("dry_run")
        if flag is not None and read("dry_run", flag, read_flag):
            return dry_run(request, parse_job(request.data, limits=job_limits()))
        return super().post(request)
