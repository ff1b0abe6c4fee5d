"""Batches: up to 10,000 jobs in one request."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final
from uuid import UUID

from django.db.models import Q, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.common.api.inputs import validated
from apps.common.api.paging import Order
from apps.common.api.parsers import LinesParser, PlainJSONParser
from apps.common.api.queries import (
    Filter,
    ListQuery,
    check_names,
    choice,
    moment,
    read,
    read_int,
    read_text,
)
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import FieldProblem, InvalidInputError, NotFoundError
from apps.common.core.keyed_requests import KeyedResponse
from apps.common.core.problem_codes import CATALOGUE, ProblemCode
from apps.operations.api.idempotency import once
from apps.workloads import selectors
from apps.workloads.api.batch_serializers import (
    BatchAcceptedSerializer,
    BatchDetailSerializer,
    BatchItemSerializer,
    BatchRequestSerializer,
    BatchSerializer,
)
from apps.workloads.api.bulk import Bulk, submit_batch
from apps.workloads.api.job_views import (
    cancel_matching,
    check_project_filter,
    notify_agents,
    require_key,
)
from apps.workloads.api.representations import represent_batch
from apps.workloads.api.serializers import CancelledSerializer, ExpectSerializer
from apps.workloads.api.submission import (
    parse_items,
    project_of_batch,
    refuse_foreign_projects,
    refuse_names_without_address,
)
from apps.workloads.models import Batch, BatchMode

MODES: Final = (BatchMode.INDEPENDENT.value, BatchMode.ATOMIC.value)
MAX_PLACE: Final = 2**30  # of an item: places are 32-bit integers in PostgreSQL
_FIELDS: Final = frozenset({"defaults", "items", "mode", "project"})


class BatchList(ListView):
    """Batches: list them, submit many jobs at once."""

    takes_key = True
    max_body_bytes = 32 << 20
    parser_classes = (PlainJSONParser, LinesParser)
    row_serializer = BatchSerializer
    orders: ClassVar = {"-created_at": Order(("created_at", "id"), descending=True)}
    filters: ClassVar = {
        "project": Filter(
            lambda value: selectors.in_project(read_text(value)), "In the project with this name."
        ),
        "mode": choice("mode", BatchMode.values, "Submitted in this mode."),
        "created_at__gte": moment("created_at__gte", "Submitted at or after."),
        "created_at__lt": moment("created_at__lt", "Submitted before."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Batch]:
        """Return the batches the caller may see."""
        check_project_filter(request)
        return selectors.visible_batches(principal_of(request))

    def represent(self, row: Batch) -> dict[str, Any]:
        """JSON of a batch."""
        return represent_batch(row)

    @extend_schema(request=BatchRequestSerializer, responses={202: BatchAcceptedSerializer})
    def post(self, request: Request) -> Response:
        """Submit many jobs: independently of each other, or all or none (atomic).

        Also accepts newline-delimited JSON, one job per line. Both may be gzip-encoded.
        """
        bulk = _read_bulk(request)
        if not all(spec.client_id for spec in bulk.parsed.specs.values()):
            require_key(request, bulk.project.pk)

        def submit() -> KeyedResponse:
            body, operation_id = submit_batch(bulk)
            notify_agents()
            return KeyedResponse(202, f"/api/v1/operations/{operation_id}/", body)

        return once(request, request.data, submit)


def _read_bulk(request: Request) -> Bulk:
    principal = principal_of(request)
    data = {"items": request.data} if isinstance(request.data, list) else request.data
    items, defaults, mode, project_name = _read_envelope(data)
    parsed = parse_items(items, defaults)
    project = project_of_batch(principal, project_name, parsed)
    parsed = refuse_names_without_address(refuse_foreign_projects(parsed, project))
    if mode == "atomic" and parsed.problems:
        problems = [problem for per_item in parsed.problems.values() for problem in per_item]
        raise InvalidInputError(problems[:100])
    return Bulk(
        principal=principal, project=project, mode=mode, total=len(items), parsed=parsed,
        items=items, defaults=defaults,
    )  # fmt: skip


def _read_envelope(data: Any) -> tuple[Sequence[Any], Mapping[str, Any] | None, str, str | None]:
    if not isinstance(data, Mapping):
        raise InvalidInputError(
            [FieldProblem("", "wrong_type", "must be an object with a list of items")]
        )
    problems = [
        FieldProblem(f"/{name}", "unknown_field", "unknown field of a batch")
        for name in data.keys() - _FIELDS
    ]
    items = data.get("items")
    if not isinstance(items, list):
        problems.append(FieldProblem("/items", "wrong_type", "must be a list of jobs"))
    defaults = data.get("defaults")
    if defaults is not None and not isinstance(defaults, Mapping):
        problems.append(FieldProblem("/defaults", "wrong_type", "must be an object"))
    mode = data.get("mode", MODES[0])
    if mode not in MODES:
        problems.append(
            FieldProblem("/mode", "unknown_value", f"must be one of {', '.join(MODES)}")
        )
    project = data.get("project")
    if project is not None and not isinstance(project, str):
        problems.append(FieldProblem("/project", "wrong_type", "must be a project's name"))
    if problems or not isinstance(items, list):
        raise InvalidInputError(problems)
    return items, defaults, mode, project


def visible_batch(request: Request, batch_id: UUID) -> Batch:
    """Return a batch.

    Raises
    ------
    NotFoundError : it does not exist, or the caller may not see it.
    """
    batch = selectors.visible_batches(principal_of(request)).filter(pk=batch_id).first()
    if batch is None:
        raise NotFoundError(f"There is no batch {batch_id}.")
    return batch


class BatchDetail(ApiView):
    """One batch."""

    @extend_schema(responses=BatchDetailSerializer)
    def get(self, request: Request, batch_id: UUID) -> Response:
        """Return a batch and the number of its jobs by state."""
        batch = visible_batch(request, batch_id)
        states = selectors.batch_states(batch_id)
        return answer(request, represent_batch(batch) | {"states": states})


class BatchItems(ListView):
    """The outcome of every item of a batch, in the order of the request."""

    row_serializer = BatchItemSerializer
    list_parameters = ("limit", "cursor")
    has_tags = False

    def get(self, request: Request, **kwargs: Any) -> Response:
        """Return one page of items."""
        visible_batch(request, kwargs["batch_id"])
        check_names(request.query_params, self.list_parameters)
        return _items_page(request, kwargs["batch_id"])


def _items_page(request: Request, batch_id: UUID) -> Response:
    params = request.query_params
    limit = read("limit", params.get("limit", "50"), lambda v: read_int(v, low=1, high=500))
    start = read("cursor", params.get("cursor", "0"), lambda v: read_int(v, low=0, high=MAX_PLACE))
    items = selectors.batch_items(batch_id, start=start, limit=limit + 1)
    base = request._request.build_absolute_uri(request.path)
    more = len(items) > limit
    body = {
        "results": [_item(start + i, item) for i, item in enumerate(items[:limit])],
        "next": f"{base}?limit={limit}&cursor={start + limit}" if more else None,
        "previous": f"{base}?limit={limit}&cursor={max(0, start - limit)}" if start else None,
    }
    return Response(body)


def _item(index: int, item: Mapping[str, Any]) -> dict[str, Any]:
    problems = item.get("problems")
    kind = CATALOGUE[ProblemCode.INVALID_INPUT]
    return {
        "index": index,
        "client_id": item.get("client_id"),
        "status": item["status"],
        "job": item.get("job"),
        "problem": {
            "code": ProblemCode.INVALID_INPUT.value,
            "title": kind.title,
            "status": kind.status,
            "errors": problems,
        }
        if problems
        else None,
    }


class BatchCancel(ApiView):
    """Cancel the jobs of a batch."""

    @extend_schema(request=ExpectSerializer, responses=CancelledSerializer)
    def post(self, request: Request, batch_id: UUID) -> Response:
        """Cancel the jobs of a batch that have not ended, if their number is as expected."""
        visible_batch(request, batch_id)
        expect = validated(ExpectSerializer, request.data)["expect"]
        where = Q(batch_id=batch_id) & selectors.NOT_ENDED
        return Response(cancel_matching(request, where, expect))
