"""Corrections by hand as the API reads and shows them."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from rest_framework import serializers

from apps.classification.api.matrix_serializers import MATRICES
from apps.classification.core.matrix import MatrixName
from apps.classification.core.units import unit_of
from apps.classification.models import Override
from apps.classification.services import NewOverride
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.common.representations import time
from apps.workloads.core.checks import Problems, check_number, escape, problem

MOST_CELLS: Final = 200
LONGEST_REASON: Final = 500
_FIELDS: Final = ("cells", "reason")
_CELL_FIELDS: Final = ("matrix", "column", "value")
_LARGEST: Final = 1e18


class OverrideCellSerializer(serializers.Serializer[Any]):
    """A cell to set, in the unit of its matrix."""

    matrix = serializers.ChoiceField(choices=MATRICES)
    column = serializers.CharField(max_length=63)
    value = serializers.FloatField()


class OverrideRequestSerializer(serializers.Serializer[Any]):
    """Cells that somebody knows better, and why."""

    cells = OverrideCellSerializer(many=True)
    reason = serializers.CharField(max_length=LONGEST_REASON)


class OverrideSerializer(serializers.Serializer[Any]):
    """A correction: it outranks what was measured until it is withdrawn."""

    id = serializers.UUIDField()
    matrix = serializers.ChoiceField(choices=MATRICES)
    column = serializers.CharField()
    value = serializers.FloatField()
    unit = serializers.CharField()
    reason = serializers.CharField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    at_seconds = serializers.FloatField(help_text="When, in cluster time.")
    withdrawn_at = serializers.DateTimeField(allow_null=True, help_text="Null: in force.")


class OverridesMadeSerializer(serializers.Serializer[Any]):
    """The corrections a request made."""

    results = OverrideSerializer(many=True)


class Correction(NamedTuple):
    """What a request wants set, and why."""

    cells: list[NewOverride]
    reason: str


def read_correction(data: Any) -> Correction:
    """Read the body of a correction.

    Raises
    ------
    InvalidInputError : names every field that is wrong; what columns there are is not checked.
    """
    if not isinstance(data, Mapping):
        raise InvalidInputError([problem("", "wrong_type", "must be an object with cells")])
    problems = _unknown(data, _FIELDS, "")
    cells = _cells(data.get("cells"), problems)
    reason = _reason(data.get("reason"), problems)
    if problems:
        raise InvalidInputError(problems)
    return Correction(cells, reason)


def _cells(given: object, problems: Problems) -> list[NewOverride]:
    if not isinstance(given, list) or not given:
        wanted = "must be a list of at least one {matrix, column, value}"
        problems.append(problem("/cells", "required" if not given else "wrong_type", wanted))
        return []
    if len(given) > MOST_CELLS:
        detail = f"must have at most {MOST_CELLS} entries, not {len(given):,}"
        problems.append(problem("/cells", "too_many", detail))
        return []
    read = [_cell(cell, f"/cells/{i}", problems) for i, cell in enumerate(given)]
    return [cell for cell in read if cell is not None]


def _cell(given: object, pointer: str, problems: Problems) -> NewOverride | None:
    if not isinstance(given, Mapping):
        detail = f"must be an object with matrix, column and value, not {given!r:.60}"
        problems.append(problem(pointer, "wrong_type", detail))
        return None
    found = len(problems)
    problems += _unknown(given, _CELL_FIELDS, pointer)
    problems += [
        problem(f"{pointer}/{name}", "required", f"a cell needs its {name}")
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
        number = check_number(value, f"{pointer}/value", problems, -_LARGEST, _LARGEST)
    if len(problems) > found or number is None:
        return None
    return NewOverride(MatrixName(str(matrix)), str(column), number)


def _reason(given: object, problems: Problems) -> str:
    if given is None or given == "":
        problems.append(problem("/reason", "required", "say why, for those who read it later"))
        return ""
    if not isinstance(given, str):
        problems.append(problem("/reason", "wrong_type", f"must be text, not {given!r:.60}"))
        return ""
    reason = given.strip()
    if not reason or not reason.isprintable():
        detail = f"must be printable text on one line, not {given!r:.60}"
        problems.append(problem("/reason", "bad_characters", detail))
    elif len(reason) > LONGEST_REASON:
        detail = f"must have at most {LONGEST_REASON} characters, not {len(reason):,}"
        problems.append(problem("/reason", "too_long", detail))
    return reason


def _unknown(given: Mapping[Any, Any], known: tuple[str, ...], pointer: str) -> list[FieldProblem]:
    return [
        problem(f"{pointer}/{escape(name)}", "unknown_field", f"known are {', '.join(known)}")
        for name in given
        if name not in known
    ]


def represent_override(row: Override, kind: str) -> dict[str, Any]:
    """JSON of a correction of an application of that kind, whose maker is loaded."""
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
