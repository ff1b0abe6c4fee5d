"""JSON of utility matrices and their cells."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rest_framework import serializers

from apps.classification.core.cells import Cells, Source, SourceCode
from apps.classification.core.matrix import MatrixName, Scale
from apps.classification.core.units import unit_of
from apps.classification.models import MatrixRevision

MATRICES = [(name.value, name.value) for name in MatrixName]
SOURCES = [(source.value, source.value) for source in Source]
SCALES = [(scale.value, scale.value) for scale in Scale]


class EvaluationSerializer(serializers.Serializer[Any]):
    """Errors of hidden cells that were inferred; only ``rows`` is present if it is 0."""

    rows = serializers.IntegerField(
        help_text="Rows held out in turn; 0: too few rows to evaluate."
    )
    entries = serializers.IntegerField(required=False, help_text="Cells left known in each row.")
    cells = serializers.IntegerField(required=False, help_text="Number of hidden cells.")
    average = serializers.FloatField(
        required=False, help_text="Relative error; for scores, a share of 100 points."
    )
    p50 = serializers.FloatField(required=False)
    p90 = serializers.FloatField(required=False)
    largest = serializers.FloatField(required=False)
    covered = serializers.FloatField(
        required=False, help_text="Share of hidden cells inside their 90 % interval."
    )
    levels = serializers.ListField(child=serializers.FloatField(), required=False)
    calibration = serializers.ListField(
        child=serializers.FloatField(),
        required=False,
        help_text="Share of hidden cells inside the interval of each level.",
    )


class MatrixSerializer(serializers.Serializer[Any]):
    """One utility matrix at one revision."""

    name = serializers.ChoiceField(choices=MATRICES)
    scale = serializers.ChoiceField(
        choices=SCALES, help_text="log: errors are relative; score: errors are points of 100."
    )
    unit = serializers.CharField()
    revision = serializers.IntegerField()
    columns = serializers.ListField(child=serializers.CharField())
    row_count = serializers.IntegerField()
    library_row_count = serializers.IntegerField()
    known_share = serializers.FloatField(help_text="Share of the cells that are known.")
    singular_values = serializers.ListField(
        child=serializers.FloatField(), help_text="Strength of each similarity concept."
    )
    evaluation = EvaluationSerializer(allow_null=True, help_text="Null: not evaluated yet.")


class MatrixListSerializer(serializers.Serializer[Any]):
    """The matrices of one revision."""

    revision = serializers.IntegerField(allow_null=True, help_text="Null: no revision exists yet.")
    results = MatrixSerializer(many=True)


class MatrixRowSerializer(serializers.Serializer[Any]):
    """One application of a matrix."""

    name = serializers.CharField()
    library = serializers.BooleanField(
        help_text="True for rows of the offline library, false for live applications."
    )
    known = serializers.IntegerField(help_text="Number of known cells.")


class MatrixDetailSerializer(MatrixSerializer):
    """One utility matrix at one revision, with its rows."""

    rows = MatrixRowSerializer(many=True)


class CellSerializer(serializers.Serializer[Any]):
    """One cell with its source and 90 % interval."""

    row = serializers.CharField()
    column = serializers.CharField()
    source = serializers.ChoiceField(choices=SOURCES)  # type: ignore[assignment]  # shadows Field.source
    value = serializers.FloatField(
        allow_null=True, help_text="Null: neither measured nor inferred."
    )
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    unit = serializers.CharField()
    standard_error = serializers.FloatField(allow_null=True, help_text="Null for inferred cells.")
    samples = serializers.IntegerField(help_text="Number of measurements averaged.")
    at_seconds = serializers.FloatField(
        allow_null=True, help_text="Cluster time of the newest measurement."
    )


def represent_matrix(row: MatrixRevision, cells: Cells) -> dict[str, Any]:
    """JSON of a matrix; its revision must be loaded, ``cells`` has shape (rows, columns)."""
    name = MatrixName(row.matrix)
    return {
        "name": name.value,
        "scale": name.scale.value,
        "unit": unit_of(name),
        "revision": row.revision_id,
        "columns": row.columns,
        "row_count": len(row.rows),
        "library_row_count": row.library_rows,
        "known_share": float((cells["samples"] > 0).mean()) if cells.size else 0.0,
        "singular_values": row.singular_values,
        "evaluation": row.evaluation or None,
    }


def represent_rows(row: MatrixRevision, cells: Cells) -> list[dict[str, Any]]:
    """JSON of the rows of a matrix."""
    known = (cells["samples"] > 0).sum(axis=1).tolist()
    return [
        {"name": name, "library": i < row.library_rows, "known": known[i]}
        for i, name in enumerate(row.rows)
    ]


def represent_cells(
    row: MatrixRevision, cells: Cells, places: Sequence[int], kinds: Mapping[str, str]
) -> list[dict[str, Any]]:
    """JSON of some cells.

    Parameters
    ----------
    places : flat index of each cell, row · columns + column
    kinds : of known applications, by name
    """
    name = MatrixName(row.matrix)
    results = []
    for place in places:
        i, j = divmod(place, len(row.columns))
        cell = cells[i, j]
        is_known = bool(cell["samples"])
        application, column = row.rows[i], row.columns[j]
        results.append(
            {
                "row": application,
                "column": column,
                "source": SourceCode(int(cell["source"])).source.value,
                "value": _finite(cell["value"] if is_known else cell["estimate"]),
                "low": _finite(cell["low"]),
                "high": _finite(cell["high"]),
                "unit": unit_of(name, column, kinds.get(application)),
                "standard_error": _finite(cell["standard_error"]),
                "samples": int(cell["samples"]),
                "at_seconds": _finite(cell["measured_s"]),
            }
        )
    return results


def _finite(value: np.float64) -> float | None:
    return float(value) if math.isfinite(value) else None
