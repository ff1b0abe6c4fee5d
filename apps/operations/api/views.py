"""Events, the long poll, stream tickets and operations."""

import time
from typing import Any, ClassVar, Final
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import credential_of, principal_of, require_role
from apps.accounts.core.principal import Principal
from apps.accounts.core.roles import Role
from apps.accounts.selectors import current_principals
from apps.common.api.etags import expected_generation
from apps.common.api.paging import Order
from apps.common.api.problems import ProblemError
from apps.common.api.queries import (
    ListQuery,
    choice,
    choices,
    exact,
    moment,
    read,
    read_int,
    whole,
)
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import NotFoundError
from apps.common.core.preconditions import require_generation
from apps.common.core.problem_codes import ProblemCode
from apps.common.infrastructure.stream_origin import stream_origin
from apps.operations import selectors
from apps.operations.api.serializers import (
    ChangesSerializer,
    EventSerializer,
    OperationSerializer,
    TicketSerializer,
    represent_event,
    represent_operation,
)
from apps.operations.api.tickets import LIFETIME_S, issue_ticket
from apps.operations.core.states import OperationStatus, Topic
from apps.operations.models import Event, Operation
from apps.operations.services import cancel_operation

MAX_CHANGES: Final = 1000
MAX_WAIT_S: Final = 30
POLL_S: Final = 0.25


