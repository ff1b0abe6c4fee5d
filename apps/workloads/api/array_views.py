"""Job arrays: jobs of one specification, each with an index."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of, require_role
from apps.accounts.core.roles import Role
from apps.common.api.etags import expected_generation
from apps.common.api.inputs import validated
from apps.common.api.paging import Order
from apps.common.api.queries import Filter, ListQuery, moment, read_text
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import NotFoundError
from apps.common.core.keyed_requests import KeyedResponse
from apps.common.infrastructure.request_id import current_request_id
from apps.operations.api.idempotency import once
from apps.workloads import selectors
from apps.workloads.api.batch_serializers import (
    ArrayLimitSerializer,
    ArrayRequestSerializer,
    JobArrayDetailSerializer,
    JobArraySerializer,
)
from apps.workloads.api.job_views import (
    MAX_BODY_BYTES,
    check_project_filter,
    notify_agents,
    require_key,
)
from apps.workloads.api.representations import represent_array
from apps.workloads.api.serializers import CancelledSerializer
from apps.workloads.api.submission import caller_as_user, choose_project, parse_array_job
from apps.workloads.models import Batch
from apps.workloads.services import cancel_array, set_array_limit, submit_array


class ArrayList(ListView):
    """Job arrays: list the ones you may see, submit new ones."""

    takes_key = True
    max_body_bytes = MAX_BODY_BYTES
    row_serializer = JobArraySerializer
    orders: ClassVar = {"-created_at": Order(("created_at", "id"), descending=True)}
    filters: ClassVar = {
        "project": Filter(
            lambda value: selectors.in_project(read_text(value)), "In the project with this name."
        ),
        "created_at__gte": moment("created_at__gte", "Submitted at or after."),
        "created_at__lt": moment("created_at__lt", "Submitted before."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Batch]:
        """Return the arrays the caller may see."""
        check_project_filter(request)
        return selectors.visible_arrays(principal_of(request))

    def represent(self, row: Batch) -> dict[str, Any]:
        """JSON of an array."""
        return represent_array(row)

    @extend_schema(request=ArrayRequestSerializer, responses={201: JobArrayDetailSerializer})
    def post(self, request: Request) -> Response:
        """Submit an array: all its members, or none if a field is invalid."""
        principal = principal_of(request)
        spec, array = parse_array_job(request.data)
        project = choose_project(principal, spec.project)
        require_key(request, project.pk)

        def submit() -> KeyedResponse:
            row = submit_array(
                spec,
                array,
                project=project,
                user=caller_as_user(principal),
                correlation_id=current_request_id(),
            )
            notify_agents()
            return KeyedResponse(201, f"/api/v1/arrays/{row.pk}/", _detail(row))

        return once(request, request.data, submit)


def _detail(array: Batch) -> dict[str, Any]:
    states, waiting = selectors.array_states(array.pk)
    return represent_array(array) | {"states": states, "waiting_for_limit": waiting}


def visible_array(request: Request, array_id: UUID) -> Batch:
    """Return an array.

    Raises
    ------
    NotFoundError : it does not exist, or the caller may not see it.
    """
    array = selectors.visible_arrays(principal_of(request)).filter(pk=array_id).first()
    if array is None:
        raise NotFoundError(f"There is no array {array_id}.")
    return array


def own_array(request: Request, array_id: UUID) -> Batch:
    """Return an array the caller may change."""
    array = visible_array(request, array_id)
    require_role(request, Role.SUBMITTER, array.project_id)
    return array


class ArrayDetail(ApiView):
    """One array."""

    takes_match = frozenset({"PATCH"})

    @extend_schema(responses=JobArrayDetailSerializer)
    def get(self, request: Request, array_id: UUID) -> Response:
        """Return an array and the number of its members by state."""
        return _present(request, array_id)

    @extend_schema(request=ArrayLimitSerializer, responses=JobArrayDetailSerializer)
    def patch(self, request: Request, array_id: UUID) -> Response:
        """Change the limit: a lower one holds members that wait for units, and stops none."""
        own_array(request, array_id)
        limit = validated(ArrayLimitSerializer, request.data)["limit"]
        set_array_limit(array_id, limit, expected=expected_generation(request._request))
        return _present(request, array_id)


def _present(request: Request, array_id: UUID) -> Response:
    array = visible_array(request, array_id)
    return answer(request, _detail(array), generation=array.generation)


class ArrayCancel(ApiView):
    """Cancel an array."""

    takes_body = False

    @extend_schema(request=None, responses=CancelledSerializer)
    def post(self, request: Request, array_id: UUID) -> Response:
        """Cancel all members of an array that have not ended."""
        own_array(request, array_id)
        matched, cancelled = cancel_array(array_id, request_id=current_request_id())
        notify_agents()
        return Response({"matched": matched, "cancelled": cancelled})
