"""Views of the weights in force and their activations."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.common.api.etags import required_generation
from apps.common.api.inputs import validated
from apps.common.api.paging import Order
from apps.common.api.queries import ListQuery, exact, moment, uid
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.keyed_requests import KeyedResponse
from apps.operations.api.idempotency import once
from apps.placement.api.preference_serializers import (
    ActivationRequestSerializer,
    ActivationSerializer,
    RevertSerializer,
    WeightsInForceSerializer,
    represent_activation,
)
from apps.placement.models import Activation
from apps.placement.selectors import preferences as selectors
from apps.placement.services.preference.activations import Guard, activate, revert


class ActivateView(ApiView):
    """Activation of a preference set."""

    takes_match = frozenset({"POST"})
    needs_match = True
    write_role = Role.OPERATOR
    takes_key = True

    @extend_schema(request=ActivationRequestSerializer, responses={201: ActivationSerializer})
    def post(self, request: Request, set_id: UUID) -> Response:
        """Bring the weights of a set into force; If-Match names the version you have seen."""
        selectors.preference_set(set_id)
        expected = required_generation(request._request)
        given = validated(ActivationRequestSerializer, request.data)
        racks = selectors.racks_by_name(given["racks"])
        guard = given.get("guard")

        def activate_set() -> KeyedResponse:
            row = activate(
                set_id,
                message=given["message"],
                racks=racks,
                guard=Guard(**guard) if guard else None,
                accepted_warnings=given["accepted_warnings"],
                expected=expected,
                by=principal_of(request).user_id,
            )
            return _created(row)

        return once(request, request.data, activate_set)


class RevertView(ApiView):
    """Revert of an activation."""

    write_role = Role.OPERATOR
    takes_key = True

    @extend_schema(request=RevertSerializer, responses={201: ActivationSerializer})
    def post(self, request: Request, activation_id: int) -> Response:
        """Activate the weights that were in force before this activation, which must be in force.

        The revert is an activation, too: reverting it brings this one back.
        """
        selectors.activation(activation_id)
        message = validated(RevertSerializer, request.data)["message"]

        def revert_activation() -> KeyedResponse:
            return _created(
                revert(activation_id, message=message, by=principal_of(request).user_id)
            )

        return once(request, request.data, revert_activation)


def _created(row: Activation) -> KeyedResponse:
    body = represent_activation(row, row, selectors.rack_names(row.racks))
    return KeyedResponse(201, "/api/v1/weights/current/", body)


class WeightsInForce(ApiView):
    """The weights in force."""

    @extend_schema(responses=WeightsInForceSerializer)
    def get(self, request: Request) -> Response:
        """Return the activation in force."""
        row = selectors.weights_in_force()
        if row is None:
            return answer(request, {"activation": None})
        racks = selectors.rack_names(row.racks)
        return answer(request, {"activation": represent_activation(row, row, racks)})


class ActivationList(ListView):
    """All activations, newest first."""

    row_serializer = ActivationSerializer
    orders: ClassVar = {
        "-id": Order(("id",), descending=True),
        "id": Order(("id",)),
    }
    filters: ClassVar = {
        "preference_set": uid("preference_set", "Of this preference set."),
        "created_by": exact("created_by__username", "Activated by this user."),
        "created_at__gte": moment("created_at__gte", "Activated at or after this time."),
        "created_at__lt": moment("created_at__lt", "Activated before this time."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Activation]:
        """Return all activations."""
        return selectors.activations()

    def prepare(self, rows: list[Activation]) -> None:
        """Read the activation in force and the names of racks."""
        self._in_force = selectors.weights_in_force()
        self._racks = selectors.rack_names(rack for row in rows for rack in row.racks)

    def represent(self, row: Activation) -> dict[str, Any]:
        """Return an activation as JSON."""
        return represent_activation(row, self._in_force, self._racks)
