"""What placements are judged by: objectives built in, and those that somebody added."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.common.core.errors import FieldProblem, InvalidInputError, NotFoundError
from apps.common.etags import expected_generation
from apps.common.inputs import validated
from apps.common.representations import time
from apps.common.views import ApiView, answer
from apps.inventory.models import Rack
from apps.operations.api.idempotency import once
from apps.operations.core.keys import KeyedAnswer
from apps.placement.core.curves import Curve, parse_curves
from apps.placement.core.objectives import BUILT_IN
from apps.placement.models import CurveObjective
from apps.placement.selectors.objectives import objectives
from apps.placement.services.objectives import add_objective, remove_objective, weigh_objective

MOST_WEIGHT = 1e6


class WeightSerializer(serializers.Serializer[Any]):
    """What an objective counts on the running cluster."""

    weight = serializers.FloatField(
        min_value=0.0, max_value=MOST_WEIGHT, help_text="In F, beside the weights in force."
    )


class ObjectiveRequestSerializer(serializers.Serializer[Any]):
    """Money or carbon: what a kilowatt-hour costs, in steps, by rack."""

    name = serializers.CharField(help_text="Lower-case letters, digits and _.")
    label = serializers.CharField(required=False)  # type: ignore[assignment]  # shadows
    unit = serializers.CharField(required=False)
    hours = serializers.ListField(child=serializers.FloatField(), help_text="Length of each step.")
    curve = serializers.DictField(
        child=serializers.ListField(child=serializers.FloatField()),
        help_text='A kilowatt-hour in each step, by rack; "" is any other.',
    )
    weight = serializers.FloatField(min_value=0.0, max_value=MOST_WEIGHT, default=0.0)


class ObjectiveSerializer(serializers.Serializer[Any]):
    """One objective; what is null is of those that were added."""

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
        allow_null=True, help_text="In F on the running cluster, beside the weights in force."
    )
    created_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField(allow_null=True)


class ObjectivesSerializer(serializers.Serializer[Any]):
    """The registry of objectives."""

    results = ObjectiveSerializer(many=True)


class ObjectiveList(ApiView):
    """What placements are judged by; add what else watts cost."""

    write_role = Role.ADMIN
    takes_key = True

    @extend_schema(operation_id="objectives_list", responses=ObjectivesSerializer)
    def get(self, request: Request) -> Response:
        """Return the registry: what is built in, then what was added."""
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
        return answer(request, {"results": [*built_in, *map(_represented, objectives())]})

    @extend_schema(request=ObjectiveRequestSerializer, responses={201: ObjectiveSerializer})
    def post(self, request: Request) -> Response:
        """Add an objective that charges watts by a curve of prices or carbon intensities."""
        name, curve, weight = _read(request.data)
        by = principal_of(request).user_id

        def add() -> KeyedAnswer:
            row = add_objective(name, curve, weight=weight, by=by)
            return KeyedAnswer(201, f"/api/v1/objectives/{name}/", _represented(row))

        return once(request, request.data, add)


class ObjectiveDetail(ApiView):
    """One objective that somebody added."""

    write_role = Role.ADMIN

    @extend_schema(responses=ObjectiveSerializer)
    def get(self, request: Request, name: str) -> Response:
        """Return an objective."""
        row = objectives().filter(name=name).first()
        if row is None:
            raise NotFoundError(f"Nobody added an objective {name!r}.")
        return answer(request, _represented(row), generation=row.generation)

    @extend_schema(request=WeightSerializer, responses=ObjectiveSerializer)
    def patch(self, request: Request, name: str) -> Response:
        """Change what it counts on the running cluster, from the next plan on."""
        weight = validated(WeightSerializer, request.data)["weight"]
        expected = expected_generation(request._request)
        row = weigh_objective(name, weight, expected=expected)
        return answer(request, _represented(row), generation=row.generation)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Remove an objective."""
        remove_objective(name)
        return Response(status=204)


def _read(data: Any) -> tuple[str, Curve, float]:
    """Read an objective to add.

    Raises
    ------
    InvalidInputError : names every wrong field.
    """
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        wanted = "must be an object with name, hours and curve"
        raise InvalidInputError([FieldProblem("", "wrong_type", wanted)])
    name = data["name"]
    given = {key: value for key, value in data.items() if key not in {"name", "weight"}}
    weight = validated(WeightSerializer, {"weight": data.get("weight", 0.0)})["weight"]
    racks = list(Rack.objects.order_by("id").values_list("name", flat=True))
    try:
        curves = parse_curves({name: given}, racks)
    except InvalidInputError as error:
        raise InvalidInputError([_at_top(each, name) for each in error.problems]) from error
    return name, curves[name], weight


def _at_top(found: FieldProblem, name: str) -> FieldProblem:
    """Point into the request, which is one objective and not a list of them by name."""
    if found.code == "bad_name":
        return FieldProblem("/name", found.code, found.detail)
    return FieldProblem(found.pointer.removeprefix(f"/{name}"), found.code, found.detail)


def _represented(row: CurveObjective) -> dict[str, Any]:
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
