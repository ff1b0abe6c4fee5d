"""Shadows: policies that decide on live decisions without committing; for operators."""

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.common.api.inputs import validated
from apps.common.api.paging import Order
from apps.common.api.queries import ListQuery
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.keyed_requests import KeyedResponse
from apps.operations.api.idempotency import once
from apps.scheduling.api.shadow_serializers import (
    ShadowDecisionSerializer,
    ShadowRequestSerializer,
    ShadowResultSerializer,
    ShadowSerializer,
    represent_shadow,
    represent_shadow_decision,
    represent_shadow_result,
)
from apps.scheduling.models import Shadow, ShadowDecision
from apps.scheduling.selectors import shadows as selectors
from apps.scheduling.services.shadows import start_shadow, stop_shadow


class ForOperators:
    """Shadows name decisions of every project."""

    read_role = Role.OPERATOR
    write_role = Role.OPERATOR


class ShadowList(ForOperators, ListView):
    """Shadows, newest first."""

    row_serializer = ShadowSerializer
    takes_key = True
    orders: ClassVar[Mapping[str, Order]] = {
        "-started_at": Order(("started_at", "id"), descending=True)
    }
    brief_fields = ("id", "policy", "status")

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Shadow]:
        """Return all shadows."""
        return selectors.shadows()

    def represent(self, row: Shadow) -> dict[str, Any]:
        """Return a shadow as JSON."""
        return represent_shadow(row)

    @extend_schema(request=ShadowRequestSerializer, responses={201: ShadowSerializer})
    def post(self, request: Request) -> Response:
        """Let a policy decide on a share of the decisions from now on, without committing."""
        found = validated(ShadowRequestSerializer, request.data)

        def start() -> KeyedResponse:
            shadow = start_shadow(
                policy=found["policy"],
                parameters=found["parameters"],
                share=found["share"],
                until=found["until"],
                by=principal_of(request).user_id,
            )
            return KeyedResponse(201, f"/api/v1/shadows/{shadow.pk}/", represent_shadow(shadow))

        return once(request, request.data, start)


class ShadowDetail(ForOperators, ApiView):
    """One shadow."""

    @extend_schema(responses=ShadowResultSerializer)
    def get(self, request: Request, shadow_id: UUID) -> Response:
        """Return a shadow with its agreement and predicted regret so far."""
        shadow = selectors.shadow_by_id(shadow_id)
        result = selectors.shadow_result(shadow)
        return answer(request, represent_shadow_result(shadow, result))


class ShadowStop(ForOperators, ApiView):
    """Stop of a shadow."""

    takes_body = False

    @extend_schema(request=None, responses=ShadowSerializer)
    def post(self, request: Request, shadow_id: UUID) -> Response:
        """Stop a shadow; its results are kept. Stopping it again has no effect."""
        stopped = stop_shadow(shadow_id, by=principal_of(request).user_id)
        return Response(represent_shadow(stopped))


class ShadowDecisions(ForOperators, ListView):
    """The decisions that a shadow has compared, the most different ones first."""

    row_serializer = ShadowDecisionSerializer
    orders: ClassVar[Mapping[str, Order]] = {
        "-difference": Order(("difference", "id"), descending=True)
    }
    brief_fields = ("decision",)

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[ShadowDecision]:
        """Return the decisions."""
        return selectors.shadow_decisions(selectors.shadow_by_id(kwargs["shadow_id"]))

    def represent(self, row: ShadowDecision) -> dict[str, Any]:
        """Return a compared decision as JSON."""
        return represent_shadow_decision(row)
