"""The audit log: list, read and export."""

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.audit_export import as_csv, as_json_lines
from apps.accounts.api.audit_serializers import AuditEntrySerializer, represent_audit_entry
from apps.accounts.core.roles import Role
from apps.accounts.infrastructure.actor import Via
from apps.accounts.models import AuditEntry
from apps.accounts.selectors import audit_entries
from apps.accounts.services import record_export
from apps.common.api.paging import Order
from apps.common.api.queries import (
    Filter,
    ListQuery,
    any_of,
    choice,
    exact,
    moment,
    read,
    read_list_query,
    read_word,
    uid,
)
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import NotFoundError

FILTERS: Final[dict[str, Filter]] = {
    "action": exact("action", "This action, such as plan.approved."),
    "action__in": any_of("action", "One of these actions."),
    "object_kind": exact("object_kind", "Acts on objects of this kind, such as plan."),
    "object_id": exact("object_id", "Acts on this object."),
    "object_name": exact("object_name", "Acts on objects of this name."),
    "username": exact("username", "By this user."),
    "token_id": uid("token_id", "With this token."),
    "via": choice("via", [via.value for via in Via], "How the actor acted."),
    "request_id": exact("request_id", "In this request."),
    "address": exact("address", "From this address."),
    "at__gte": moment("at__gte", "At or after this time."),
    "at__lt": moment("at__lt", "Before this time."),
}
FORMATS: Final = {
    "csv": ("text/csv; charset=utf-8", as_csv),
    "jsonl": ("application/x-ndjson", as_json_lines),
}


class AuditList(ListView):
    """Administrative actions, newest first."""

    read_role = Role.ADMIN
    row_serializer = AuditEntrySerializer
    orders: ClassVar = {
        "-at": Order(("at", "id"), descending=True),
        "at": Order(("at", "id")),
    }
    filters: ClassVar = FILTERS

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[AuditEntry]:
        """Return all entries."""
        return audit_entries()

    def represent(self, row: AuditEntry) -> dict[str, Any]:
        """JSON of an entry."""
        return represent_audit_entry(row)


class AuditDetail(ApiView):
    """One entry of the audit log."""

    read_role = Role.ADMIN

    @extend_schema(responses=AuditEntrySerializer)
    def get(self, request: Request, entry_id: int) -> Response:
        """Return an entry."""
        entry = audit_entries().filter(pk=entry_id).first()
        if entry is None:
            raise NotFoundError(f"There is no audit entry {entry_id}.")
        return answer(request, represent_audit_entry(entry))


class AuditExport(ApiView):
    """The audit log as a file."""

    read_role = Role.ADMIN
    query_parameters: ClassVar = frozenset({"as", *FILTERS})
    has_fields = False

    @extend_schema(
        parameters=[
            OpenApiParameter("as", str, required=True, enum=list(FORMATS)),
            *(
                OpenApiParameter(name, {**one.schema}, description=one.description)
                for name, one in FILTERS.items()
            ),
        ],
        responses={
            (200, "text/csv"): OpenApiTypes.STR,
            (200, "application/x-ndjson"): OpenApiTypes.STR,
        },
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """Return all matching entries, oldest first; the export itself is recorded."""
        given = request.query_params.get("as", "")
        name = read("as", given, lambda value: read_word(value, FORMATS))
        query = read_list_query(request.query_params, FILTERS, more={"as"})
        media_type, write = FORMATS[name]
        record_export(name, {key: request.query_params[key] for key in sorted(query.given)})
        rows = audit_entries().filter(query.where).order_by("at", "id")
        response = StreamingHttpResponse(_streamed(rows, write), content_type=media_type)
        response["Content-Disposition"] = f'attachment; filename="berth-audit.{name}"'
        return response


def _streamed(rows: QuerySet[AuditEntry], write: Any) -> Iterator[bytes]:
    entries = (represent_audit_entry(row) for row in rows.iterator(chunk_size=2000))
    for text in write(entries):
        yield text.encode()
