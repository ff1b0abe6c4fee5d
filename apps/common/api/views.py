"""Base classes of API views: headers, conditional reads and lists."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from apps.common.api.etags import entity_tag, is_unchanged
from apps.common.api.inputs import EmptySerializer, validated
from apps.common.api.paging import Order, Page, keyset_page
from apps.common.api.queries import (
    LIST_PARAMETERS,
    SHAPE_PARAMETERS,
    Filter,
    ListQuery,
    check_names,
    read,
    read_flag,
    read_list_query,
    read_word,
    shape,
)
from apps.common.api.renderers import encode
from apps.common.infrastructure.database import TookTooLongError, time_limit
from apps.common.infrastructure.transactions import retry_once

Body = dict[str, Any]
COUNT_TIMEOUT_MS = 200


class ApiView(APIView):
    """Base of all API views: checks query parameters, retries deadlocks, sends rate headers."""

    query_parameters: ClassVar[frozenset[str]] = frozenset()
    repeatable_parameters: ClassVar[frozenset[str]] = frozenset()  # of these
    has_fields: ClassVar[bool] = True  # GET accepts fields and omit
    has_tags: ClassVar[bool] = True  # GET sends an entity tag, and 304 to a caller who has it
    takes_body: ClassVar[bool] = True  # False: writes with a body are refused, like any DELETE
    takes_match: ClassVar[frozenset[str]] = frozenset()  # methods that respond 412 to an old tag
    needs_match: ClassVar[bool] = False  # these methods respond 428 without a tag

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check the caller, the query except that of lists, and that no body is ignored."""
        super().initial(request, *args, **kwargs)
        is_read = request.method in {"GET", "HEAD"}
        if not (is_read and isinstance(self, ListView)):
            is_shaped = is_read and self.has_fields
            known = self.query_parameters | (SHAPE_PARAMETERS.keys() if is_shaped else set())
            check_names(request.query_params, known, repeatable=self.repeatable_parameters)
        name = (request.method or "").lower()
        if name in {"post", "put", "patch", "delete"} and hasattr(self, name):
            if name == "delete" or not self.takes_body:
                validated(EmptySerializer, request.data)
            setattr(self, name, retry_once(getattr(self, name)))

    def finalize_response(
        self, request: Request, response: Response, *args: Any, **kwargs: Any
    ) -> Response:
        """Add the rate headers."""
        response = super().finalize_response(request, response, *args, **kwargs)
        rate = request.META.get("BERTH_RATE")
        if rate is not None:
            for name, value in rate.headers().items():
                response[name] = value
        return response


def answer(
    request: Request,
    body: Body,
    *,
    generation: int | None = None,
    is_whole: bool = True,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Respond with one object and its tag, or with 304 if the caller has it.

    Parameters
    ----------
    generation : number of edits of the object; None if it is not editable
    is_whole : True if other things than edits change the representation, so that the tag needs a
        digest
    """
    cut = shape(request.query_params)
    if cut is not None:
        body = cut(body)
    content = encode(body) if is_whole or cut is not None else None
    tag = entity_tag(generation, content)
    if request.method in {"GET", "HEAD"} and is_unchanged(request._request, tag):
        return Response(status=304, headers={"ETag": tag})
    return Response(body, status=status, headers={"ETag": tag, **(headers or {})})


class ListView(ApiView):
    """A list with filters, keyset pages, counts and field selection."""

    row_serializer: ClassVar[type[Serializer[Any]]]
    filters: ClassVar[Mapping[str, Filter]] = {}
    orders: ClassVar[Mapping[str, Order]] = {"id": Order(("id",))}
    more_parameters: ClassVar[frozenset[str]] = frozenset()
    list_parameters: ClassVar[tuple[str, ...]] = (*LIST_PARAMETERS, *SHAPE_PARAMETERS)
    brief_fields: ClassVar[tuple[str, ...]] = ("id", "name")  # of `represent_briefly`

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Any]:
        """Return the rows that the caller may see, before the declared filters."""
        raise NotImplementedError

    def represent(self, row: Any) -> Body:
        """Return the JSON of a row."""
        raise NotImplementedError

    def represent_briefly(self, row: Any) -> Body:
        """Return the identifying fields of a row."""
        body = self.represent(row)
        return {name: body[name] for name in self.brief_fields if name in body}

    def prepare(self, rows: list[Any]) -> None:
        """Load related data for the representation of one page."""

    def get(self, request: Request, **kwargs: Any) -> Response:
        """Return one page."""
        query = read_list_query(request.query_params, self.filters, more=self.more_parameters)
        queryset = self.rows(request, query, **kwargs).filter(query.where)
        page = keyset_page(queryset, self.order(query), limit=query.limit, cursor=query.cursor)
        self.prepare(list(page.rows))
        count = None if query.count is None else count_rows(queryset, query.count)
        return self.answer_page(request, page, count)

    def answer_page(
        self, request: Request, page: Page[Any], count: tuple[int, bool] | None
    ) -> Response:
        """Respond with one page and links to its neighbours, or with 304 if the caller has it."""
        links = page_links(request._request, page)
        body: Body = {"results": self._results(request, page), **links}
        if count is not None:
            body["count"], body["count_is_exact"] = count
        tag = entity_tag(None, encode(body))
        headers = {"ETag": tag, **link_header(links)}
        if is_unchanged(request._request, tag):
            return Response(status=304, headers=headers)
        return Response(body, headers=headers)

    def order(self, query: ListQuery) -> Order:
        """Return the requested order."""
        name = query.ordering or next(iter(self.orders))
        return self.orders[read("ordering", name, lambda value: read_word(value, self.orders))]

    def _results(self, request: Request, page: Page[Any]) -> list[Body]:
        brief = request.query_params.get("brief")
        is_brief = brief is not None and read("brief", brief, read_flag)
        make: Callable[[Any], Body] = self.represent_briefly if is_brief else self.represent
        cut = shape(request.query_params)
        return [cut(make(row)) if cut else make(row) for row in page.rows]


def page_links(request: HttpRequest, page: Page[Any]) -> dict[str, str | None]:
    """Return the URLs of the neighbouring pages with all other parameters unchanged."""

    def link(cursor: str | None) -> str | None:
        if cursor is None:
            return None
        params = request.GET.copy()
        params["cursor"] = cursor
        return request.build_absolute_uri(f"{request.path}?{params.urlencode()}")

    return {"next": link(page.next), "previous": link(page.previous)}


def link_header(links: Mapping[str, str | None]) -> dict[str, str]:
    """Return the Link header (RFC 8288) of a page; empty without neighbours."""
    relations = {"next": "next", "previous": "prev"}
    parts = [f'<{url}>; rel="{relations[name]}"' for name, url in links.items() if url]
    return {"Link": ", ".join(parts)} if parts else {}


def count_rows(queryset: QuerySet[Model], how: str) -> tuple[int, bool]:
    """Count all matches: (n, is exact). Falls back to an estimate after 0.2 s."""
    if how == "exact":
        with suppress(TookTooLongError), time_limit(COUNT_TIMEOUT_MS):
            return queryset.order_by().count(), True
    plan = json.loads(queryset.order_by().explain(format="json"))
    return int(plan[0]["Plan"]["Plan Rows"]), False
