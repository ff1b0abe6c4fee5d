"""Fronts: searched in the background, looked at while they get better."""

from collections import defaultdict
from typing import Any, ClassVar, Final
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.common.core.errors import FieldProblem, InvalidInputError, NotFoundError
from apps.common.inputs import validated
from apps.common.paging import Order
from apps.common.queries import ListQuery, choice, choices, exact, moment, read, read_int
from apps.common.views import ApiView, ListView, answer
from apps.operations.api.idempotency import once
from apps.operations.api.serializers import OperationSerializer, represent_operation
from apps.operations.core.keys import KeyedAnswer
from apps.operations.core.states import OperationStatus
from apps.placement.api.front_serializers import (
    FrontRequestSerializer,
    FrontRowSerializer,
    FrontSerializer,
    PointSerializer,
    PointsSerializer,
    represent_front,
    represent_point,
    represent_points,
    represent_row,
)
from apps.placement.core.front import MOST_SHOWN
from apps.placement.core.instance import Instance
from apps.placement.core.instance_file import parse
from apps.placement.models import Front, FrontSource, FrontVersion
from apps.placement.selectors import fronts as selectors
from apps.placement.selectors.drift import drift_of
from apps.placement.services.fronts import NewFront, begin_front, stop_front

MOST_BYTES: Final = 32 << 20
_VERSION: Final = OpenApiParameter(
    "version", int, description="Of this version; the latest when left out."
)


class FrontList(ListView):
    """Fronts, newest first; ask for another one."""

    row_serializer = FrontRowSerializer
    write_role = Role.OPERATOR
    takes_key = True
    max_body_bytes = MOST_BYTES
    orders: ClassVar = {
        "-created_at": Order(("created_at", "id"), descending=True),
        "created_at": Order(("created_at", "id")),
    }
    filters: ClassVar = {
        "state": choice("operation__status", OperationStatus, "In this state."),
        "state__in": choices("operation__status", OperationStatus, "In any of these states."),
        "source": choice("source", FrontSource.values, "Of this source."),
        "created_by": exact("created_by__username", "Asked for by this user."),
        "created_at__gte": moment("created_at__gte", "Asked for at or after."),
        "created_at__lt": moment("created_at__lt", "Asked for before."),
    }
    _versions: dict[UUID, list[FrontVersion]]

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Front]:
        """Return all fronts."""
        return selectors.fronts()

    def prepare(self, rows: list[Front]) -> None:
        """Fetch the versions of the page's fronts at once."""
        self._versions = defaultdict(list)
        for version in selectors.versions_of(row.pk for row in rows):
            self._versions[version.front_id].append(version)

    def represent(self, row: Front) -> dict[str, Any]:
        """JSON of a front in short."""
        return represent_row(row, self._versions[row.pk])

    @extend_schema(request=FrontRequestSerializer, responses={202: OperationSerializer})
    def post(self, request: Request) -> Response:
        """Search a front in the background; answers with the operation, which names it.

        Its `arguments.front` is the id of the front. The best found so far can be looked at while
        the search goes on.
        """
        given = validated(FrontRequestSerializer, request.data)
        wanted = _wanted(given)

        def begin() -> KeyedAnswer:
            front = begin_front(wanted, by=principal_of(request).user_id)
            location = f"/api/v1/operations/{front.operation_id}/"
            body = represent_operation(front.operation)
            return KeyedAnswer(202, location, body)

        return once(request, request.data, begin)


def _wanted(given: dict[str, Any]) -> NewFront:
    """Check what was given of the workload.

    Raises
    ------
    InvalidInputError : an instance that is no good, or too much, or too little.
    """
    is_given = given["source"] == FrontSource.INSTANCE
    moment_s = given.get("cluster_seconds")
    problems = []
    if is_given and "instance" not in given:
        problems.append(FieldProblem("/instance", "required", "hand one in, or take the cluster"))
    if not is_given and "instance" in given:
        detail = "only with the source instance"
        problems.append(FieldProblem("/instance", "not_allowed", detail))
    if is_given and moment_s is not None:
        detail = "only with the source cluster"
        problems.append(FieldProblem("/cluster_seconds", "not_allowed", detail))
    if problems:
        raise InvalidInputError(problems)
    instance = _instance(given["instance"]) if is_given else None
    return NewFront(given["budget_seconds"], given["seed"], instance, moment_s)


def _instance(data: Any) -> Instance:
    try:
        instance = parse(data)
    except InvalidInputError as error:
        raise InvalidInputError(
            [FieldProblem(f"/instance{p.pointer}", p.code, p.detail) for p in error.problems]
        ) from error
    if not instance.job.size:
        detail = "must have a container: there is nothing to place"
        raise InvalidInputError([FieldProblem("/instance/containers", "too_few", detail)])
    return instance


class FrontDetail(ApiView):
    """One front, by id or name."""

    @extend_schema(responses=FrontSerializer)
    def get(self, request: Request, key: str) -> Response:
        """Return a front: how far its search is, its versions, and what stands beside it."""
        front = selectors.front_named(key)
        versions = selectors.versions_of([front.pk])
        return answer(request, represent_front(front, versions, drift_of(front)))


class FrontStop(ApiView):
    """Ending a search."""

    write_role = Role.OPERATOR

    @extend_schema(request=None, responses=OperationSerializer)
    def post(self, request: Request, key: str) -> Response:
        """End a search before its time; what it has found stays."""
        operation = stop_front(selectors.front_named(key))
        return answer(request, represent_operation(operation), generation=operation.generation)


class FrontPoints(ApiView):
    """The points of a front."""

    query_parameters = frozenset({"version", "most"})

    @extend_schema(
        responses=PointsSerializer,
        parameters=[
            _VERSION,
            OpenApiParameter(
                "most",
                int,
                description=f"At most so many, spread over all; fewer are always among more. "
                f"{MOST_SHOWN} when left out.",
            ),
        ],
    )
    def get(self, request: Request, key: str) -> Response:
        """Return the points of a version, column by column."""
        most = request.query_params.get("most", str(MOST_SHOWN))
        limit = read("most", most, lambda v: read_int(v, low=1, high=MOST_SHOWN))
        version = asked_version(request, selectors.front_named(key))
        points = selectors.points_of(version)
        return answer(request, represent_points(version, points, points.among(limit)))


class FrontPoint(ApiView):
    """One point of a front: where it puts the containers of every project's jobs."""

    read_role = Role.OPERATOR
    query_parameters = frozenset({"version"})

    @extend_schema(
        operation_id="fronts_points_get_one", responses=PointSerializer, parameters=[_VERSION]
    )
    def get(self, request: Request, key: str, index: int) -> Response:
        """Return one placement: what it is worth, and the node of each container."""
        front = selectors.front_named(key)
        version = asked_version(request, front)
        if index >= version.shown:
            raise NotFoundError(f"{front} v{version.number} has points 0-{version.shown - 1}.")
        assignment = selectors.assignments_of(version.pk)[index]
        points, instance = selectors.points_of(version), selectors.instance_of(front.pk)
        return answer(request, represent_point(version, points, index, instance, assignment))


def asked_version(request: Request, front: Front) -> FrontVersion:
    """Return the version a request asks for, the latest unless it says."""
    given = request.query_params.get("version")
    number = None
    if given is not None:
        number = read("version", given, lambda v: read_int(v, low=1, high=2**31 - 1))
    return selectors.version_of(front, number)
