"""Suspend and resume running jobs."""

from collections.abc import Callable
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.api.views import ApiView, answer
from apps.common.infrastructure.request_id import current_request_id
from apps.execution.services.suspension import resume_job, suspend_job
from apps.workloads.api.job_views import guarded, own_job, visible_job
from apps.workloads.api.representations import represent_job
from apps.workloads.api.serializers import JobSerializer
from apps.workloads.core.lifecycle import Suspension


class JobSuspend(ApiView):
    """Suspend one running job."""

    takes_body = False
    takes_match = frozenset({"POST"})

    @extend_schema(request=None, responses={200: JobSerializer, 202: JobSerializer})
    def post(self, request: Request, job_id: UUID) -> Response:
        """Stop the processes of a job; it keeps its units. 202 while its backend stops them."""
        return _change(request, job_id, suspend_job, until=Suspension.SUSPENDED)


class JobResume(ApiView):
    """Resume one suspended job."""

    takes_body = False
    takes_match = frozenset({"POST"})

    @extend_schema(request=None, responses={200: JobSerializer, 202: JobSerializer})
    def post(self, request: Request, job_id: UUID) -> Response:
        """Let the processes of a job continue. 202 while its backend continues them."""
        return _change(request, job_id, resume_job, until=Suspension.NONE)


def _change(
    request: Request, job_id: UUID, change: Callable[..., None], *, until: Suspension
) -> Response:
    own_job(request, job_id)
    guarded(request, job_id, lambda: change(job_id, request_id=current_request_id()))
    job = visible_job(request, job_id)
    status = 200 if job.suspension == until else 202
    return answer(request, represent_job(job), generation=job.generation, status=status)
