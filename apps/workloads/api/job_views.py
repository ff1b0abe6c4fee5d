"""Views of jobs: submit, list, read, change and cancel."""

from collections.abc import Callable
from typing import Any, Final, TypeVar
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of, require_role
from apps.accounts.core.roles import Role
from apps.common.api.etags import expected_generation
from apps.common.api.inputs import idempotency_key, validated
from apps.common.api.paging import Order
from apps.common.api.problems import ProblemError
from apps.common.api.queries import (
    Filter,
    ListQuery,
    any_of,
    choice,
    choices,
    exact,
    flag,
    invalid_parameter,
    label,
    moment,
    read_float,
    read_list_query,
    read_text,
    read_time,
    read_uuid,
    repeatable,
    uid,
    uids,
    whole,
)
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import NotFoundError
from apps.common.core.keyed_requests import KeyedResponse
from apps.common.core.preconditions import require_generation
from apps.common.core.problem_codes import ProblemCode
from apps.common.infrastructure.notifications import notify
from apps.common.infrastructure.request_id import current_request_id
from apps.operations.api.idempotency import once
from apps.workloads import selectors
from apps.workloads.api.representations import represent_job, represent_job_briefly
from apps.workloads.api.serializers import (
    CancelledSerializer,
    ExpectSerializer,
    JobPatchSerializer,
    JobRequestSerializer,
    JobSerializer,
    SubmittedJobSerializer,
)
from apps.workloads.api.submission import (
    caller_as_user,
    choose_project,
    job_url,
    submission_warnings,
)
from apps.workloads.core.lifecycle import JobState
from apps.workloads.core.reasons import Reason
from apps.workloads.core.spec import parse_changes, parse_job
from apps.workloads.core.targets import TargetKind
from apps.workloads.models import Job
from apps.workloads.services import (
    cancel_jobs,
    delete_job,
    resubmit,
    set_held,
    submit_jobs,
    update_job,
)

_Result = TypeVar("_Result")
MAX_BODY_BYTES: Final = 2 << 20  # an archive of files takes most of it

BY_AGE = {
    "-created_at": Order(("created_at", "id"), descending=True),
    "created_at": Order(("created_at", "id")),
}
JOB_FILTERS = {
    "id__in": uids("id", "With one of these ids."),
    "state": choice("state", JobState, "In this state."),
    "state__in": choices("state", JobState, "In one of these states."),
    "reason": choice("reason_code", Reason, "With this reason."),
    "application": Filter(
        lambda value: selectors.of_application(read_text(value)),
        "Of the application with this name.",
    ),
    "application__in": any_of("application__name", "Of one of these applications."),
    "project": Filter(
        lambda value: selectors.in_project(read_text(value)), "In the project with this name."
    ),
    "name": Filter(
        lambda value: Q(name=read_text(value), id__named_with=value),
        "With exactly this name.",
    ),
    "q": Filter(
        lambda value: selectors.name_search(read_text(value)),
        "Whose name has words that begin with these.",
    ),
    "label": label("terms__labels", "With this label, name:value; repeatable."),
    "target_kind": choice("target_kind", TargetKind, "With this kind of target."),
    "priority__gte": whole("priority__gte", "With at least this priority."),
    "held": flag("held", "Whether the job is held."),
    "batch": uid("batch_id", "Of this batch."),
    "array": Filter(
        lambda value: selectors.members_of(read_uuid(value)),
        "Member of this array.",
        {"type": "string", "format": "uuid"},
    ),
    "request_id": exact("terms__correlation_id", "Submitted by the request with this id."),
    "attainment__lt": Filter(
        lambda value: selectors.attained("lt", read_float(value)),
        "Below this attainment.",
        {"type": "number"},
    ),
    "attainment__gte": Filter(
        lambda value: selectors.attained("gte", read_float(value)),
        "At or above this attainment.",
        {"type": "number"},
    ),
    "created_at__gte": moment("created_at__gte", "Submitted at or after."),
    "created_at__lt": moment("created_at__lt", "Submitted before."),
    "finished_at__gte": moment("finished_at__gte", "Ended at or after."),
    # a job that ended before was submitted before: the list need not read the later ones
    "finished_at__lt": Filter(
        lambda value: Q(finished_at__lt=read_time(value), created_at__lt=read_time(value)),
        "Ended before.",
        {"type": "string", "format": "date-time"},
    ),
}


