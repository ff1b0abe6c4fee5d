"""OpenAPI schema of the views: list parameters, page envelopes, problem responses."""

from collections import ChainMap
from copy import deepcopy
from functools import cache
from typing import Any, Literal

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter, inline_serializer
from rest_framework import serializers

from apps.common.api.problems import MEDIA_TYPE
from apps.common.api.queries import LIST_PARAMETERS, SHAPE_PARAMETERS
from apps.common.api.views import ApiView, ListView
from apps.common.core.problem_codes import CATALOGUE, ProblemCode

ACTIONS = {
    "GET": "get",
    "POST": "create",
    "PATCH": "update",
    "PUT": "replace",
    "DELETE": "delete",
}


class FieldProblemSerializer(serializers.Serializer[Any]):
    """One problem of one field."""

    pointer = serializers.CharField(help_text="JSON Pointer of the field.")
    code = serializers.CharField()
    detail = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """A problem (RFC 9457)."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    instance = serializers.CharField()
    code = serializers.ChoiceField(choices=[(code.value, code.value) for code in ProblemCode])
    request_id = serializers.CharField()
    errors = FieldProblemSerializer(many=True)  # type: ignore[assignment]  # RFC 9457's name
    advice = serializers.CharField()
    retryable = serializers.BooleanField()


@cache
def page_of(row: type[serializers.Serializer[Any]]) -> serializers.Serializer[Any]:
    """Return the page envelope of a row type; cached, so that the schema has one component."""
    return inline_serializer(
        name=row.__name__.removesuffix("Serializer") + "Page",
        fields={
            "results": row(many=True),
            "next": serializers.URLField(allow_null=True),
            "previous": serializers.URLField(allow_null=True),
            "count": serializers.IntegerField(required=False),
            "count_is_exact": serializers.BooleanField(required=False),
        },
    )


@cache
def brief_of(row: type[serializers.Serializer[Any]], names: tuple[str, ...]) -> Any:
    """Return the brief form of a row type: fields of its own, or of its metadata or status."""
    fields = row().fields
    parts = [fields[part] for part in ("metadata", "status") if part in fields]
    nested = [part.fields for part in parts if isinstance(part, serializers.Serializer)]
    known = ChainMap(fields, *nested)
    return inline_serializer(
        name=row.__name__.removesuffix("Serializer") + "Brief",
        fields={name: deepcopy(known[name]) for name in names if name in known},
    )


class BerthSchema(AutoSchema):
    """Adds the behaviour of the base views to the schema."""

    def get_operation_id(self) -> str:
        """Return e.g. ``jobs_list``, ``jobs_get``, ``jobs_cancel_create``."""
        words = [
            word.replace("-", "_") for word in self.path.split("/") if word and "{" not in word
        ]
        action = "list" if self._is_page() else ACTIONS[self.method]
        if words[-1] in {"cancel"} and "{" not in self.path:
            action = "matching"
        return "_".join([*words[2:], action])

    def get_tags(self) -> list[str]:
        """Return the first word of the path."""
        return [self.path.removeprefix("/api/v1/").split("/")[0]]

    def get_summary(self) -> str | None:
        """Return the first docstring line of the method; of the view for a list."""
        if self._is_page():
            return self.get_description().split("\n")[0]
        doc = getattr(getattr(self.view, self.method.lower(), None), "__doc__", None) or ""
        return doc.strip().split("\n")[0] or None

    def get_description(self) -> str:  # type: ignore[override]  # two bases disagree
        """Return the docstring of the view."""
        return (self.view.__class__.__doc__ or "").strip()

    def _is_list_view(self, serializer: Any = None) -> bool:
        return False  # our pages are objects, not bare arrays

    def _is_page(self) -> bool:
        return isinstance(self.view, ListView) and self.method == "GET"

    def get_override_parameters(self) -> list[Any]:
        """Return the query parameters and headers of the base views."""
        found: list[OpenApiParameter] = []
        view = self.view
        if isinstance(view, ListView) and self._is_page():
            known = {**LIST_PARAMETERS, **SHAPE_PARAMETERS}
            orders = {"type": "string", "enum": list(view.orders)}
            known["ordering"] = (LIST_PARAMETERS["ordering"][0], orders)
            found += [_query(name, *known[name]) for name in view.list_parameters]
            found += [_query(n, f.description, dict(f.schema)) for n, f in view.filters.items()]
        if isinstance(view, ApiView) and self.method == "GET":
            if view.has_fields and not isinstance(view, ListView):
                found += [_query(n, d, s) for n, (d, s) in SHAPE_PARAMETERS.items()]
            if view.has_tags:
                found.append(_header("If-None-Match", "Respond 304 if this tag is current."))
        if isinstance(view, ApiView) and self.method in view.takes_match:
            about = "Respond 412 unless this tag is current."
            found.append(_header("If-Match", about, required=view.needs_match))
        if self.method == "POST" and getattr(view, "takes_key", False):
            found.append(_header("Idempotency-Key", "Requests with the same key run once."))
        return found

    def get_response_serializers(self) -> Any:
        """Return the page envelope for lists."""
        if isinstance(self.view, ListView) and self._is_page():
            return page_of(self.view.row_serializer)
        return super().get_response_serializers()

    def _get_response_bodies(
        self, direction: Literal["request", "response"] = "response"
    ) -> dict[str, Any]:
        bodies = super()._get_response_bodies(direction)
        view = self.view
        if isinstance(view, ListView) and self._is_page() and "brief" in view.list_parameters:
            self._allow_brief_rows(view)
        if isinstance(view, ApiView) and view.has_tags and self.method == "GET":
            bodies["304"] = {"description": "The version named in If-None-Match is current."}
        problem = self.resolve_serializer(ProblemSerializer, "response")
        bodies["default"] = {
            "description": "A problem; see /api/v1/errors/ for every code.",
            "content": {MEDIA_TYPE: {"schema": problem.ref}},
        }
        return bodies

    def _allow_brief_rows(self, view: ListView) -> None:
        """Let the rows of a page be brief: the response to `brief=true`."""
        page = self.resolve_serializer(page_of(view.row_serializer), "response")
        row = self.resolve_serializer(view.row_serializer, "response")
        brief = self.resolve_serializer(
            brief_of(view.row_serializer, view.brief_fields), "response"
        )
        page.schema["properties"]["results"]["items"] = {"anyOf": [row.ref, brief.ref]}


def _query(name: str, description: str, schema: dict[str, Any]) -> OpenApiParameter:
    return OpenApiParameter(name, schema, OpenApiParameter.QUERY, description=description)


def _header(name: str, description: str, *, required: bool = False) -> OpenApiParameter:
    return OpenApiParameter(
        name, str, OpenApiParameter.HEADER, required=required, description=description
    )


def catalogue() -> list[dict[str, Any]]:
    """Return every problem code with its meaning."""
    return [
        {
            "code": code.value,
            "status": kind.status,
            "title": kind.title,
            "advice": kind.advice,
            "retryable": kind.retryable,
        }
        for code, kind in CATALOGUE.items()
    ]
