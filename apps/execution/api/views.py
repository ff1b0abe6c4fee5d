"""What running jobs report."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.paging import Order
from apps.common.queries import ListQuery, number
from apps.common.views import ApiView, ListView, answer
from apps.execution.api.serializers import (
    JobSampleSerializer,
    TasksSerializer,
    represent_sample,
    represent_tasks,
)
from apps.execution.models import JobSample
from apps.workloads.api.job_views import visible_job
from apps.workloads.core.lifecycle import JobState
from apps.workloads.core.waves import count_tasks


class JobMetrics(ListView):
    """The reports of a job, oldest first."""

    row_serializer = JobSampleSerializer
    orders: ClassVar = {"cluster_seconds": Order(("cluster_s", "id"))}
    filters: ClassVar = {
        "cluster_seconds__gte": number("cluster_s__gte", "Not before."),
        "cluster_seconds__lt": number("cluster_s__lt", "Before."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[JobSample]:
        """Return the job's reports."""
        return JobSample.objects.filter(job=visible_job(request, kwargs["job_id"]))

    def represent(self, row: JobSample) -> dict[str, Any]:
        """JSON of a report."""
        return represent_sample(row)


class JobTasks(ApiView):
    """The tasks of a job."""

    @extend_schema(responses=TasksSerializer)
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return how many tasks are done, running and waiting."""
        job = visible_job(request, job_id)
        counts = count_tasks(
            total=job.tasks_total,
            progress=job.progress,
            units=job.units,
            is_running=job.state == JobState.RUNNING,
        )
        return answer(request, represent_tasks(counts))