def notify_agents() -> None:
    """Wake the scheduling agents once the transaction has committed."""
    notify("scheduling.agent", queue="agents")


class JobList(ListView):
    """Jobs: list the ones you may see, submit new ones."""

    takes_key = True
    max_body_bytes = MAX_BODY_BYTES
    row_serializer = JobSerializer
    brief_fields = ("id", "name", "state")
    orders = BY_AGE
    filters = JOB_FILTERS

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Job]:
        """Return the jobs the caller may see."""
        check_project_filter(request)
        return selectors.visible_jobs(principal_of(request))

    def represent(self, row: Job) -> dict[str, Any]:
        """JSON of a job."""
        return represent_job(row)

    def represent_briefly(self, row: Job) -> dict[str, Any]:
        """JSON that identifies a job."""
        return represent_job_briefly(row)

    @extend_schema(request=JobRequestSerializer, responses={201: SubmittedJobSerializer})
    def post(self, request: Request) -> Response:
        """Submit a job. Once this responds, the job is stored and survives a server failure."""
        principal = principal_of(request)
        spec = parse_job(request.data, limits=selectors.job_limits())
        project = choose_project(principal, spec.project)
        require_key(request, project.pk)

        def submit() -> KeyedResponse:
            (job,) = submit_jobs(
                [spec],
                project=project,
                user=caller_as_user(principal),
                correlation_id=current_request_id(),
            )
            notify_agents()
            body = {**represent_job(job), "warnings": submission_warnings(spec)}
            return KeyedResponse(201, job_url(job.pk), body)

        return once(request, request.data, submit)


def require_key(request: Request, project_id: UUID) -> None:
    """Refuse a service account's request without a key if the project requires one."""
    if not principal_of(request).is_service or idempotency_key(request._request) is not None:
        return
    if not selectors.is_key_optional(project_id):
        raise ProblemError(
            ProblemCode.KEY_REQUIRED,
            "Service accounts of this project must send an Idempotency-Key.",
        )


def check_project_filter(request: Request) -> None:
    """Check that the query names a project that the caller may see, or none.

    Raises
    ------
    ProblemError : the caller may not see it, or it does not exist.
    """
    name = request.query_params.get("project")
    if name is not None and not selectors.is_visible_project(principal_of(request), name):
        sentence = f"must be a project that you may see, not {name!r:.60}"
        raise invalid_parameter("project", sentence)


def visible_job(request: Request, job_id: UUID) -> Job:
    """Return a job.

    Raises
    ------
    NotFoundError : it does not exist, or the caller may not see it.
    """
    job = selectors.visible_job(principal_of(request), job_id)
    if job is None:
        raise NotFoundError(selectors.missing_job(job_id))
    return job


def own_job(request: Request, job_id: UUID) -> Job:
    """Return a job the caller may change."""
    job = visible_job(request, job_id)
    require_role(request, Role.SUBMITTER, job.project_id)
    return job


def guarded(request: Request, job_id: UUID, change: Callable[[], _Result]) -> _Result:
    """Run a change of a job in one transaction with the check of If-Match."""
    expected = expected_generation(request._request)
    with transaction.atomic():
        if expected is not None:
            generation = selectors.locked_generation(job_id)
            if generation is not None:
                require_generation(expected, generation)
        return change()


class JobDetail(ApiView):
    """One job."""

    takes_match = frozenset({"PATCH", "DELETE"})

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
        notify_agents()
        return _present(request, job_id)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, job_id: UUID) -> Response:
        """Delete a job that has ended, with its history."""
        own_job(request, job_id)
        delete_job(job_id, expected=expected_generation(request._request))
        return Response(status=204)


def _present(request: Request, job_id: UUID, status: int = 200) -> Response:
    job = visible_job(request, job_id)
    return answer(request, represent_job(job), generation=job.generation, status=status)


