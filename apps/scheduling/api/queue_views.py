"""The queue: waiting jobs with their reasons and predicted starts, and scores of predictions."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.api.project_serializers import FairShareSerializer, represent_share
from apps.accounts.models import ProjectShare
from apps.common.api.queries import read, read_text, read_word
from apps.common.api.representations import time
from apps.common.api.views import ApiView, answer
from apps.inventory.selectors import cluster_now
from apps.scheduling.core.admission.types import AdmissionNow
from apps.scheduling.core.sharing.fair_share import RESOURCES
from apps.scheduling.core.sharing.quotas import QuotaRow
from apps.scheduling.core.starts.waits import StartScore, WaitingJob
from apps.scheduling.models import StartEstimate
from apps.scheduling.selectors.fair_share import share_rows
from apps.scheduling.selectors.quotas import quota_rows
from apps.scheduling.selectors.reserved import ReservationRow, reservation_rows
from apps.scheduling.selectors.waits import (
    admission_now,
    estimates_of,
    start_scores,
    waiting_jobs,
)
from apps.workloads.api.job_views import check_project_filter, visible_job
from apps.workloads.core.reasons import Reason
from apps.workloads.selectors import visible_projects


class WaitingJobSerializer(serializers.Serializer[Any]):
    """A waiting job; starts are in cluster seconds from now."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    project = serializers.CharField()
    application = serializers.CharField()
    units = serializers.IntegerField(allow_null=True, help_text="Null: not known yet.")
    gang = serializers.BooleanField(help_text="Whether it needs all its units to start.")
    priority = serializers.IntegerField()
    reason = serializers.CharField()
    message = serializers.CharField()
    tier = serializers.IntegerField(help_text="Rank of the reason, 1 to 10.")
    waited_seconds = serializers.FloatField()
    p50_seconds = serializers.FloatField(allow_null=True, help_text="Null: unknown.")
    p90_seconds = serializers.FloatField(allow_null=True, help_text="Null: unknown.")
    ahead = serializers.IntegerField(
        allow_null=True, help_text="Jobs that are predicted to start before it."
    )


class StartScoreSerializer(serializers.Serializer[Any]):
    """Starts of the last day of cluster time, compared with their first estimates."""

    kind = serializers.CharField(help_text="Kind of the target, and size.")
    count = serializers.IntegerField(
        help_text="Starts whose estimate had a 90 % interval; shares and bias are of these."
    )
    unknown = serializers.IntegerField(
        help_text="Further starts, whose first estimate was unknown."
    )
    covered = serializers.FloatField(
        allow_null=True, help_text="Share that started in the 90 % interval. Null: no interval."
    )
    by_p90 = serializers.FloatField(
        allow_null=True, help_text="Share that started by the p90. Null: no interval."
    )
    bias_seconds = serializers.FloatField(
        allow_null=True, help_text="Median of the start minus the p50. Null: unknown."
    )
    waited_seconds = serializers.FloatField(help_text="Mean wait after the estimate.")


class AdmissionQueueSerializer(serializers.Serializer[Any]):
    """A bucket, or class, of the admission control; times are cluster seconds."""

    name = serializers.CharField()
    servers = serializers.IntegerField(help_text="Open ones.")
    free_units = serializers.IntegerField()
    freed_per_second = serializers.FloatField(
        allow_null=True, help_text="Null: not observed for long enough yet."
    )
    mean_seconds = serializers.FloatField(
        allow_null=True,
        help_text=(
            "Of a bucket: mean time until a unit is freed. Of a class (arq): mean time that units "
            "were busy. Null: too few were freed."
        ),
    )
    std_seconds = serializers.FloatField(allow_null=True)
    bound_seconds = serializers.FloatField(
        allow_null=True, help_text="Longest wait for a unit. Null: jobs do not wait."
    )
    waiting = serializers.IntegerField(help_text="Evaluated jobs that wait for its units.")
    arrived_per_second = serializers.FloatField(
        allow_null=True,
        help_text="Units of jobs of a class. Null: not observed for long enough yet.",
    )
    diverted_share = serializers.FloatField(help_text="Of the jobs of the queue of a class.")
    load_factor = serializers.FloatField(
        allow_null=True,
        help_text="Of the queue of a class, which is stable below 1. Null: not known yet.",
    )


