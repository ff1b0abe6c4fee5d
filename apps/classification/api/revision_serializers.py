"""JSON of revisions."""

from collections.abc import Sequence
from typing import Any

from rest_framework import serializers

from apps.classification.api.matrix_serializers import MATRICES, EvaluationSerializer
from apps.classification.models import MatrixRevision, Revision, RevisionReason
from apps.common.api.representations import time

REASONS = [(reason.value, reason.value) for reason in RevisionReason]


class RevisedMatrixSerializer(serializers.Serializer[Any]):
    """Summary of one matrix of a revision."""

    name = serializers.ChoiceField(choices=MATRICES)
    row_count = serializers.IntegerField()
    library_row_count = serializers.IntegerField()
    column_count = serializers.IntegerField()
    evaluation = EvaluationSerializer(allow_null=True, help_text="Null: not evaluated yet.")


class RevisionSerializer(serializers.Serializer[Any]):
    """One immutable version of all matrices."""

    number = serializers.IntegerField()
    reason = serializers.ChoiceField(choices=REASONS)
    explanation = serializers.CharField(help_text="The reason as text.")
    estimator = serializers.CharField()
    is_current = serializers.BooleanField(help_text="Whether this is the current revision.")
    created_at = serializers.DateTimeField()
    cluster_seconds = serializers.FloatField(help_text="Cluster time of its creation.")
    seconds = serializers.FloatField(help_text="Wall time of the computation.")
    operation = serializers.UUIDField(allow_null=True, help_text="Null: created by a command.")
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
