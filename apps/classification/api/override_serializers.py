"""Parsing and JSON of overrides."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from rest_framework import serializers

from apps.classification.api.matrix_serializers import MATRICES
from apps.classification.core.matrix import MatrixName
from apps.classification.core.units import unit_of
from apps.classification.models import Override
from apps.classification.services import NewOverride
from apps.common.api.representations import time
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.workloads.core.checks import Problems, check_number, escape, problem

MAX_CELLS: Final = 200
MAX_REASON_LENGTH: Final = 500
_FIELDS: Final = ("cells", "reason")
_CELL_FIELDS: Final = ("matrix", "column", "value")
MAX_VALUE: Final = 1e18


class OverrideCellSerializer(serializers.Serializer[Any]):
    """A cell to override; the value is in the unit of its matrix."""

    matrix = serializers.ChoiceField(choices=MATRICES)
    column = serializers.CharField(max_length=63)
    value = serializers.FloatField(min_value=-MAX_VALUE, max_value=MAX_VALUE)


class OverrideRequestSerializer(serializers.Serializer[Any]):
    """Cells to override, and the reason."""

    cells = serializers.ListField(
        child=OverrideCellSerializer(), min_length=1, max_length=MAX_CELLS
    )
    reason = serializers.CharField(max_length=MAX_REASON_LENGTH)


class OverrideSerializer(serializers.Serializer[Any]):
    """An override: it replaces measurements of its cell until it is withdrawn."""

    id = serializers.UUIDField()
    matrix = serializers.ChoiceField(choices=MATRICES)
    column = serializers.CharField()
    value = serializers.FloatField()
    unit = serializers.CharField()
    reason = serializers.CharField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    at_seconds = serializers.FloatField(help_text="Cluster time of the override.")
    withdrawn_at = serializers.DateTimeField(allow_null=True, help_text="Null: still in force.")


class CreatedOverridesSerializer(serializers.Serializer[Any]):
    """The overrides that a request created."""

    results = OverrideSerializer(many=True)


class OverrideRequest(NamedTuple):
    """Cells to override, and the reason."""

    cells: list[NewOverride]
    reason: str


def read_override_request(data: Any) -> OverrideRequest:
    """Parse the body of an override request.

    Raises
    ------
    InvalidInputError : lists every invalid field; column names are not checked.
    """
    if not isinstance(data, Mapping):
        raise InvalidInputError(
            [problem("", "wrong_type", "must be an object with cells and reason")]
        )
    problems = _unknown(data, _FIELDS, "")
    cells = _cells(data.get("cells"), problems)
    reason = _reason(data.get("reason"), problems)
    if problems:
        raise InvalidInputError(problems)
    return OverrideRequest(cells, reason)


def _cells(given: object, problems: Problems) -> list[NewOverride]:
    if not isinstance(given, list) or not given:
        detail = "must be a list of at least one {matrix, column, value}"
        problems.append(problem("/cells", "required" if not given else "wrong_type", detail))
        return []
    if len(given) > MAX_CELLS:
        detail = f"must have at most {MAX_CELLS} entries, not {len(given):,}"
        problems.append(problem("/cells", "too_many", detail))
        return []
    read = [_cell(cell, f"/cells/{i}", problems) for i, cell in enumerate(given)]
    return [cell for cell in read if cell is not None]


def _cell(given: object, pointer: str, problems: Problems) -> NewOverride | None:
    if not isinstance(given, Mapping):
        detail = f"must be an object with matrix, column and value, not {given!r:.60}"
        problems.append(problem(pointer, "wrong_type", detail))
        return None
    before = len(problems)
    problems += _unknown(given, _CELL_FIELDS, pointer)
    problems += [
        problem(f"{pointer}/{name}", "required", f"{name} is required")
        for name in _CELL_FIELDS
        if name not in given
    ]
    matrix, column, value = (given.get(name) for name in _CELL_FIELDS)
    if "matrix" in given and matrix not in list(MatrixName):
        detail = f"must be one of {', '.join(MatrixName)}, not {matrix!r:.60}"
        problems.append(problem(f"{pointer}/matrix", "unknown_value", detail))
    if "column" in given and not isinstance(column, str):
        detail = f"must be the column's name, not {column!r:.60}"
        problems.append(problem(f"{pointer}/column", "wrong_type", detail))
    number = None
    if "value" in given:
        number = check_number(value, f"{pointer}/value", problems, -MAX_VALUE, MAX_VALUE)
    if len(problems) > before or number is None:
        return None
    return NewOverride(MatrixName(str(matrix)), str(column), number)


def _reason(given: object, problems: Problems) -> str:
    if given is None or given == "":
        problems.append(
            problem("/reason", "required", "a reason is required; it is shown with the override")
        )
        return ""
    if not isinstance(given, str):
        problems.append(problem("/reason", "wrong_type", f"must be text, not {given!r:.60}"))
        return ""
    reason = given.strip()
    if not reason or not reason.isprintable():
        detail = f"must be printable text on one line, not {given!r:.60}"
        problems.append(problem("/reason", "bad_characters", detail))
    elif len(reason) > MAX_REASON_LENGTH:
        detail = f"must have at most {MAX_REASON_LENGTH} characters, not {len(reason):,}"
        problems.append(problem("/reason", "too_long", detail))
    return reason


def _unknown(given: Mapping[Any, Any], known: tuple[str, ...], pointer: str) -> list[FieldProblem]:
    return [
        problem(
            f"{pointer}/{escape(name)}",
            "unknown_field",
            f"unknown field; expected {', '.join(known)}",
        )
        for name in given
        if name not in known
    ]


def represent_override(row: Override, kind: str) -> dict[str, Any]:
    """JSON of an override; its author must be loaded. ``kind`` is the application's kind."""
    return {
        "id": str(row.pk),
        "matrix": row.matrix,
        "column": row.column,
        "value": row.value,
        "unit": unit_of(MatrixName(row.matrix), row.column, kind),
        "reason": row.reason,
        "created_by": row.created_by.username,
        "created_at": time(row.created_at),
        "at_seconds": row.cluster_s,
        "withdrawn_at": time(row.withdrawn_at),
    }
