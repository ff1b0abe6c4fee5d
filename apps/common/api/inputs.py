"""Validation of small request bodies; errors become field problems."""

from collections.abc import Iterator
from typing import Any, Final

from django.http import HttpRequest
from rest_framework import serializers

from apps.common.api.problems import ProblemError
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.common.core.problem_codes import ProblemCode

HEADER: Final = "HTTP_IDEMPOTENCY_KEY"


class EmptySerializer(serializers.Serializer[Any]):
    """A body without fields."""


def idempotency_key(request: HttpRequest) -> str | None:
    """Return the Idempotency-Key of a request, without quotes; None if it has none.

    Raises
    ------
    ProblemError : the key is malformed.
    """
    key = request.META.get(HEADER)
    if key is None:
        return None
    key = key.strip().strip('"')
    if not key or len(key) > 200 or not key.isprintable() or not key.isascii():
        raise ProblemError(
            ProblemCode.MALFORMED_REQUEST,
            "Idempotency-Key must have 1 to 200 printable ASCII characters.",
        )
    return str(key)


def validated(serializer: type[serializers.Serializer[Any]], data: Any) -> dict[str, Any]:
    """Return the validated body.

    Raises
    ------
    InvalidInputError : lists every problem; an unknown field is one.
    """
    if not isinstance(data, dict):
        raise InvalidInputError([FieldProblem("", "wrong_type", "must be an object")])
    bound = serializer(data=data)
    unknown = sorted(data.keys() - bound.fields.keys())
    accepted = ", ".join(bound.fields) or "none"
    problems = [
        FieldProblem(f"/{name}", "unknown_field", f"unknown field; accepted: {accepted}")
        for name in unknown
    ]
    if not bound.is_valid():
        problems += _problems(bound.errors, "", bound)
    if problems:
        raise InvalidInputError(problems)
    return dict(bound.validated_data)


def _problems(errors: Any, at: str, field: Any) -> Iterator[FieldProblem]:
    """Yield the problems of a field, or of the fields inside it; None: an unknown field."""
    if isinstance(errors, dict):
        inside = getattr(field, "fields", {})
        for name, inner in errors.items():
            if name == "non_field_errors":
                yield from _problems(inner, at, field)
            else:
                child = inside.get(name, getattr(field, "child", None))
                yield from _problems(inner, f"{at}/{name}", child)
        return
    for error in errors:
        code, detail = getattr(error, "code", "invalid"), str(error)
        choices = getattr(field, "choices", None)
        if code == "invalid_choice" and choices:
            detail = f"{detail} Accepted: {', '.join(map(str, choices))}."
        yield FieldProblem(at, code, detail)
