"""Jobs: submit, list, read, change, end."""

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of, require_role
from apps.accounts.core.roles import Role
from apps.common.core.errors import NotFoundError
from apps.common.core.preconditions import require_generation
from apps.common.core.problem_codes import ProblemCode
from apps.common.etags import expected_generation
from apps.common.inputs import validated
from apps.common.paging import Order
from apps.common.poke import poke
from apps.common.problems import ProblemError
from apps.common.queries import (
    ListQuery,
    any_of,
    choice,
    choices,
    exact,
    flag,
    label,
    moment,
    number,
    read_list_query,
    uid,
    uids,
    whole,
)
from apps.common.request_id import current_request_id
from apps.common.views import ApiView, ListView, answer
from apps.operations.api.idempotency import HEADER, once
from apps.operations.core.keys import KeyedAnswer
from apps.workloads import selectors
from apps.workloads.api.representations import represent_job, represent_job_briefly
from apps.workloads.api.serializers import (
    CancelledSerializer,
    ExpectSerializer,
    JobPatchSerializer,
    JobRequestSerializer,
    JobSerializer,
)
from apps.workloads.api.submission import caller_as_user, choose_project, job_url
from apps.workloads.core.lifecycle import JobState
from apps.workloads.core.reasons import Reason
from apps.workloads.core.spec import parse_changes, parse_job
from apps.workloads.core.targets import TargetKind
from apps.workloads.models import Job
from apps.workloads.services import cancel_jobs, delete_job, set_held, submit_jobs, update_job

_Result = TypeVar("_Result")

BY_AGE = {
    "-created_at": Order(("created_at", "id"), descending=True),
    "created_at": Order(("created_at", "id")),
}
JOB_FILTERS = {
    "id__in": uids("id", "With any of these ids."),
    "state": choice("state", JobState, "In this state."),
    "state__in": choices("state", JobState, "In any of these states."),
    "reason": choice("reason_code", Reason, "For this reason where it is."),
    "application": exact("application__name", "Of the application with this name."),
    "application__in": any_of("application__name", "Of any of these applications."),
    "project": exact("project__name", "In the project with this name."),
    "name": exact("name", "With exactly this name."),
    "q": exact("name__icontains", "With this in its name."),
    "label": label("labels", "With this label, name:value; repeatable."),
    "target_kind": choice("target_kind", TargetKind, "With this kind of target."),
    "priority__gte": whole("priority__gte", "At least this urgent."),
    "held": flag("held", "Held or not."),
    "batch": uid("batch_id", "Of this batch."),
    "request_id": exact("correlation_id", "Submitted by the request with this id."),
    "attainment__lt": number("attainment__lt", "Below this attainment."),
    "attainment__gte": number("attainment__gte", "At or above this attainment."),
    "created_at__gte": moment("created_at__gte", "Submitted at or after."),
    "created_at__lt": moment("created_at__lt", "Submitted before."),
    "finished_at__gte": moment("finished_at__gte", "Ended at or after."),
    "finished_at__lt": moment("finished_at__lt", "Ended before."),
}


def poke_agents() -> None:
    """Wake the scheduling agents once the transaction has committed."""
    poke("scheduling.agent", queue="agents")


class JobList(ListView):
    """Jobs: list the ones you may see, submit new ones."""

    takes_key = True
    row_serializer = JobSerializer
    orders = BY_AGE
    filters = JOB_FILTERS

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Job]:
        """Return the jobs the caller may see."""
        return selectors.visible_jobs(principal_of(request))

    def represent(self, row: Job) -> dict[str, Any]:
        """JSON of a job."""
        return represent_job(row)

    def represent_briefly(self, row: Job) -> dict[str, Any]:
        """Return what identifies a job."""
        return represent_job_briefly(row)

    @extend_schema(request=JobRequestSerializer, responses={201: JobSerializer})
    def post(self, request: Request) -> Response:
        """Submit a job; it is accepted when this answers, whatever happens to this server then."""
        principal = principal_of(request)
        spec = parse_job(request.data)
        project = choose_project(principal, spec.project)
        if principal.is_service and HEADER not in request.META:
            require_key(project.pk)

        def submit() -> KeyedAnswer:
            (job,) = submit_jobs(
                [spec],
                project=project,
                user=caller_as_user(principal),
                correlation_id=current_request_id(),
            )
            poke_agents()
            return KeyedAnswer(201, job_url(job.pk), represent_job(job))

        return once(request, request.data, submit)


def require_key(project_id: UUID) -> None:
    """Refuse a service account's request without a key where the project asks for one."""
    if not selectors.is_key_optional(project_id):
        raise ProblemError(
            ProblemCode.KEY_REQUIRED, "Service accounts of this project must send a key."
        )


def visible_job(request: Request, job_id: UUID) -> Job:
    """Return a job.

    Raises
    ------
    NotFoundError : there is none the caller may see.
    """
    job = selectors.visible_job(principal_of(request), job_id)
    if job is None:
        raise NotFoundError(f"There is no job {job_id}.")
    return job


def own_job(request: Request, job_id: UUID) -> Job:
    """Return a job the caller may change."""
    job = visible_job(request, job_id)
    require_role(request, Role.SUBMITTER, job.project_id)
    return job


