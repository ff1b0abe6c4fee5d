"""Validation of small request bodies; errors become field problems."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from django.http import HttpRequest
from rest_framework import serializers

from apps.common.api.problems import ProblemError
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.common.core.problem_codes import ProblemCode

HEADER: Final = "HTTP_IDEMPOTENCY_KEY"
MAX_SHOWN: Final = 60  # characters of a value in a message
_SECRET: Final = re.compile("password|secret|token|key|credential|signature")  # in a pointer


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
    problems += _booleans(data, "", bound)
    if not bound.is_valid():
        problems += _problems(bound.errors, data, "", bound)
    if problems:
        raise InvalidInputError(problems)
    return dict(bound.validated_data)


def _booleans(given: Any, at: str, field: Any) -> Iterator[FieldProblem]:
    """Yield the problems of booleans in the place of numbers: Python takes them for 0 and 1."""
    if isinstance(given, bool) and isinstance(field, serializers.FloatField):
        yield FieldProblem(at, "invalid", f"A valid number is required. Given: {_shown(given)}.")
    for name in _names(given):
        inner = _field_of(field, name)
        if inner is not None:  # a field of any JSON is not searched: it may be large
            yield from _booleans(given[name], f"{at}/{name}", inner)


def _names(given: Any) -> Iterable[Any]:
    """Return the names of the fields of an object, or the indexes of a list."""
    if isinstance(given, Mapping):
        return given.keys()
    return range(len(given)) if isinstance(given, list) else ()


def _field_of(field: Any, name: Any) -> Any:
    """Return a field of an object, or that of the elements; None: an unknown one."""
    return getattr(field, "fields", {}).get(name, getattr(field, "child", None))


def _problems(errors: Any, given: Any, at: str, field: Any) -> Iterator[FieldProblem]:
    """Yield the problems of a field, or of the fields inside it; None: an unknown field."""
    if isinstance(errors, dict):
        for name, inner in errors.items():
            if name == "non_field_errors":
                yield from _problems(inner, given, at, field)
            else:
                part = given[name] if name in _names(given) else None
                yield from _problems(inner, part, f"{at}/{name}", _field_of(field, name))
        return
    for error in errors:
        code = getattr(error, "code", "invalid")
        detail = "must not be empty" if code == "blank" else str(error)
        choices = getattr(field, "choices", None)
        if code == "invalid_choice" and choices:
            detail = f"{detail} Accepted: {', '.join(map(str, choices))}."
        elif _is_shown(given, at):
            detail = f"{detail} Given: {_shown(given)}."
        yield FieldProblem(at, code, detail)


def _shown(given: str | float) -> str:
    return json.dumps(given, ensure_ascii=False)[:MAX_SHOWN]


def _is_shown(given: Any, at: str) -> bool:
    """Return whether a message repeats a value: a text or a number that is not secret."""
    is_scalar = isinstance(given, str | int | float) and given != ""
    return is_scalar and _SECRET.search(at) is None
