"""OpenAPI from the views: parameters of lists, envelopes of pages, problems of every operation."""

from functools import cache
from typing import Any, Literal

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter, inline_serializer
from rest_framework import serializers

from apps.common.core.problem_codes import CATALOGUE, ProblemCode
from apps.common.problems import MEDIA_TYPE
from apps.common.queries import LIST_PARAMETERS, SHAPE_PARAMETERS
from apps.common.views import ApiView, ListView

ACTIONS = {
    "GET": "get",
    "POST": "create",
    "PATCH": "update",
    "PUT": "replace",
    "DELETE": "delete",
}


class FieldProblemSerializer(serializers.Serializer[Any]):
    """One thing wrong with one field."""

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
    """Return the envelope of a page of such rows; always the same one, hence one component."""
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


class BerthSchema(AutoSchema):
    """Says in the schema what the base views do."""

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
        """Return the first word of the address."""
        return [self.path.removeprefix("/api/v1/").split("/")[0]]

    def get_summary(self) -> str | None:
        """Return the first line of what the method, for a list the view, says about itself."""
        if self._is_page():
            return self.get_description().split("\n")[0]
        doc = getattr(getattr(self.view, self.method.lower(), None), "__doc__", None) or ""
        return doc.strip().split("\n")[0] or None

    def get_description(self) -> str:  # type: ignore[override]  # two bases disagree
        """Return what the view says about itself."""
        return (self.view.__class__.__doc__ or "").strip()

    def _is_list_view(self, serializer: Any = None) -> bool:
        return False  # our pages are objects, not bare arrays

    def _is_page(self) -> bool:
        return isinstance(self.view, ListView) and self.method == "GET"

    def get_override_parameters(self) -> list[Any]:
        """Return the query parameters and headers the base views read."""
        found: list[OpenApiParameter] = []
        view = self.view
        if isinstance(view, ListView) and self._is_page():
            found += [_query(n, d, s) for n, (d, s) in LIST_PARAMETERS.items() if n != "ordering"]
            found.append(
                _query(
                    "ordering",
                    LIST_PARAMETERS["ordering"][0],
                    {"type": "string", "enum": list(view.orders)},
                )
            )
            found += [_query(n, f.description, dict(f.schema)) for n, f in view.filters.items()]
        if isinstance(view, ApiView) and self.method == "GET":
            found += [_query(n, d, s) for n, (d, s) in SHAPE_PARAMETERS.items()]
            found.append(_header("If-None-Match", "Answer 304 where this tag is still current."))
        if self.method in {"PATCH", "DELETE"}:
            found.append(_header("If-Match", "Answer 412 unless this tag is still current."))
        if self.method == "POST" and getattr(view, "takes_key", False):
            found.append(_header("Idempotency-Key", "Repeats with the same key are done once."))
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
        problem = self.resolve_serializer(ProblemSerializer, "response")
        bodies["default"] = {
            "description": "A problem; see /api/v1/errors/ for every code.",
            "content": {MEDIA_TYPE: {"schema": problem.ref}},
        }
        return bodies


def _query(name: str, description: str, schema: dict[str, Any]) -> OpenApiParameter:
    return OpenApiParameter(name, schema, OpenApiParameter.QUERY, description=description)


def _header(name: str, description: str) -> OpenApiParameter:
    return OpenApiParameter(name, str, OpenApiParameter.HEADER, description=description)


def catalogue() -> list[dict[str, Any]]:
    """Return every problem code with what it means."""
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
