"""Preference sets: what picks lead to, told at once, and kept."""

from typing import Any, ClassVar
from uuid import UUID

import numpy as np
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.common.etags import expected_generation
from apps.common.inputs import validated
from apps.common.paging import Order
from apps.common.queries import ListQuery, choice, exact, flag, uid
from apps.common.views import ApiView, ListView, answer
from apps.operations.api.idempotency import once
from apps.operations.core.keys import KeyedAnswer
from apps.placement.api.preference_serializers import (
    BetweenSerializer,
    DerivationSerializer,
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
from apps.placement.core.checking import compare
from apps.placement.core.derivation import Picking
from apps.placement.core.front import OBJECTIVES
from apps.placement.models import PreferenceSet, Rule
from apps.placement.selectors import preferences as selectors
from apps.placement.selectors.preferences import Picked
from apps.placement.services.preferences import NewSet, forget_set, keep_set, rename_set
from apps.placement.tasks import star_by_worker


def picked(given: dict[str, Any]) -> Picked:
    """Find the front of what was accepted.

    Raises
    ------
    InvalidInputError : there is no such front or version, or the rule needs one.
    """
    rule = given["rule"]
    picking = Picking(
        rule=rule,
        picks=given.get("picks", {}),
        rejected=given.get("rejected", []),
        wanted=given.get("wanted", {}),
    )
    if "front" in given:
        version = selectors.version_asked(given["front"], given.get("version"))
        return Picked(picking, version)
    if rule != Rule.DIRECT:
        problem = FieldProblem("/front", "required", f"the rule {rule} is about a front: name it")
        raise InvalidInputError([problem])
    return Picked(picking, None)


class DeriveView(ApiView):
    """What picks lead to."""

    write_role = Role.VIEWER  # nothing is written
    rate_class = "read"

    @extend_schema(request=PickingSerializer, responses=DerivationSerializer)
    def post(self, request: Request) -> Response:
        """Return the weights that picks give, and what speaks against them; nothing is written."""
        found = picked(validated(PickingSerializer, request.data)).derived()
        return Response(represent_derivation(found))


class CheckView(ApiView):
    """What the solver returns under the weights that picks give."""

    write_role = Role.VIEWER  # nothing is written
    rate_class = "solver"

    @extend_schema(request=PickingSerializer, responses=PickingCheckSerializer)
    def post(self, request: Request) -> Response:
        """Solve the workload of the front under the weights, and compare; nothing is written.

        A worker solves; the answer takes a few seconds at most.
        """
        asked = picked(validated(PickingSerializer, request.data))
        if asked.version is None:
            problem = FieldProblem("/front", "required", "say on which workload to check them")
            raise InvalidInputError([problem])
        weights = asked.derived().weights.weights
        star = star_by_worker(asked.version.front_id, weights)
        values = np.array([star.normalised[name] for name in OBJECTIVES])
        found = compare(values, asked.values, asked.picking.distinct(), asked.wanted)
        return Response(represent_check(star, found))


class BetweenView(ApiView):
    """What lies between two placements."""

    write_role = Role.VIEWER  # nothing is written
    rate_class = "read"

    @extend_schema(request=PairSerializer, responses=BetweenSerializer)
    def post(self, request: Request) -> Response:
        """Return the points of a front between two others, at most fifty."""
        given = validated(PairSerializer, request.data)
        version = selectors.version_asked(given["front"], given.get("version"))
        found = selectors.between_two(version, given["points"])
        return Response(
            {
                "front": str(version.front_id),
                "version": version.number,
                "points": found.tolist(),
            }
        )


class PreferenceSetList(ListView):
    """Preference sets, newest first; keep another one."""

    row_serializer = PreferenceSetSerializer
    write_role = Role.OPERATOR
    takes_key = True
    orders: ClassVar = {
        "-created_at": Order(("created_at", "id"), descending=True),
        "created_at": Order(("created_at", "id")),
    }
    filters: ClassVar = {
        "name": exact("name", "Of this name."),
        "rule": choice("rule", Rule.values, "Made by this rule."),
        "front": uid("version__front", "Picked from this front."),
        "parent": uid("parent", "Made from this set."),
        "created_by": exact("created_by__username", "Kept by this user."),
        "is_new": flag("latest_activation__isnull", "Never in force."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[PreferenceSet]:
        """Return all sets."""
        return selectors.preference_sets()

    def prepare(self, rows: list[PreferenceSet]) -> None:
        """Find what is in force."""
        self._in_force = selectors.weights_in_force()

    def represent(self, row: PreferenceSet) -> dict[str, Any]:
        """JSON of a set."""
        return represent_set(row, self._in_force)

    @extend_schema(
        request=PreferenceSetRequestSerializer, responses={201: PreferenceSetSerializer}
    )
    def post(self, request: Request) -> Response:
        """Keep picks and the weights they give under a name."""
        given = validated(PreferenceSetRequestSerializer, request.data)
        wanted = NewSet(given["name"], given["note"], picked(given), given.get("parent"))

        def keep() -> KeyedAnswer:
            made = keep_set(wanted, by=principal_of(request).user_id)
            body = represent_set(selectors.preference_set(made.pk), selectors.weights_in_force())
            return KeyedAnswer(201, f"/api/v1/preference-sets/{made.pk}/", body)

        return once(request, request.data, keep)


class PreferenceSetDetail(ApiView):
    """One preference set."""

    write_role = Role.OPERATOR

    @extend_schema(responses=PreferenceSetSerializer)
    def get(self, request: Request, set_id: UUID) -> Response:
        """Return a set: its picks, the rule and the weights they gave."""
        return shown(request, set_id)

    @extend_schema(request=PreferenceSetEditSerializer, responses=PreferenceSetSerializer)
    def patch(self, request: Request, set_id: UUID) -> Response:
        """Give a set another name or note; what it says stays."""
        selectors.preference_set(set_id)
        given = validated(PreferenceSetEditSerializer, request.data)
        expected = expected_generation(request._request)
        rename_set(set_id, name=given.get("name"), note=given.get("note"), expected=expected)
        return shown(request, set_id)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, set_id: UUID) -> Response:
        """Forget a set that was never in force and that no plan came from."""
        selectors.preference_set(set_id)
        forget_set(set_id, expected=expected_generation(request._request))
        return Response(status=204)


def shown(request: Request, set_id: UUID) -> Response:
    """Answer with one set."""
    row = selectors.preference_set(set_id)
    body = represent_set(row, selectors.weights_in_force())
    return answer(request, body, generation=row.generation)