class EventList(ListView):
    """Events, newest first; `subject` selects one object.

    Events of an operation are shown to those who may read the operation.
    """

    row_serializer = EventSerializer
    orders: ClassVar = {
        "-id": Order(("seq",), descending=True),
        "id": Order(("seq",)),
    }
    filters: ClassVar = {
        "topic": choice("topic", Topic, "Topic."),
        "topic__in": choices("topic", Topic, "Any of these topics."),
        "kind": exact("kind", "Kind, e.g. job.placed."),
        "subject": exact("subject", "Id of the object."),
        "request_id": exact("request_id", "Id of the request that caused the event."),
        "at__gte": moment("at__gte", "At or after this time."),
        "at__lt": moment("at__lt", "Before this time."),
        "id__gt": whole("seq__gt", "After this position."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Event]:
        """Return the events the caller may see."""
        return selectors.events(principal_of(request))

    def represent(self, row: Event) -> dict[str, Any]:
        """JSON of an event."""
        return represent_event(row)


class ChangesView(ApiView):
    """The event stream for scripts: a long poll from a position.

    Events of an operation are sent to those who may read the operation.
    """

    rate_class = "stream"
    query_parameters = frozenset({"since", "wait", "limit", "topics"})

    @extend_schema(
        responses=ChangesSerializer,
        parameters=[
            OpenApiParameter(
                "since", int, description="Last position received; default: the current one."
            ),
            OpenApiParameter("wait", int, description="Seconds to wait for an event, up to 30."),
            OpenApiParameter("limit", int, description="Maximum number of events, up to 1000."),
            OpenApiParameter("topics", str, description="Topics, comma separated."),
        ],
    )
    def get(self, request: Request) -> Response:
        """Return the events after a position, or wait for the next one."""
        params = request.query_params
        low, high, newest = selectors.resume_bounds()
        wait_s = read(
            "wait", params.get("wait", "0"), lambda v: read_int(v, low=0, high=MAX_WAIT_S)
        )
        limit = read(
            "limit", params.get("limit", "500"), lambda v: read_int(v, low=1, high=MAX_CHANGES)
        )
        topics = read("topics", params.get("topics", ""), read_topics)
        since = params.get("since")
        position = high if since is None else read("since", since, lambda v: read_int(v, low=0))
        if 0 < position < low - 1:  # 0 requests all stored events
            raise ProblemError(
                ProblemCode.STREAM_POSITION_GONE,
                f"Events up to {low - 1} have been deleted.",
                extra={"position": high},
            )
        if position > newest > 0:  # of a database that was replaced by an older copy
            position = high
        found, position = _wait_for(request, position, topics, limit=limit, wait_s=wait_s)
        body = {"results": [represent_event(event) for event in found], "position": position}
        return answer(request, body)


def read_topics(value: str) -> frozenset[str]:
    """Parse a list of topics; empty means all."""
    topics = frozenset(value.split(",")) if value else frozenset[str]()
    if topics - set(Topic):
        raise ValueError(f"must be among {', '.join(Topic)}")
    return topics


def _wait_for(
    request: Request, position: int, topics: frozenset[str], *, limit: int, wait_s: int
) -> tuple[list[Event], int]:
    """Return events after ``position`` that concern the caller, and the position reached."""
    until = time.monotonic() + wait_s
    principal, has_waited = principal_of(request), False
    while True:
        events = selectors.events_after(position, limit=limit)
        if events:
            position = events[-1].seq
            if has_waited:
                principal = _current_principal(request)
        mine = [
            event
            for event in events
            if selectors.may_see(principal, event) and (not topics or event.topic in topics)
        ]
        if mine or time.monotonic() >= until:
            return mine, position
        if not events:
            # A waiting request must not keep a database connection of its own.
            if not connection.in_atomic_block:
                connection.close()
            time.sleep(POLL_S)
            has_waited = True


def _current_principal(request: Request) -> Principal:
    """Return the rights of the caller after a wait.

    Raises
    ------
    ProblemError : the token or session of the request is no longer valid.
    """
    credential = credential_of(request)
    principal = current_principals([credential]).get(credential)
    if principal is None:
        raise ProblemError(
            ProblemCode.NOT_AUTHENTICATED, "The token or session ended during the wait."
        )
    return principal


class TicketView(ApiView):
    """Passes to the event stream."""

    takes_body = False
    rate_class = "stream"
    write_role = Role.VIEWER

    @extend_schema(request=None, responses={201: TicketSerializer})
    def post(self, request: Request) -> Response:
        """Issue a ticket for the event stream, valid once within a minute."""
        ticket = issue_ticket(credential_of(request))
        body = {
            "ticket": ticket,
            "url": f"{settings.BERTH_STREAM_ORIGIN}/api/v1/stream/?ticket={ticket}",
            "expires_in_seconds": LIFETIME_S,
        }
        return Response(body, status=201)


class StreamRedirect(ApiView):
    """Server-sent events; served by a process of its own.

    Events of an operation are sent to those who may read the operation. The number of open streams
    per user is limited: one more is answered with 429 and Retry-After.
    """

    rate_class = "stream"
    query_parameters = frozenset({"topics", "since", "ticket"})
    has_fields = False
    has_tags = False
    authentication_classes = ()
    permission_classes = ()

    @extend_schema(
        responses={(200, "text/event-stream"): str},
        parameters=[
            OpenApiParameter("topics", str, description="Topics, comma separated; none = all."),
            OpenApiParameter("since", int, description="Resume after this position."),
            OpenApiParameter("ticket", str, description="A ticket from stream/tickets/."),
            OpenApiParameter("Last-Event-ID", str, OpenApiParameter.HEADER),
        ],
    )
    def get(self, request: Request) -> Response:
        """Follow events as they happen (`text/event-stream`), resuming after `Last-Event-ID`."""
        if not settings.BERTH_STREAM_ORIGIN:
            raise ProblemError(
                ProblemCode.SERVICE_UNAVAILABLE,
                "No event stream is configured here; follow /api/v1/changes/ instead.",
            )
        target = stream_origin(request.get_host()) + request.get_full_path()
        return Response(status=307, headers={"Location": target})


class OperationList(ListView):
    """Long work, newest first."""

    row_serializer = OperationSerializer
    orders: ClassVar = {"-created_at": Order(("created_at", "id"), descending=True)}
    filters: ClassVar = {
        "kind": exact("kind", "Of this kind."),
        "status": choice("status", OperationStatus, "In this status."),
        "status__in": choices("status", OperationStatus, "In any of these."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Operation]:
        """Return the operations the caller may see."""
        return selectors.operations(principal_of(request))

    def represent(self, row: Operation) -> dict[str, Any]:
        """JSON of an operation."""
        return represent_operation(row)


def visible_operation(request: Request, operation_id: UUID) -> Operation:
    """Return an operation.

    Raises
    ------
    NotFoundError : there is none the caller may see.
    """
    found = selectors.operation(principal_of(request), operation_id)
    if found is None:
        raise NotFoundError(f"There is no operation {operation_id}.")
    return found


class OperationDetail(ApiView):
    """One operation."""

    @extend_schema(responses=OperationSerializer)
    def get(self, request: Request, operation_id: UUID) -> Response:
        """Return how far an operation is."""
        found = visible_operation(request, operation_id)
        return answer(request, represent_operation(found), generation=found.generation)


class OperationCancel(ApiView):
    """Cancelling an operation."""

    takes_body = False
    takes_match = frozenset({"POST"})

    @extend_schema(request=None, responses=OperationSerializer)
    def post(self, request: Request, operation_id: UUID) -> Response:
        """Request the cancellation of an operation; a pending one ends at once."""
        found = visible_operation(request, operation_id)
        if found.project_id is not None:
            require_role(request, Role.SUBMITTER, found.project_id)
        require_generation(expected_generation(request._request), found.generation)
        cancelled = cancel_operation(operation_id)
        return answer(request, represent_operation(cancelled), generation=cancelled.generation)
