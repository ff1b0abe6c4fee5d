"""Utility matrices and their cells as the API shows them."""

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
    """Errors of cells that were hidden and inferred; with rows = 0 nothing else is told."""

    rows = serializers.IntegerField(help_text="Hidden in turn; 0 = too few to hide any.")
    entries = serializers.IntegerField(required=False, help_text="Cells left of each.")
    cells = serializers.IntegerField(required=False, help_text="Hidden.")
    average = serializers.FloatField(required=False, help_text="Share; of scores, of 100 points.")
    p50 = serializers.FloatField(required=False)
    p90 = serializers.FloatField(required=False)
    largest = serializers.FloatField(required=False)
    covered = serializers.FloatField(required=False, help_text="Share inside 90 % intervals.")
    levels = serializers.ListField(child=serializers.FloatField(), required=False)
    calibration = serializers.ListField(
        child=serializers.FloatField(), required=False, help_text="Share inside, by level."
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

    revision = serializers.IntegerField(allow_null=True, help_text="Null: there is none yet.")
    results = MatrixSerializer(many=True)


class MatrixRowSerializer(serializers.Serializer[Any]):
    """One application of a matrix."""

    name = serializers.CharField()
    library = serializers.BooleanField(help_text="Of the offline library, or else live.")
    known = serializers.IntegerField(help_text="Cells that are known.")


class MatrixDetailSerializer(MatrixSerializer):
    """One utility matrix at one revision, with its rows."""

    rows = MatrixRowSerializer(many=True)


class CellSerializer(serializers.Serializer[Any]):
    """One cell with its provenance; the interval holds 90 %."""

    row = serializers.CharField()
    column = serializers.CharField()
    source = serializers.ChoiceField(choices=SOURCES)  # type: ignore[assignment]  # shadows Field.source
    value = serializers.FloatField(allow_null=True, help_text="Null: not even inferred.")
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    unit = serializers.CharField()
    standard_error = serializers.FloatField(allow_null=True, help_text="Null where inferred.")
    samples = serializers.IntegerField(help_text="Measurements behind it.")
    at_seconds = serializers.FloatField(allow_null=True, help_text="Cluster time of the newest.")


def represent_matrix(row: MatrixRevision, cells: Cells) -> dict[str, Any]:
    """JSON of a matrix whose revision is loaded, with its (rows, columns) cells."""
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
    places : row · columns + column of each
    kinds : of the applications, by name; of those that are known
    """
    name = MatrixName(row.matrix)
    found = []
    for place in places:
        i, j = divmod(place, len(row.columns))
        cell = cells[i, j]
        is_known = bool(cell["samples"])
        application, column = row.rows[i], row.columns[j]
        found.append(
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
    return found


def _finite(value: np.float64) -> float | None:
    return float(value) if math.isfinite(value) else None
