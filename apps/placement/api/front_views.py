"""Views of fronts, which improve while a worker searches."""

from collections import defaultdict
from dataclasses import replace
from typing import Any, ClassVar, Final
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.common.api.inputs import validated
from apps.common.api.paging import Order
from apps.common.api.queries import ListQuery, choice, choices, exact, moment, read, read_int
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import FieldProblem, InvalidInputError, NotFoundError
from apps.common.core.keyed_requests import KeyedResponse
from apps.inventory.selectors import cluster_now
from apps.operations.api.idempotency import once
from apps.operations.api.serializers import OperationSerializer, represent_operation
from apps.operations.core.states import OperationStatus
from apps.placement.api.front_serializers import (
    HIDDEN,
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
from apps.placement.core.front.archive import MAX_SHOWN
from apps.placement.core.front.moments import window_moments
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.instance_file import parse
from apps.placement.models import Front, FrontSource, FrontVersion
from apps.placement.selectors import fronts as selectors
from apps.placement.selectors.drift import front_coverage, front_drift
from apps.placement.selectors.fronts import Points
from apps.placement.selectors.other_objectives import evaluated_points
from apps.placement.services.front.fronts import FrontRequest, request_front, stop_front
from apps.workloads.selectors import visible_jobs

MAX_BYTES: Final = 32 << 20
_VERSION: Final = OpenApiParameter(
    "version", int, description="Version of the front; the latest if omitted."
)


class FrontList(ListView):
    """Fronts, newest first; request a new one."""

    row_serializer = FrontRowSerializer
    write_role = Role.OPERATOR
    takes_key = True
    max_body_bytes = MAX_BYTES
    orders: ClassVar = {
        "-created_at": Order(("created_at", "id"), descending=True),
        "created_at": Order(("created_at", "id")),
    }
    filters: ClassVar = {
        "state": choice("operation__status", OperationStatus, "In this state."),
        "state__in": choices("operation__status", OperationStatus, "In any of these states."),
        "source": choice("source", FrontSource.values, "With this source."),
        "created_by": exact("created_by__username", "Requested by this user."),
        "created_at__gte": moment("created_at__gte", "Requested at or after this time."),
        "created_at__lt": moment("created_at__lt", "Requested before this time."),
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
        """Return a summary of a front as JSON."""
        return represent_row(row, self._versions[row.pk])

    @extend_schema(request=FrontRequestSerializer, responses={202: OperationSerializer})
    def post(self, request: Request) -> Response:
        """Request a front; answers with the operation, whose `arguments.front` is its id.

        The best points found so far can be read during the search.
        """
        given = validated(FrontRequestSerializer, request.data)
        front_request = _front_request(given)

        def begin() -> KeyedResponse:
            front = request_front(front_request, by=principal_of(request).user_id)
            location = f"/api/v1/operations/{front.operation_id}/"
            body = represent_operation(front.operation)
            return KeyedResponse(202, location, body)

        return once(request, request.data, begin)


def _front_request(given: dict[str, Any]) -> FrontRequest:
    """Return the requested front.

    Raises
    ------
    InvalidInputError : the instance is invalid, missing, or not allowed for the source.
    """
    is_given = given["source"] == FrontSource.INSTANCE
    problems = []
    if is_given and "instance" not in given:
        problems.append(FieldProblem("/instance", "required", "required for the source instance"))
    if not is_given and "instance" in given:
        detail = "only allowed for the source instance"
        problems.append(FieldProblem("/instance", "not_allowed", detail))
    times = ("cluster_seconds", "moments", "window_seconds")
    named = [name for name in times if given.get(name) is not None]
    if is_given:
        detail = "only allowed for the source cluster"
        problems += [FieldProblem(f"/{name}", "not_allowed", detail) for name in named]
    if "moments" in named and len(named) > 1:
        detail = "not allowed with cluster_seconds or window_seconds"
        problems.append(FieldProblem("/moments", "not_allowed", detail))
    if problems:
        raise InvalidInputError(problems)
    instance = _instance(given["instance"]) if is_given else None
    moments = tuple(sorted(set(given.get("moments", ()))))
    until_s = given.get("cluster_seconds")
    if (window_s := given.get("window_seconds")) is not None:
        moments = window_moments(cluster_now() if until_s is None else until_s, window_s)
    return FrontRequest(
        given["budget_seconds"],
        given["seed"],
        instance,
        cluster_s=None if moments else until_s,
        moments=moments,
    )


def _instance(data: Any) -> Instance:
    try:
        instance = parse(data)
    except InvalidInputError as error:
        raise InvalidInputError(
            [FieldProblem(f"/instance{p.pointer}", p.code, p.detail) for p in error.problems]
        ) from error
    if not instance.job.size:
        detail = "must contain at least one container"
        raise InvalidInputError([FieldProblem("/instance/containers", "too_few", detail)])
    return instance


class FrontDetail(ApiView):
    """One front, by id or name."""

    @extend_schema(responses=FrontSerializer)
    def get(self, request: Request, key: str) -> Response:
        """Return a front with its progress, versions and reference placements."""
        front = selectors.front_by_key(key)
        versions = selectors.versions_of([front.pk])
        drift = front_drift(front)
        coverage = front_coverage(front, drift)
        return answer(request, represent_front(front, versions, drift, coverage))


class FrontStop(ApiView):
    """Stop of a search."""

    takes_body = False
    write_role = Role.OPERATOR

    @extend_schema(request=None, responses=OperationSerializer)
    def post(self, request: Request, key: str) -> Response:
        """Stop a search before its budget is used; its versions are kept."""
        operation = stop_front(selectors.front_by_key(key))
        return answer(request, represent_operation(operation), generation=operation.generation)


class FrontPoints(ApiView):
    """The points of a front."""

    query_parameters = frozenset({"version", "most", "objectives"})

    @extend_schema(
        responses=PointsSerializer,
        parameters=[
            _VERSION,
            OpenApiParameter(
                "most",
                int,
                description="Maximum number of points, spread over the front; a larger limit"
                f" includes the points of a smaller one. {MAX_SHOWN} if omitted.",
            ),
            OpenApiParameter(
                "objectives",
                str,
                description="Names of objectives besides P, D and C, separated by commas: the"
                " stored placements are evaluated by them. `M` counts migrations from the"
                " placement of the workload.",
            ),
        ],
    )
    def get(self, request: Request, key: str) -> Response:
        """Return the points of a version as columns."""
        most = request.query_params.get("most", str(MAX_SHOWN))
        limit = read("most", most, lambda v: read_int(v, low=1, high=MAX_SHOWN))
        front = selectors.front_by_key(key)
        version = requested_version(request, front)
        points = _with_visible_jobs(request, front, selectors.points_of(version))
        given = request.query_params.get("objectives", "")
        names = given.split(",") if given else []
        others = read("objectives", given, lambda _: list(evaluated_points(version, names)))
        shown = points.representatives(limit)
        return answer(request, represent_points(version, points, shown, others))


def _with_visible_jobs(request: Request, front: Front, points: Points) -> Points:
    """Return points that name no job of a project that the caller may not see."""
    caller, named = principal_of(request), {job for job in points.worst_job if job}
    if front.source == FrontSource.INSTANCE or caller.sees_everything() or not named:
        return points
    rows = visible_jobs(caller).filter(pk__in=named).values_list("pk", flat=True)
    visible = {None, *map(str, rows)}
    shown = [job if job in visible else HIDDEN for job in points.worst_job]
    return replace(points, worst_job=shown)


class FrontPoint(ApiView):
    """One point of a front, with the placement of the jobs of every project."""

    read_role = Role.OPERATOR
    query_parameters = frozenset({"version"})

    @extend_schema(
        operation_id="fronts_points_get_one", responses=PointSerializer, parameters=[_VERSION]
    )
    def get(self, request: Request, key: str, index: int) -> Response:
        """Return one placement: its objectives and the node of each container."""
        front = selectors.front_by_key(key)
        version = requested_version(request, front)
        if index >= version.shown:
            raise NotFoundError(
                f"{front} version {version.number} has the points 0-{version.shown - 1}."
            )
        assignment = selectors.assignments_of(version.pk)[index]
        placed = selectors.placed_containers(front, assignment)
        return answer(
            request, represent_point(version, selectors.points_of(version), index, placed)
        )


def requested_version(request: Request, front: Front) -> FrontVersion:
    """Return the version that a request names; the latest if it names none."""
    given = request.query_params.get("version")
    number = None
    if given is not None:
        number = read("version", given, lambda v: read_int(v, low=1, high=2**31 - 1))
    return selectors.version_of(front, number)