def guarded(request: Request, job_id: UUID, change: Callable[[], _Result]) -> _Result:
    """Run a change of a job in a transaction in which If-Match still holds."""
    expected = expected_generation(request._request)
    with transaction.atomic():
        if expected is not None:
            generation = selectors.locked_generation(job_id)
            if generation is not None:
                require_generation(expected, generation)
        return change()


class JobDetail(ApiView):
    """One job."""

    @extend_schema(responses=JobSerializer)
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return a job."""
        job = visible_job(request, job_id)
        return answer(request, represent_job(job), generation=job.generation)

    @extend_schema(request=JobPatchSerializer, responses=JobSerializer)
    def patch(self, request: Request, job_id: UUID) -> Response:
        """Change a job's target, priority, name, labels or annotations."""
        own_job(request, job_id)
        changes = parse_changes(request.data)
        guarded(request, job_id, lambda: update_job(job_id, changes))
        poke_agents()
        return _present(request, job_id)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, job_id: UUID) -> Response:
        """Remove a job that has ended, with its history."""
        own_job(request, job_id)
        guarded(request, job_id, lambda: delete_job(job_id))
        return Response(status=204)


def _present(request: Request, job_id: UUID, status: int = 200) -> Response:
    job = visible_job(request, job_id)
    return answer(request, represent_job(job), generation=job.generation, status=status)


class JobCancel(ApiView):
    """Cancelling one job."""

    @extend_schema(request=None, responses={200: JobSerializer, 202: JobSerializer})
    def post(self, request: Request, job_id: UUID) -> Response:
        """Cancel a job: 200 when it has ended, 202 while its backend still stops it."""
        job = own_job(request, job_id)
        changed = guarded(
            request, job_id, lambda: cancel_jobs([job_id], request_id=current_request_id())
        )
        if not changed and job.state != JobState.CANCELLED and not job.cancel_requested:
            raise ProblemError(
                ProblemCode.STATE_CONFLICT, f"A {job.state} job cannot be cancelled."
            )
        poke_agents()
        after = visible_job(request, job_id)
        is_over = after.state == JobState.CANCELLED
        return answer(
            request,
            represent_job(after),
            generation=after.generation,
            status=200 if is_over else 202,
        )


class JobHold(ApiView):
    """Holding a waiting job."""

    @extend_schema(request=None, responses=JobSerializer)
    def post(self, request: Request, job_id: UUID) -> Response:
        """Keep a waiting job from being placed."""
        own_job(request, job_id)
        guarded(request, job_id, lambda: set_held(job_id, held=True))
        return _present(request, job_id)


class JobRelease(ApiView):
    """Releasing a held job."""

    @extend_schema(request=None, responses=JobSerializer)
    def post(self, request: Request, job_id: UUID) -> Response:
        """Let a held job be placed."""
        own_job(request, job_id)
        guarded(request, job_id, lambda: set_held(job_id, held=False))
        poke_agents()
        return _present(request, job_id)


class JobRerun(ApiView):
    """Running a job again."""

    takes_key = True

    @extend_schema(request=None, responses={201: JobSerializer})
    def post(self, request: Request, job_id: UUID) -> Response:
        """Submit a new job with the specification of this one."""
        job = own_job(request, job_id)
        principal = principal_of(request)

        def submit() -> KeyedAnswer:
            (again,) = submit_jobs(
                [selectors.spec_of(job)],
                project=job.project,
                user=caller_as_user(principal),
                correlation_id=current_request_id(),
            )
            poke_agents()
            return KeyedAnswer(201, job_url(again.pk), represent_job(again))

        return once(request, None, submit)


class JobsCancel(ApiView):
    """Cancelling all jobs that match a filter."""

    query_parameters = frozenset(JOB_FILTERS)

    @extend_schema(request=ExpectSerializer, responses=CancelledSerializer)
    def post(self, request: Request) -> Response:
        """Cancel the jobs that match the query's filters, if they are as many as expected."""
        expect = validated(ExpectSerializer, request.data)["expect"]
        query = read_list_query(request.query_params, JOB_FILTERS)
        if not query.given:
            raise ProblemError(ProblemCode.INVALID_PARAMETER, "Give at least one filter.")
        return Response(cancel_matching(request, query.where, expect))


def cancel_matching(request: Request, where: Any, expect: int) -> dict[str, int]:
    """Cancel what matches, provided that it is as many as the caller saw.

    Raises
    ------
    ProblemError : another number matches, or some belong to projects the caller may not change.
    """
    principal = principal_of(request)
    with transaction.atomic():
        found = selectors.jobs_matching(principal, where, limit=expect + 1)
        if len(found) != expect:
            count = f"more than {expect}" if len(found) > expect else str(len(found))
            raise ProblemError(
                ProblemCode.COUNT_DIFFERS, f"{count} jobs match, {expect} were expected."
            )
        for project_id in {project_id for _, project_id in found}:
            require_role(request, Role.SUBMITTER, project_id)
        cancelled = cancel_jobs([job for job, _ in found], request_id=current_request_id())
    poke_agents()
    return {"matched": len(found), "cancelled": cancelled}