class AdmissionSerializer(serializers.Serializer[Any]):
    """The admission control and its state, stored every few seconds."""

    control = serializers.CharField()
    at = serializers.DateTimeField(allow_null=True, help_text="Null: not stored yet.")
    cluster_seconds = serializers.FloatField(allow_null=True)
    queues = AdmissionQueueSerializer(many=True)


class QuotaSerializer(serializers.Serializer[Any]):
    """Units of a project."""

    project = serializers.CharField()
    guaranteed_units = serializers.IntegerField()
    max_units = serializers.IntegerField(allow_null=True)
    used = serializers.IntegerField()
    borrowed = serializers.IntegerField(help_text="Used beyond the guarantee.")
    lent = serializers.IntegerField(
        help_text="Guaranteed units that others have borrowed, after all those of no project."
    )
    waiting = serializers.IntegerField(help_text="That its waiting jobs request.")


class QueueShareSerializer(FairShareSerializer):
    """The share of a project, and its shares by resource."""

    project = serializers.CharField()
    shares = serializers.DictField(
        child=serializers.FloatField(), help_text="By resource: " + ", ".join(RESOURCES) + "."
    )


class QueueReservationSerializer(serializers.Serializer[Any]):
    """Units that are kept for a waiting job; times are cluster seconds."""

    job = serializers.UUIDField()
    name = serializers.CharField()
    project = serializers.CharField()
    priority = serializers.IntegerField()
    units = serializers.IntegerField()
    free_units = serializers.IntegerField(help_text="Of them, those that no job holds.")
    servers = serializers.IntegerField(help_text="With reserved units.")
    made_seconds = serializers.FloatField()
    start_seconds = serializers.FloatField(
        help_text="When the last unit is free, at the latest that is predicted."
    )
    promised_seconds = serializers.FloatField(help_text="The first such prediction.")
    for_preemption = serializers.BooleanField(
        help_text="Whether jobs were stopped to free the units."
    )


class QueueSerializer(serializers.Serializer[Any]):
    """The waiting jobs that you may see, soonest start first."""

    cluster_seconds = serializers.FloatField()
    jobs = WaitingJobSerializer(many=True)
    is_cut = serializers.BooleanField(help_text="Whether more jobs match than are listed.")
    scores = StartScoreSerializer(many=True)
    quotas = QuotaSerializer(many=True, allow_null=True, help_text="Null: no project has a quota.")
    shares = QueueShareSerializer(
        many=True, allow_null=True, help_text="Smallest first. Null: without fair share."
    )
    admission = AdmissionSerializer(allow_null=True, help_text="Null: jobs pass none.")
    reservations = QueueReservationSerializer(many=True, help_text="Soonest start first.")


class JobStartEstimateSerializer(serializers.Serializer[Any]):
    """One estimate of a start; times are cluster seconds, null: later than simulated."""

    at = serializers.DateTimeField()
    made_seconds = serializers.FloatField()
    ahead = serializers.IntegerField()
    p5_seconds = serializers.FloatField(allow_null=True)
    p50_seconds = serializers.FloatField(allow_null=True)
    p90_seconds = serializers.FloatField(allow_null=True)
    p95_seconds = serializers.FloatField(allow_null=True)
    placed_seconds = serializers.FloatField(allow_null=True, help_text="When it was placed.")


class WaitEstimateSerializer(serializers.Serializer[Any]):
    """Estimates of the start of a job, newest first."""

    job = serializers.UUIDField()
    cluster_seconds = serializers.FloatField()
    results = JobStartEstimateSerializer(many=True)


class QueueView(ApiView):
    """The queue."""

    query_parameters = frozenset({"project", "reason"})

    @extend_schema(
        parameters=[
            OpenApiParameter("project", str, description="Jobs of the project with this name."),
            OpenApiParameter("reason", enum=[*Reason], description="Jobs with this reason."),
        ],
        responses=QueueSerializer,
    )
    def get(self, request: Request) -> Response:
        """List the waiting jobs with one reason each and predicted starts, at most 10,000."""
        project = _given(request, "project", read_text)
        check_project_filter(request)
        projects, now_s = visible_projects(principal_of(request)), cluster_now()
        waiting = waiting_jobs(
            projects,
            project=project,
            reason=_given(request, "reason", lambda value: read_word(value, [*Reason])),
        )
        return answer(
            request,
            {
                "cluster_seconds": now_s,
                "jobs": [_job(job, now_s) for job in waiting.jobs],
                "is_cut": waiting.is_cut,
                "scores": [_score(score) for score in start_scores(projects, now_s=now_s)],
                "admission": _admission(admission_now()),
                "quotas": _quotas(quota_rows(projects)),
                "shares": _shares(share_rows(projects)),
                "reservations": [_reservation(row) for row in reservation_rows(projects)],
            },
        )


