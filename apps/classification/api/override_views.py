"""Corrections by hand: listing, setting and withdrawing them."""

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
    OverrideRequestSerializer,
    OverrideSerializer,
    OverridesMadeSerializer,
    read_correction,
    represent_override,
)
from apps.classification.api.views import ApplicationList
from apps.classification.core.matrix import MatrixName
from apps.classification.models import Override
from apps.classification.services import set_overrides, withdraw_overrides
from apps.common.core.errors import ConflictError, NotFoundError
from apps.common.paging import Order
from apps.common.queries import Filter, ListQuery, choice, exact, read_flag
from apps.common.representations import time
from apps.common.views import ApiView
from apps.operations.api.idempotency import once
from apps.operations.core.keys import KeyedAnswer
from apps.workloads.api.application_views import named_application


class OverrideList(ApplicationList):
    """The corrections of an application in force, newest first; set more, or withdraw all."""

    row_serializer = OverrideSerializer
    write_role = Role.OPERATOR
    takes_key = True
    orders: ClassVar = {"-created_at": Order(("created_at", "id"), descending=True)}
    filters: ClassVar = {
        "withdrawn": Filter(
            lambda value: Q() if read_flag(value) else Q(withdrawn_at=None),
            "Those withdrawn too.",
            {"type": "boolean"},
        ),
        "matrix": choice("matrix", [name.value for name in MatrixName], "Of this matrix."),
        "column": exact("column", "Of this column."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Override]:
        """Return the application's corrections."""
        everything = "withdrawn" in query.given  # the filter says which of them
        return selectors.overrides_of(self.about(**kwargs).pk, withdrawn=everything)

    def represent(self, row: Override) -> dict[str, Any]:
        """JSON of a correction."""
        return represent_override(row, self.application.kind)

    @extend_schema(request=OverrideRequestSerializer, responses={201: OverridesMadeSerializer})
    def post(self, request: Request, key: str) -> Response:
        """Put cells above whatever is measured; each replaces an earlier one of its cell.

        The profile follows in a moment.
        """
        application = self.about(key=key)
        cells, reason = read_correction(request.data)
        caller = principal_of(request)

        def correct() -> KeyedAnswer:
            made = set_overrides(application.pk, cells, reason=reason, by=caller.user_id)
            rows = selectors.overrides_of(application.pk).in_bulk([row.pk for row in made])
            body = {"results": [self.represent(rows[row.pk]) for row in made]}
            return KeyedAnswer(201, f"/api/v1/applications/{application.pk}/overrides/", body)

        return once(request, request.data, correct)

    @extend_schema(operation_id="applications_overrides_clear", responses={204: None})
    def delete(self, request: Request, key: str) -> Response:
        """Withdraw every correction of the application: measurements speak again."""
        application = self.about(key=key)
        ids = selectors.overrides_of(application.pk).values_list("pk", flat=True)
        withdraw_overrides(application.pk, list(ids), by=principal_of(request).user_id)
        return Response(status=204)


class OverrideDetail(ApiView):
    """One correction."""

    write_role = Role.OPERATOR

    @extend_schema(responses={204: None})
    def delete(self, request: Request, key: str, override_id: UUID) -> Response:
        """Withdraw a correction: measurements speak again."""
        application = named_application(key)
        rows = selectors.overrides_of(application.pk, withdrawn=True)
        found = rows.filter(pk=override_id).first()
        if found is None:
            raise NotFoundError(f"{application.name} has no override {override_id}.")
        by = principal_of(request).user_id
        if not withdraw_overrides(application.pk, [override_id], by=by):
            raise ConflictError(f"It was withdrawn at {time(found.withdrawn_at)}.")
        return Response(status=204)