class JobCancel(ApiView):
    """Cancel one job."""

    takes_body = False
    takes_match = frozenset({"POST"})

    @extend_schema(request=None, responses={200: JobSerializer, 202: JobSerializer})
    def post(self, request: Request, job_id: UUID) -> Response:
        """Cancel a job: 200 if it has ended, 202 if its backend is still stopping it."""
        job = own_job(request, job_id)
        changed = guarded(
            request, job_id, lambda: cancel_jobs([job_id], request_id=current_request_id())
        )
        if not changed and job.state != JobState.CANCELLED and not job.cancel_requested:
            raise ProblemError(
                ProblemCode.STATE_CONFLICT, f"A {job.state} job cannot be cancelled."
            )
        notify_agents()
        after = visible_job(request, job_id)
        is_over = after.state == JobState.CANCELLED
        return answer(
            request,
            represent_job(after),
            generation=after.generation,
            status=200 if is_over else 202,
        )


class JobHold(ApiView):
    """Hold a waiting job."""

    takes_body = False
    takes_match = frozenset({"POST"})

    @extend_schema(request=None, responses=JobSerializer)
    def post(self, request: Request, job_id: UUID) -> Response:
        """Exclude a waiting job from placement."""
        own_job(request, job_id)
        guarded(request, job_id, lambda: set_held(job_id, held=True))
        return _present(request, job_id)


class JobRelease(ApiView):
    """Release a held job."""

    takes_body = False
    takes_match = frozenset({"POST"})

    @extend_schema(request=None, responses=JobSerializer)
    def post(self, request: Request, job_id: UUID) -> Response:
        """Make a held job available for placement again."""
        own_job(request, job_id)
        guarded(request, job_id, lambda: set_held(job_id, held=False))
        notify_agents()
        return _present(request, job_id)


class JobRerun(ApiView):
    """Run a job again."""

    takes_body = False
    takes_key = True

    @extend_schema(request=None, responses={201: JobSerializer})
    def post(self, request: Request, job_id: UUID) -> Response:
        """Submit a new job with the specification of this one, and its index in its array."""
        job = own_job(request, job_id)
        principal = principal_of(request)
        require_key(request, job.project_id)

        def submit() -> KeyedResponse:
            again = resubmit(
                job,
                selectors.spec_of(job),
                user=caller_as_user(principal),
                correlation_id=current_request_id(),
            )
            notify_agents()
            return KeyedResponse(201, job_url(again.pk), represent_job(again))

        return once(request, None, submit)


class JobsCancel(ApiView):
    """Cancel all jobs that match a filter."""

    query_parameters = frozenset(JOB_FILTERS)
    repeatable_parameters = repeatable(JOB_FILTERS)

    @extend_schema(request=ExpectSerializer, responses=CancelledSerializer)
    def post(self, request: Request) -> Response:
        """Cancel the jobs that match the query's filters, if their number is as expected."""
        expect = validated(ExpectSerializer, request.data)["expect"]
        query = read_list_query(request.query_params, JOB_FILTERS)
        if not query.given:
            raise ProblemError(ProblemCode.INVALID_PARAMETER, "Give at least one filter.")
        check_project_filter(request)
        return Response(cancel_matching(request, query.where, expect))


def cancel_matching(request: Request, where: Any, expect: int) -> dict[str, int]:
    """Cancel the matching jobs if their number is as expected.

    Raises
    ------
    ProblemError : the number differs, or the caller may not change all of their projects.
    """
    principal = principal_of(request)
    with transaction.atomic():
        matching = selectors.jobs_matching(principal, where, limit=expect + 1)
        if len(matching) != expect:
            count = max(len(matching), selectors.visible_jobs(principal).filter(where).count())
            found = "1 job matches" if count == 1 else f"{count:,} jobs match"
            expected = "1 was" if expect == 1 else f"{expect:,} were"
            detail = f"{found}, but {expected} expected."
            raise ProblemError(ProblemCode.COUNT_DIFFERS, detail)
        for project_id in {project_id for _, project_id in matching}:
            require_role(request, Role.SUBMITTER, project_id)
        cancelled = cancel_jobs([job for job, _ in matching], request_id=current_request_id())
    notify_agents()
    return {"matched": len(matching), "cancelled": cancelled}
