"""Revisions of the utility matrices: history, and retraining on request."""

from collections import defaultdict
from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.classification import selectors
from apps.classification.api.revision_serializers import (
    RevisionSerializer,
    represent_revision,
)
from apps.classification.models import MatrixRevision, Revision, RevisionReason
from apps.classification.services import begin_reclassification
from apps.common.api.paging import Order
from apps.common.api.queries import ListQuery, choice, flag, moment
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import NotFoundError
from apps.common.core.keyed_requests import KeyedResponse
from apps.operations.api.idempotency import once
from apps.operations.api.serializers import OperationSerializer, represent_operation


class RevisionList(ListView):
    """Revisions of the matrices, newest first."""

    row_serializer = RevisionSerializer
    brief_fields = ("number",)
    orders: ClassVar = {
        "-number": Order(("number",), descending=True),
        "number": Order(("number",)),
    }
    filters: ClassVar = {
        "reason": choice("reason", RevisionReason.values, "Reason of the revision."),
        "is_current": flag("is_current", "Whether it is the current revision."),
        "created_at__gte": moment("created_at__gte", "Created at or after."),
        "created_at__lt": moment("created_at__lt", "Created before."),
    }
    write_role = Role.OPERATOR
    takes_key = True
    takes_body = False
    _matrices: dict[int, list[MatrixRevision]]

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Revision]:
        """Return all revisions."""
        return selectors.revisions()

    def prepare(self, rows: list[Revision]) -> None:
        """Load the matrices of the page's revisions with one query."""
        self._matrices = defaultdict(list)
        for matrix in selectors.matrices_of(row.number for row in rows):
            self._matrices[matrix.revision_id].append(matrix)

    def represent(self, row: Revision) -> dict[str, Any]:
        """JSON of a revision."""
        return represent_revision(row, self._matrices[row.number])

    def represent_briefly(self, row: Revision) -> dict[str, Any]:
        """Return the number."""
        return {"number": row.number}

    @extend_schema(request=None, responses={202: OperationSerializer})
    def post(self, request: Request) -> Response:
        """Retrain the matrices from all measurements; returns the operation."""

        def begin() -> KeyedResponse:
            operation = begin_reclassification(
                reason=RevisionReason.REQUEST, by=principal_of(request).user_id
            )
            location = f"/api/v1/operations/{operation.pk}/"
            return KeyedResponse(202, location, represent_operation(operation))

        return once(request, request.data, begin)


class RevisionDetail(ApiView):
    """One revision."""

    @extend_schema(responses=RevisionSerializer)
    def get(self, request: Request, number: int) -> Response:
        """Return a revision with the accuracy of its matrices."""
        revision = selectors.revisions().filter(number=number).first()
        if revision is None:
            raise NotFoundError(f"Revision {number} does not exist.")
        return answer(request, represent_revision(revision, list(selectors.matrices_of([number]))))
