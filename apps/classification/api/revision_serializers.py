"""Revisions as the API shows them."""

from collections.abc import Sequence
from typing import Any

from rest_framework import serializers

from apps.classification.api.matrix_serializers import MATRICES, EvaluationSerializer
from apps.classification.models import MatrixRevision, Revision, RevisionReason
from apps.common.representations import time

REASONS = [(reason.value, reason.value) for reason in RevisionReason]


class EmptySerializer(serializers.Serializer[Any]):
    """Nothing is asked."""


class RevisedMatrixSerializer(serializers.Serializer[Any]):
    """One matrix of a revision, in short."""

    name = serializers.ChoiceField(choices=MATRICES)
    row_count = serializers.IntegerField()
    library_row_count = serializers.IntegerField()
    column_count = serializers.IntegerField()
    evaluation = EvaluationSerializer(allow_null=True, help_text="Null: not evaluated yet.")


class RevisionSerializer(serializers.Serializer[Any]):
    """One immutable state of all matrices."""

    number = serializers.IntegerField()
    reason = serializers.ChoiceField(choices=REASONS)
    explanation = serializers.CharField(help_text="The reason in words.")
    estimator = serializers.CharField()
    is_current = serializers.BooleanField(help_text="Whether it is in force.")
    created_at = serializers.DateTimeField()
    cluster_seconds = serializers.FloatField(help_text="When, in cluster time.")
    seconds = serializers.FloatField(help_text="Wall time it took to make.")
    operation = serializers.UUIDField(allow_null=True, help_text="Null: made by a command.")
    matrices = RevisedMatrixSerializer(many=True)


def represent_revision(revision: Revision, matrices: Sequence[MatrixRevision]) -> dict[str, Any]:
    """JSON of a revision."""
    of_name = {row.matrix: row for row in matrices}
    return {
        "number": revision.number,
        "reason": str(revision.reason),
        "explanation": RevisionReason(revision.reason).label,
        "estimator": revision.estimator,
        "is_current": revision.is_current,
        "created_at": time(revision.created_at),
        "cluster_seconds": revision.cluster_s,
        "seconds": revision.seconds,
        "operation": str(revision.operation_id) if revision.operation_id else None,
        "matrices": [
            {
                "name": name,
                "row_count": len(of_name[name].rows),
                "library_row_count": of_name[name].library_rows,
                "column_count": len(of_name[name].columns),
                "evaluation": of_name[name].evaluation or None,
            }
            for name, _ in MATRICES
            if name in of_name
        ],
    }
