"""Dry runs: the whole path of a submission on a snapshot, writing nothing."""

from typing import ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.common.queries import read, read_flag
from apps.common.views import ApiView
from apps.scheduling.api.check_serializers import CheckSerializer, represent_check
from apps.scheduling.services import check_job
from apps.workloads.api.job_views import JobList
from apps.workloads.api.serializers import JobRequestSerializer, JobSerializer
from apps.workloads.api.submission import choose_project
from apps.workloads.core.spec import parse_job


def checked(request: Request) -> Response:
    """Answer what would happen to the job in the request."""
    spec = parse_job(request.data)
    choose_project(principal_of(request), spec.project)
    return Response(represent_check(check_job(spec)))


class CheckView(ApiView):
    """What would happen to a job."""

    rate_class = "submit"

    @extend_schema(request=JobRequestSerializer, responses=CheckSerializer)
    def post(self, request: Request) -> Response:
        """Size and place a job on the present state of the cluster, writing nothing."""
        return checked(request)


class JobListOrCheck(JobList):
    """Jobs: list the ones you may see, submit new ones, or try with ``?dry_run=true``."""

    query_parameters: ClassVar = frozenset({"dry_run"})

    @extend_schema(
        request=JobRequestSerializer,
        responses={201: JobSerializer, 200: CheckSerializer},
        parameters=[OpenApiParameter("dry_run", bool, description="Only say what would happen.")],
    )
    def post(self, request: Request) -> Response:
        """Submit a job; it is accepted when this answers. With `dry_run` only check it."""
        dry_run = request.query_params.get("dry_run")
        if dry_run is not None and read("dry_run", dry_run, read_flag):
            return checked(request)
        return super().post(request)
