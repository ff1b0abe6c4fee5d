"""Weights in force: what is, what was, bringing others in and taking them back."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.common.etags import required_generation
from apps.common.inputs import validated
from apps.common.paging import Order
from apps.common.queries import ListQuery, exact, moment, uid
from apps.common.views import ApiView, ListView, answer
from apps.operations.api.idempotency import once
from apps.operations.core.keys import KeyedAnswer
from apps.placement.api.preference_serializers import (
    ActivationRequestSerializer,
    ActivationSerializer,
    RevertSerializer,
    WeightsInForceSerializer,
    represent_activation,
)
from apps.placement.models import Activation
from apps.placement.selectors import preferences as selectors
from apps.placement.services.activations import Guard, activate, revert


class ActivateView(ApiView):
    """Bringing the weights of a set into force."""

    write_role = Role.OPERATOR
    takes_key = True

    @extend_schema(request=ActivationRequestSerializer, responses={201: ActivationSerializer})
    def post(self, request: Request, set_id: UUID) -> Response:
        """Bring the weights of a set into force; If-Match says which version was looked at."""
        selectors.preference_set(set_id)
        expected = required_generation(request._request)
        given = validated(ActivationRequestSerializer, request.data)
        racks = selectors.racks_named(given["racks"])
        guard = given.get("guard")

        def bring() -> KeyedAnswer:
            made = activate(
                set_id,
                message=given["message"],
                racks=racks,
                guard=Guard(**guard) if guard else None,
                expected=expected,
                by=principal_of(request).user_id,
            )
            return _made(made)

        return once(request, request.data, bring)


class RevertView(ApiView):
    """Taking weights back."""

    write_role = Role.OPERATOR
    takes_key = True

    @extend_schema(request=RevertSerializer, responses={201: ActivationSerializer})
    def post(self, request: Request, activation_id: int) -> Response:
        """Bring back what was in force before this activation, which must be in force now.

        That is an activation, too: reverting it brings this one back.
        """
        selectors.activation(activation_id)
        message = validated(RevertSerializer, request.data)["message"]

        def take_back() -> KeyedAnswer:
            return _made(revert(activation_id, message=message, by=principal_of(request).user_id))

        return once(request, request.data, take_back)


def _made(made: Activation) -> KeyedAnswer:
    body = represent_activation(made, made, selectors.rack_names(made.racks))
    return KeyedAnswer(201, "/api/v1/weights/current/", body)


class WeightsInForce(ApiView):
    """What is in force."""

    @extend_schema(responses=WeightsInForceSerializer)
    def get(self, request: Request) -> Response:
        """Return the weights in force, and since when."""
        found = selectors.weights_in_force()
        if found is None:
            return answer(request, {"activation": None})
        racks = selectors.rack_names(found.racks)
        return answer(request, {"activation": represent_activation(found, found, racks)})


class ActivationList(ListView):
    """All weights that ever came into force, newest first."""

    row_serializer = ActivationSerializer
    orders: ClassVar = {
        "-id": Order(("id",), descending=True),
        "id": Order(("id",)),
    }
    filters: ClassVar = {
        "preference_set": uid("preference_set", "Of this set."),
        "created_by": exact("created_by__username", "Brought in by this user."),
        "created_at__gte": moment("created_at__gte", "At or after."),
        "created_at__lt": moment("created_at__lt", "Before."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Activation]:
        """Return all activations."""
        return selectors.activations()

    def prepare(self, rows: list[Activation]) -> None:
        """Find what is in force, and the names of racks."""
        self._in_force = selectors.weights_in_force()
        self._racks = selectors.rack_names(rack for row in rows for rack in row.racks)

    def represent(self, row: Activation) -> dict[str, Any]:
        """JSON of an activation."""
        return represent_activation(row, self._in_force, self._racks)
