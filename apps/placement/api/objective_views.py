"""Views of the built-in and the custom objectives of placements."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.common.api.etags import expected_generation
from apps.common.api.inputs import validated
from apps.common.api.representations import time
from apps.common.api.views import ApiView, answer
from apps.common.core.errors import FieldProblem, InvalidInputError, NotFoundError
from apps.common.core.keyed_requests import KeyedResponse
from apps.inventory.models import Rack
from apps.operations.api.idempotency import once
from apps.placement.core.problem.curves import (
    HIGHEST,
    MAX_STEPS,
    MAX_TEXT,
    NAME,
    Curve,
    parse_curves,
)
from apps.placement.core.problem.objectives import BUILT_IN
from apps.placement.models import CurveObjective
from apps.placement.selectors.objectives import objectives
from apps.placement.services.objectives import (
    add_objective,
    remove_objective,
    set_objective_weight,
)

MAX_WEIGHT = 1e6


class WeightSerializer(serializers.Serializer[Any]):
    """Weight of a custom objective on the running cluster."""

    weight = serializers.FloatField(
        min_value=0.0, max_value=MAX_WEIGHT, help_text="In F, added to the weights in force."
    )


class ObjectiveRequestSerializer(serializers.Serializer[Any]):
    """Cost or carbon of a kilowatt-hour by rack, as a step function of time."""

    name = serializers.RegexField(
        rf"^{NAME.pattern}$", help_text="Lower-case letters, digits and _."
    )
    label = serializers.CharField(  # type: ignore[assignment]  # shadows Field.label
        max_length=MAX_TEXT, required=False
    )
    unit = serializers.CharField(max_length=MAX_TEXT, required=False)
    hours = serializers.ListField(
        child=serializers.FloatField(min_value=0.0, max_value=HIGHEST),
        min_length=1,
        max_length=MAX_STEPS,
        help_text="Length of each interval.",
    )
    curve = serializers.DictField(
        child=serializers.ListField(
            child=serializers.FloatField(min_value=0.0, max_value=HIGHEST),
            min_length=1,
            max_length=MAX_STEPS,
        ),
        help_text='Per kilowatt-hour in each interval, by rack; "" is the default.',
    )
    weight = serializers.FloatField(min_value=0.0, max_value=MAX_WEIGHT, default=0.0)


class ObjectiveSerializer(serializers.Serializer[Any]):
    """An objective; the nullable fields belong to custom objectives."""

    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]  # shadows Field.label
    unit = serializers.CharField()
    is_higher_better = serializers.BooleanField()
    is_built_in = serializers.BooleanField()
    hours = serializers.ListField(child=serializers.FloatField(), allow_null=True)
    curve = serializers.DictField(
        child=serializers.ListField(child=serializers.FloatField()), allow_null=True
    )
    weight = serializers.FloatField(
        allow_null=True, help_text="In F on the running cluster, added to the weights in force."
    )
    created_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField(allow_null=True)


class ObjectivesSerializer(serializers.Serializer[Any]):
    """All objectives."""

    results = ObjectiveSerializer(many=True)


class ObjectiveList(ApiView):
    """The objectives of placements; add custom ones."""

    write_role = Role.ADMIN
    takes_key = True

    @extend_schema(operation_id="objectives_list", responses=ObjectivesSerializer)
    def get(self, request: Request) -> Response:
        """Return the built-in objectives, then the custom ones."""
        built_in = [
            {
                "name": name,
                "label": objective.label,
                "unit": objective.unit,
                "is_higher_better": objective.is_higher_better,
                "is_built_in": True,
                **dict.fromkeys(("hours", "curve", "weight", "created_by", "created_at")),
            }
            for name, objective in BUILT_IN.items()
        ]
        return answer(request, {"results": [*built_in, *map(_represent, objectives())]})

    @extend_schema(request=ObjectiveRequestSerializer, responses={201: ObjectiveSerializer})
    def post(self, request: Request) -> Response:
        """Add an objective that prices power by a curve of costs or carbon intensities."""
        name, curve, weight = _read(request.data)
        by = principal_of(request).user_id

        def add() -> KeyedResponse:
            row = add_objective(name, curve, weight=weight, by=by)
            return KeyedResponse(201, f"/api/v1/objectives/{name}/", _represent(row))

        return once(request, request.data, add)


class ObjectiveDetail(ApiView):
    """A custom objective."""

    takes_match = frozenset({"PATCH"})
    write_role = Role.ADMIN

    @extend_schema(responses=ObjectiveSerializer)
    def get(self, request: Request, name: str) -> Response:
        """Return an objective."""
        row = objectives().filter(name=name).first()
        if row is None:
            raise NotFoundError(f"There is no custom objective {name!r}.")
        return answer(request, _represent(row), generation=row.generation)

    @extend_schema(request=WeightSerializer, responses=ObjectiveSerializer)
    def patch(self, request: Request, name: str) -> Response:
        """Change its weight on the running cluster, from the next plan on."""
        weight = validated(WeightSerializer, request.data)["weight"]
        expected = expected_generation(request._request)
        row = set_objective_weight(name, weight, expected=expected)
        return answer(request, _represent(row), generation=row.generation)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Remove an objective."""
        remove_objective(name)
        return Response(status=204)


def _read(data: Any) -> tuple[str, Curve, float]:
    """Parse a new objective.

    Raises
    ------
    InvalidInputError : names every invalid field.
    """
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        detail = "must be an object with name, hours and curve"
        raise InvalidInputError([FieldProblem("", "wrong_type", detail)])
    name = data["name"]
    fields = {key: value for key, value in data.items() if key not in {"name", "weight"}}
    weight = validated(WeightSerializer, {"weight": data.get("weight", 0.0)})["weight"]
    racks = list(Rack.objects.order_by("id").values_list("name", flat=True))
    try:
        curves = parse_curves({name: fields}, racks)
    except InvalidInputError as error:
        raise InvalidInputError([_at_top(problem, name) for problem in error.problems]) from error
    return name, curves[name], weight


def _at_top(problem: FieldProblem, name: str) -> FieldProblem:
    """Make the pointer relative to the request, which is a single objective."""
    if problem.code == "bad_name":
        return FieldProblem("/name", problem.code, problem.detail)
    return FieldProblem(problem.pointer.removeprefix(f"/{name}"), problem.code, problem.detail)


def _represent(row: CurveObjective) -> dict[str, Any]:
    return {
        "name": row.name,
        "label": row.label,
        "unit": row.unit,
        "is_higher_better": False,
        "is_built_in": False,
        "hours": row.hours,
        "curve": row.curve,
        "weight": row.weight,
        "created_by": row.created_by.username,
        "created_at": time(row.created_at),
    }