def _given(request: Request, name: str, parse: Callable[[str], str]) -> str | None:
    """Return a parameter of the address; None if it is not given."""
    value = request.query_params.get(name)
    return None if value is None else str(read(name, value, parse))


class JobWaitEstimate(ApiView):
    """Predicted starts of a job."""

    @extend_schema(responses=WaitEstimateSerializer)
    def get(self, request: Request, job_id: UUID) -> Response:
        """List the estimates of the start of a job, newest first."""
        job = visible_job(request, job_id)
        return answer(
            request,
            {
                "job": str(job.pk),
                "cluster_seconds": cluster_now(),
                "results": [_estimate(row) for row in estimates_of(job.pk)],
            },
        )


def _job(job: WaitingJob, now_s: float) -> dict[str, Any]:
    return {
        "id": str(job.id),
        "name": job.name,
        "project": job.project,
        "application": job.application,
        "units": job.units,
        "gang": job.is_gang,
        "priority": job.priority,
        "reason": job.reason,
        "message": job.message,
        "tier": job.tier,
        "waited_seconds": max(0.0, now_s - job.since_s),  # the clock is read before the jobs
        "p50_seconds": None if job.start_s is None else max(0.0, job.start_s - now_s),
        "p90_seconds": None if job.latest_s is None else max(0.0, job.latest_s - now_s),
        "ahead": job.ahead,
    }


def _reservation(row: ReservationRow) -> dict[str, Any]:
    return {
        "job": str(row.job),
        "name": row.name,
        "project": row.project,
        "priority": row.priority,
        "units": row.units,
        "free_units": row.free,
        "servers": row.servers,
        "made_seconds": row.made_s,
        "start_seconds": row.start_s,
        "promised_seconds": row.promised_s,
        "for_preemption": row.for_preemption,
    }


def _quotas(rows: Sequence[QuotaRow] | None) -> list[dict[str, Any]] | None:
    if rows is None:
        return None
    return [
        {
            "project": row.standing.name,
            "guaranteed_units": row.standing.guaranteed,
            "max_units": row.standing.limit,
            "used": row.standing.used,
            "borrowed": row.standing.borrowed,
            "lent": row.lent,
            "waiting": row.standing.waiting,
        }
        for row in rows
    ]


def _shares(rows: Sequence[ProjectShare] | None) -> list[dict[str, Any]] | None:
    if rows is None:
        return None
    return [
        {
            "project": row.project.name,
            **(represent_share(row) or {}),
            "shares": dict(zip(RESOURCES, row.shares, strict=True)),
        }
        for row in rows
    ]


def _admission(now: AdmissionNow | None) -> dict[str, Any] | None:
    if now is None:
        return None
    return {
        "control": now.control,
        "at": None if now.at is None else time(now.at),
        "cluster_seconds": now.cluster_s,
        "queues": [
            {
                "name": queue.name,
                "servers": queue.servers,
                "free_units": queue.free_units,
                "freed_per_second": queue.freed_per_s,
                "mean_seconds": queue.mean_s,
                "std_seconds": queue.std_s,
                "bound_seconds": queue.bound_s,
                "waiting": queue.waiting,
                "arrived_per_second": queue.arrived_per_s,
                "diverted_share": queue.diverted_share,
                "load_factor": queue.load_factor,
            }
            for queue in now.queues
        ],
    }


def _score(score: StartScore) -> dict[str, Any]:
    return {
        "kind": score.kind,
        "count": score.count,
        "unknown": score.unknown,
        "covered": score.covered,
        "by_p90": score.by_p90,
        "bias_seconds": score.bias_s,
        "waited_seconds": score.waited_s,
    }


def _estimate(row: StartEstimate) -> dict[str, Any]:
    return {
        "at": time(row.at),
        "made_seconds": row.made_s,
        "ahead": row.ahead,
        "p5_seconds": row.p5_s,
        "p50_seconds": row.p50_s,
        "p90_seconds": row.p90_s,
        "p95_seconds": row.p95_s,
        "placed_seconds": row.placed_s,
    }
