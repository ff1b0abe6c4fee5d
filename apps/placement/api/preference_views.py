"""Views of preference sets: derive and check weights, and store them."""

from typing import Any, ClassVar
from uuid import UUID

import numpy as np
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.common.api.etags import expected_generation
from apps.common.api.inputs import validated
from apps.common.api.paging import Order
from apps.common.api.queries import ListQuery, choice, exact, flag, uid
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.common.core.keyed_requests import KeyedResponse
from apps.operations.api.idempotency import once
from apps.placement.api.preference_serializers import (
    DerivationSerializer,
    IntermediatePointsSerializer,
    PairSerializer,
    PickingCheckSerializer,
    PickingSerializer,
    PreferenceSetEditSerializer,
    PreferenceSetRequestSerializer,
    PreferenceSetSerializer,
    represent_check,
    represent_derivation,
    represent_set,
)
from apps.placement.core.preference.comparison import compare_optimum, compare_with_bounds
from apps.placement.core.preference.derivation import PreferenceInput, columns_of
from apps.placement.core.problem.objectives import OBJECTIVES
from apps.placement.models import PreferenceSet, WeightRule
from apps.placement.selectors import preferences as selectors
from apps.placement.selectors.preferences import FrontPicking
from apps.placement.services.preference.sets import (
    NewPreferenceSet,
    create_preference_set,
    delete_preference_set,
    update_preference_set,
)
from apps.placement.tasks.fronts import solve_on_worker


def front_picking(given: dict[str, Any]) -> FrontPicking:
    """Return the requested picking with its front version.

    Raises
    ------
    InvalidInputError : there is no such front or version, or the rule requires one.
    """
    rule = given["rule"]
    picking = PreferenceInput(
        rule=rule,
        picks=given.get("picks", {}),
        rejected=given.get("rejected", []),
        wanted=given.get("wanted", {}),
        bounds=given.get("bounds", {}),
        others=selectors.named_others(given.get("picks", {}), given.get("bounds", {})),
    )
    if "front" in given:
        version = selectors.requested_version(given["front"], given.get("version"))
        return FrontPicking(picking, version)
    if rule != WeightRule.DIRECT:
        problem = FieldProblem("/front", "required", f"required for the rule {rule}")
        raise InvalidInputError([problem])
    return FrontPicking(picking, None)


class DeriveView(ApiView):
    """Derivation of weights from picks."""

    write_role = Role.VIEWER  # writes nothing
    rate_class = "read"

    @extend_schema(request=PickingSerializer, responses=DerivationSerializer)
    def post(self, request: Request) -> Response:
        """Return the weights that picks give, with warnings; writes nothing."""
        picking = front_picking(validated(PickingSerializer, request.data))
        return Response(represent_derivation(picking.derive_weights()))


class PreferenceCheckView(ApiView):
    """Check of picks against the answer of the solver."""

    write_role = Role.VIEWER  # writes nothing
    rate_class = "solver"

    @extend_schema(request=PickingSerializer, responses=PickingCheckSerializer)
    def post(self, request: Request) -> Response:
        """Solve the workload of the front under the derived weights, and compare; writes nothing.

        A worker solves it within a few seconds.
        """
        picking = front_picking(validated(PickingSerializer, request.data))
        if picking.version is None:
            problem = FieldProblem("/front", "required", "required: the check needs a workload")
            raise InvalidInputError([problem])
        weights = picking.derive_weights().weights.weights
        solved = solve_on_worker(picking.version.front_id, weights)
        star = {**solved.others, **solved.normalised}
        values = np.array([star[name] for name in OBJECTIVES])
        front, given = picking.values, picking.input
        result = compare_optimum(values, front, given.distinct(), picking.wanted)
        columns = columns_of(front, picking.bounded_columns())
        result = compare_with_bounds(result, star, columns, weights, given.bounds)
        return Response(represent_check(solved, result))


class IntermediatePointsView(ApiView):
    """Points between two placements."""

    write_role = Role.VIEWER  # writes nothing
    rate_class = "read"

    @extend_schema(request=PairSerializer, responses=IntermediatePointsSerializer)
    def post(self, request: Request) -> Response:
        """Return the points of a front between two others, at most fifty."""
        given = validated(PairSerializer, request.data)
        version = selectors.requested_version(given["front"], given.get("version"))
        points = selectors.points_between(version, given["points"])
        return Response(
            {
                "front": str(version.front_id),
                "version": version.number,
                "points": points.tolist(),
            }
        )


class PreferenceSetList(ListView):
    """Preference sets, newest first; create a new one."""

    row_serializer = PreferenceSetSerializer
    write_role = Role.OPERATOR
    takes_key = True
    orders: ClassVar = {
        "-created_at": Order(("created_at", "id"), descending=True),
        "created_at": Order(("created_at", "id")),
    }
    filters: ClassVar = {
        "name": exact("name", "With this name."),
        "rule": choice("rule", WeightRule.values, "Derived by this rule."),
        "front": uid("version__front", "From this front."),
        "parent": uid("parent", "Based on this set."),
        "created_by": exact("created_by__username", "Created by this user."),
        "is_new": flag("latest_activation__isnull", "Never in force."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[PreferenceSet]:
        """Return all sets."""
        return selectors.preference_sets()

    def prepare(self, rows: list[PreferenceSet]) -> None:
        """Read the activation in force."""
        self._in_force = selectors.weights_in_force()

    def represent(self, row: PreferenceSet) -> dict[str, Any]:
        """Return a preference set as JSON."""
        return represent_set(row, self._in_force)

    @extend_schema(
        request=PreferenceSetRequestSerializer, responses={201: PreferenceSetSerializer}
    )
    def post(self, request: Request) -> Response:
        """Store picks and the weights they give under a name."""
        given = validated(PreferenceSetRequestSerializer, request.data)
        new = NewPreferenceSet(
            given["name"], given["note"], front_picking(given), given.get("parent")
        )

        def create() -> KeyedResponse:
            row = create_preference_set(new, by=principal_of(request).user_id)
            body = represent_set(selectors.preference_set(row.pk), selectors.weights_in_force())
            return KeyedResponse(201, f"/api/v1/preference-sets/{row.pk}/", body)

        return once(request, request.data, create)


class PreferenceSetDetail(ApiView):
    """One preference set."""

    takes_match = frozenset({"PATCH", "DELETE"})
    write_role = Role.OPERATOR

    @extend_schema(responses=PreferenceSetSerializer)
    def get(self, request: Request, set_id: UUID) -> Response:
        """Return a set with its picks, rule and weights."""
        return _answer_set(request, set_id)

    @extend_schema(request=PreferenceSetEditSerializer, responses=PreferenceSetSerializer)
    def patch(self, request: Request, set_id: UUID) -> Response:
        """Change the name or the note of a set."""
        selectors.preference_set(set_id)
        given = validated(PreferenceSetEditSerializer, request.data)
        expected = expected_generation(request._request)
        update_preference_set(
            set_id, name=given.get("name"), note=given.get("note"), expected=expected
        )
        return _answer_set(request, set_id)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, set_id: UUID) -> Response:
        """Delete a set that was never in force and has no plans."""
        selectors.preference_set(set_id)
        delete_preference_set(set_id, expected=expected_generation(request._request))
        return Response(status=204)


def _answer_set(request: Request, set_id: UUID) -> Response:
    """Answer with a preference set."""
    row = selectors.preference_set(set_id)
    body = represent_set(row, selectors.weights_in_force())
    return answer(request, body, generation=row.generation)
