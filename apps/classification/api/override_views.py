"""Overrides: list, set and withdraw."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import Q, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.classification import selectors
from apps.classification.api.override_serializers import (
    CreatedOverridesSerializer,
    OverrideRequestSerializer,
    OverrideSerializer,
    read_override_request,
    represent_override,
)
from apps.classification.api.views import ApplicationSubList
from apps.classification.core.matrix import MatrixName
from apps.classification.models import Override
from apps.classification.services import set_overrides, withdraw_overrides
from apps.common.api.paging import Order
from apps.common.api.queries import Filter, ListQuery, choice, exact, read_flag
from apps.common.api.representations import time
from apps.common.api.views import ApiView
from apps.common.core.errors import ConflictError, NotFoundError
from apps.common.core.keyed_requests import KeyedResponse
from apps.operations.api.idempotency import once
from apps.workloads.api.application_views import named_application


class OverrideList(ApplicationSubList):
    """Overrides of an application, newest first; set more, or withdraw all."""

    row_serializer = OverrideSerializer
    write_role = Role.OPERATOR
    takes_key = True
    orders: ClassVar = {"-created_at": Order(("created_at", "id"), descending=True)}
    filters: ClassVar = {
        "withdrawn": Filter(
            lambda value: Q() if read_flag(value) else Q(withdrawn_at=None),
            "Include withdrawn overrides.",
            {"type": "boolean"},
        ),
        "matrix": choice("matrix", [name.value for name in MatrixName], "Matrix name."),
        "column": exact("column", "Column name."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Override]:
        """Return the application's overrides."""
        withdrawn = "withdrawn" in query.given  # the filter itself selects the rows
        return selectors.overrides_of(self.about(**kwargs).pk, withdrawn=withdrawn)

    def represent(self, row: Override) -> dict[str, Any]:
        """JSON of an override."""
        return represent_override(row, self.application.kind)

    @extend_schema(request=OverrideRequestSerializer, responses={201: CreatedOverridesSerializer})
    def post(self, request: Request, key: str) -> Response:
        """Override cells; each override replaces an earlier one of the same cell.

        A worker updates the profile shortly afterwards.
        """
        application = self.about(key=key)
        cells, reason = read_override_request(request.data)
        caller = principal_of(request)

        def create() -> KeyedResponse:
            created = set_overrides(application.pk, cells, reason=reason, by=caller.user_id)
            rows = selectors.overrides_of(application.pk).in_bulk([row.pk for row in created])
            body = {"results": [self.represent(rows[row.pk]) for row in created]}
            return KeyedResponse(201, f"/api/v1/applications/{application.pk}/overrides/", body)

        return once(request, request.data, create)

    @extend_schema(operation_id="applications_overrides_clear", responses={204: None})
    def delete(self, request: Request, key: str) -> Response:
        """Withdraw all overrides of the application; measurements apply again."""
        application = self.about(key=key)
        ids = selectors.overrides_of(application.pk).values_list("pk", flat=True)
        withdraw_overrides(application.pk, list(ids), by=principal_of(request).user_id)
        return Response(status=204)


class OverrideDetail(ApiView):
    """One override."""

    write_role = Role.OPERATOR

    @extend_schema(responses={204: None})
    def delete(self, request: Request, key: str, override_id: UUID) -> Response:
        """Withdraw an override; measurements apply again."""
        application = named_application(key)
        rows = selectors.overrides_of(application.pk, withdrawn=True)
        override = rows.filter(pk=override_id).first()
        if override is None:
            raise NotFoundError(f"{application.name} has no override {override_id}.")
        by = principal_of(request).user_id
        if not withdraw_overrides(application.pk, [override_id], by=by):
            raise ConflictError(
                f"Override {override_id} was already withdrawn at {time(override.withdrawn_at)}."
            )
        return Response(status=204)
