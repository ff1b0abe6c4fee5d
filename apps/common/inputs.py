"""Small request bodies, checked by a serializer, their errors as field problems."""

from collections.abc import Iterator
from typing import Any

from rest_framework import serializers

from apps.common.core.errors import FieldProblem, InvalidInputError


def validated(serializer: type[serializers.Serializer[Any]], data: Any) -> dict[str, Any]:
    """Return the checked body.

    Raises
    ------
    InvalidInputError : with every problem found; unknown fields are problems too.
    """
    if not isinstance(data, dict):
        raise InvalidInputError([FieldProblem("", "wrong_type", "must be an object")])
    bound = serializer(data=data)
    unknown = sorted(data.keys() - bound.fields.keys())
    problems = [
        FieldProblem(f"/{name}", "unknown_field", f"known are {', '.join(bound.fields)}")
        for name in unknown
    ]
    if not bound.is_valid():
        problems += _problems(bound.errors, "")
    if problems:
        raise InvalidInputError(problems)
    return dict(bound.validated_data)


def _problems(errors: Any, at: str) -> Iterator[FieldProblem]:
    if isinstance(errors, dict):
        for name, inner in errors.items():
            yield from _problems(inner, at if name == "non_field_errors" else f"{at}/{name}")
        return
    for error in errors:
        yield FieldProblem(at, getattr(error, "code", "invalid"), str(error))
