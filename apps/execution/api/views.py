"""Reports, migrations and tasks of jobs."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.common.api.paging import Order
from apps.common.api.queries import ListQuery, choice, number, read, read_float
from apps.common.api.views import ApiView, ListView, answer
from apps.execution.api.diagnosis_serializers import DiagnosisSerializer, represent_diagnosis
from apps.execution.api.serializers import (
    JobSampleSerializer,
    MigrationSerializer,
    TasksSerializer,
    represent_migration,
    represent_sample,
    represent_tasks,
)
from apps.execution.models import JobSample, Migration, MigrationState
from apps.execution.selectors import migrations_of
from apps.execution.selectors.diagnosis import diagnosis
from apps.inventory.selectors import server_names
from apps.workloads.api.job_views import visible_job
from apps.workloads.core.lifecycle import JobState
from apps.workloads.core.waves import count_tasks
from apps.workloads.selectors import visible_jobs


class JobMetrics(ListView):
    """The reports of a job, oldest first."""

    row_serializer = JobSampleSerializer
    brief_fields = ("cluster_seconds",)
    orders: ClassVar = {
        "cluster_seconds": Order(("cluster_s", "id")),
        "-cluster_seconds": Order(("cluster_s", "id"), descending=True),
    }
    filters: ClassVar = {
        "cluster_seconds__gte": number("cluster_s__gte", "At or after this cluster second."),
        "cluster_seconds__lt": number("cluster_s__lt", "Before this cluster second."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[JobSample]:
        """Return the job's reports."""
        return JobSample.objects.filter(job=visible_job(request, kwargs["job_id"]))

    def represent(self, row: JobSample) -> dict[str, Any]:
        """JSON of a report."""
        return represent_sample(row)


class JobDiagnosis(ApiView):
    """Why a job misses, or missed, its target."""

    query_parameters = frozenset({"at"})

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "at", float, description="Cluster second: the dip then, or the last one before it."
            )
        ],
        responses=DiagnosisSerializer,
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return the job's dips, and for one of them suspects, pressure and remedies."""
        job = visible_job(request, job_id)
        given = request.query_params.get("at")
        at_s = None if given is None else read("at", given, read_float)
        found = diagnosis(job, visible_jobs(principal_of(request)), at_s=at_s)
        return answer(request, represent_diagnosis(found))


class JobMigrations(ListView):
    """The migrations of a job, newest first."""

    row_serializer = MigrationSerializer
    orders: ClassVar = {"-id": Order(("id",), descending=True)}
    filters: ClassVar = {"state": choice("state", MigrationState.values, "In this state.")}
    _names: dict[int, str]

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Migration]:
        """Return the job's migrations."""
        return migrations_of(visible_job(request, kwargs["job_id"]).id)

    def prepare(self, rows: list[Migration]) -> None:
        """Load the names of the page's servers in one query."""
        self._names = server_names(
            server for row in rows for server in (row.from_server_id, row.to_server_id)
        )

    def represent(self, row: Migration) -> dict[str, Any]:
        """JSON of a migration."""
        return represent_migration(row, self._names)


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
