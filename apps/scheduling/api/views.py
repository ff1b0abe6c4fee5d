"""Views of decisions, and of their results for jobs and servers."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.common.api.paging import Order
from apps.common.api.queries import (
    Filter,
    ListQuery,
    choice,
    exact,
    moment,
    number,
    read_int,
    read_text,
    uid,
)
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import NotFoundError
from apps.inventory.api.views import named_server
from apps.inventory.selectors import cluster_now, server_names
from apps.operations.api.serializers import EventSerializer, represent_event
from apps.operations.models import Event
from apps.operations.selectors import events
from apps.scheduling.api import reads
from apps.scheduling.api.serializers import (
    CandidatesSerializer,
    DecisionSerializer,
    ExplanationSerializer,
    PlacementSerializer,
    represent_candidates,
    represent_decision,
    represent_explanation,
    represent_placement,
)
from apps.scheduling.models import Allocation, Decision, Outcome
from apps.scheduling.selectors import current_decision, working_allocations
from apps.scheduling.selectors.decisions import (
    decisions_about,
    decisions_at,
    decisions_retried,
)
from apps.workloads.api.job_views import JobList, visible_job
from apps.workloads.models import Job

NEWEST_FIRST = {"-at": Order(("at", "id"), descending=True), "at": Order(("at", "id"))}
DECISION_FILTERS = {
    "job": uid("job_id", "About this job."),
    "outcome": choice("outcome", Outcome.values, "With this outcome."),
    "reason": exact("reason_code", "For this reason."),
    "policy": exact("policy", "By this policy."),
    "agent": exact("agent", "By this agent."),
    "application": Filter(
        lambda value: decisions_about(read_text(value)), "About jobs of this application."
    ),
    "at__gte": moment("at__gte", "Made at or after."),
    "at__lt": moment("at__lt", "Made before."),
    "elapsed_seconds__gte": number("elapsed_s__gte", "That took at least this long."),
    "commit_retries__gte": Filter(
        lambda value: decisions_retried(read_int(value)),
        "That lost at least this number of commits.",
        {"type": "integer"},
    ),
}


class DecisionList(ListView):
    """The log of decisions, newest first."""

    row_serializer = DecisionSerializer
    brief_fields = ("id", "job", "outcome")
    orders = NEWEST_FIRST
    filters = DECISION_FILTERS

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Decision]:
        """Return the decisions the caller may see."""
        return reads.visible_decisions(principal_of(request))

    def represent(self, row: Decision) -> dict[str, Any]:
        """JSON of a decision."""
        return represent_decision(row)

    def represent_briefly(self, row: Decision) -> dict[str, Any]:
        """JSON that identifies a decision."""
        return {"id": str(row.pk), "job": str(row.job_id), "outcome": str(row.outcome)}


def visible_decision(request: Request, decision_id: UUID) -> Decision:
    """Return a decision.

    Raises
    ------
    NotFoundError : it does not exist, or the caller may not see it.
    """
    decision = reads.decision(principal_of(request), decision_id)
    if decision is None:
        raise NotFoundError(f"There is no decision {decision_id}.")
    return decision


class DecisionDetail(ApiView):
    """One decision."""

    @extend_schema(responses=DecisionSerializer)
    def get(self, request: Request, decision_id: UUID) -> Response:
        """Return a decision."""
        return answer(request, represent_decision(visible_decision(request, decision_id)))


class DecisionCandidates(ApiView):
    """Candidates of a decision."""

    @extend_schema(responses=CandidatesSerializer)
    def get(self, request: Request, decision_id: UUID) -> Response:
        """Return the candidate table of a decision, best first."""
        decision = visible_decision(request, decision_id)
        ids = {row["server_id"] for row in decision.candidates if row.get("server_id") is not None}
        return answer(request, represent_candidates(decision, server_names(ids)))


class JobExplanation(ApiView):
    """Explanation of a job's state."""

    @extend_schema(responses=ExplanationSerializer)
    def get(self, request: Request, job_id: UUID) -> Response:
        """Explain a job's state from its last decision, or that of a job with an equal request."""
        job = visible_job(request, job_id)
        decision = current_decision(job)
        servers: list[str] = []
        if decision is not None:
            ids = list(
                working_allocations(decision).order_by("id").values_list("server_id", flat=True)
            )
            names = server_names(ids)
            servers = [names[pk] for pk in dict.fromkeys(ids) if pk in names]
        return answer(request, represent_explanation(job, decision, servers, now_s=cluster_now()))


class JobPlacements(ListView):
    """Allocations of a job, newest first."""

    row_serializer = PlacementSerializer
    orders: ClassVar = {"-id": Order(("id",), descending=True)}
    _names: dict[int, str]

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Allocation]:
        """Return the job's allocations."""
        return reads.allocations_of(visible_job(request, kwargs["job_id"]))

    def prepare(self, rows: list[Allocation]) -> None:
        """Fetch the names of the page's servers in one query."""
        self._names = server_names(row.server_id for row in rows)

    def represent(self, row: Allocation) -> dict[str, Any]:
        """JSON of an allocation."""
        return represent_placement(row, self._names)


class JobDecisions(DecisionList):
    """The decisions about one job, newest first."""

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Decision]:
        """Return the job's decisions."""
        job = visible_job(request, kwargs["job_id"])
        return super().rows(request, query).filter(job=job)


class JobEvents(ListView):
    """Events of a job, oldest first."""

    row_serializer = EventSerializer
    orders: ClassVar = {"id": Order(("seq",)), "-id": Order(("seq",), descending=True)}

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Event]:
        """Return the job's events."""
        job = visible_job(request, kwargs["job_id"])
        return events(principal_of(request)).filter(subject=str(job.pk))

    def represent(self, row: Event) -> dict[str, Any]:
        """JSON of an event."""
        return represent_event(row)


class ServerJobs(JobList):
    """The jobs that hold units of a server now."""

    http_method_names = ("get", "head", "options")

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Job]:
        """Return the server's jobs that the caller may see."""
        server = named_server(kwargs["key"])
        return super().rows(request, query).filter(reads.jobs_on(server.pk))


class ServerDecisions(DecisionList):
    """The decisions that placed units on a server, newest first."""

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Decision]:
        """Return the server's decisions that the caller may see."""
        server = named_server(kwargs["key"])
        return super().rows(request, query).filter(decisions_at([server.pk]))
