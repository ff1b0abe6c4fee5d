"""Revisions of the utility matrices: their history, and new ones on demand."""

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
    EmptySerializer,
    RevisionSerializer,
    represent_revision,
)
from apps.classification.models import MatrixRevision, Revision, RevisionReason
from apps.classification.services import begin_reclassification
from apps.common.core.errors import NotFoundError
from apps.common.inputs import validated
from apps.common.paging import Order
from apps.common.queries import ListQuery, choice, flag, moment
from apps.common.views import ApiView, ListView, answer
from apps.operations.api.idempotency import once
from apps.operations.api.serializers import OperationSerializer, represent_operation
from apps.operations.core.keys import KeyedAnswer


class RevisionList(ListView):
    """Revisions of the matrices, newest first."""

    row_serializer = RevisionSerializer
    orders: ClassVar = {
        "-number": Order(("number",), descending=True),
        "number": Order(("number",)),
    }
    filters: ClassVar = {
        "reason": choice("reason", RevisionReason.values, "Made for this reason."),
        "is_current": flag("is_current", "In force, or not."),
        "created_at__gte": moment("created_at__gte", "Made at or after."),
        "created_at__lt": moment("created_at__lt", "Made before."),
    }
    write_role = Role.OPERATOR
    takes_key = True
    _matrices: dict[int, list[MatrixRevision]]

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Revision]:
        """Return all revisions."""
        return selectors.revisions()

    def prepare(self, rows: list[Revision]) -> None:
        """Fetch the matrices of the page's revisions at once."""
        self._matrices = defaultdict(list)
        for matrix in selectors.matrices_of(row.number for row in rows):
            self._matrices[matrix.revision_id].append(matrix)

    def represent(self, row: Revision) -> dict[str, Any]:
        """JSON of a revision."""
        return represent_revision(row, self._matrices[row.number])

    def represent_briefly(self, row: Revision) -> dict[str, Any]:
        """Return the number."""
        return {"number": row.number}

    @extend_schema(request=EmptySerializer, responses={202: OperationSerializer})
    def post(self, request: Request) -> Response:
        """Learn the matrices anew from everything measured; answers with the operation."""
        validated(EmptySerializer, request.data or {})

        def begin() -> KeyedAnswer:
            operation = begin_reclassification(
                reason=RevisionReason.REQUEST, by=principal_of(request).user_id
            )
            location = f"/api/v1/operations/{operation.pk}/"
            return KeyedAnswer(202, location, represent_operation(operation))

        return once(request, request.data, begin)


class RevisionDetail(ApiView):
    """One revision."""

    @extend_schema(responses=RevisionSerializer)
    def get(self, request: Request, number: int) -> Response:
        """Return a revision and how well its matrices infer."""
        found = selectors.revisions().filter(number=number).first()
        if found is None:
            raise NotFoundError(f"There is no revision {number}.")
        return answer(request, represent_revision(found, list(selectors.matrices_of([number]))))
