"""API schema of the preview of overrides."""

import math
from typing import Any

from rest_framework import serializers

from apps.classification.api.matrix_serializers import MATRICES, SOURCES
from apps.classification.core.differences import CellChange, CellEstimate
from apps.classification.core.estimates import Estimate
from apps.classification.core.matrix import MatrixName
from apps.classification.core.units import unit_of
from apps.common.core.interference import SOURCES as INTERFERENCE
from apps.scheduling.core.preview import PERFORMANCE_UNIT, SizingOutcome
from apps.scheduling.services import Preview, PreviewedJob
from apps.workloads.api.serializers import STATES
from apps.workloads.api.spec_serializers import TargetSerializer
from apps.workloads.core.targets import TargetKind


class RevisionChangeSerializer(serializers.Serializer[Any]):
    """Matrix revision from which profiles are inferred."""

    before = serializers.IntegerField(allow_null=True)
    after = serializers.IntegerField()


class CellStateSerializer(serializers.Serializer[Any]):
    """Value of a profile's cell with its 90 % interval."""

    value = serializers.FloatField()
    low = serializers.FloatField()
    high = serializers.FloatField()
    source = serializers.ChoiceField(choices=SOURCES)  # type: ignore[assignment]  # shadows Field.source


class CellChangeSerializer(serializers.Serializer[Any]):
    """A changed cell of the profile."""

    matrix = serializers.ChoiceField(choices=MATRICES)
    column = serializers.CharField()
    unit = serializers.CharField()
    before = CellStateSerializer(allow_null=True, help_text="Null: no value before.")
    after = CellStateSerializer()


class CountChangeSerializer(serializers.Serializer[Any]):
    """A number before and after."""

    before = serializers.IntegerField(allow_null=True)
    after = serializers.IntegerField(allow_null=True)


class FlagChangeSerializer(serializers.Serializer[Any]):
    """A truth value before and after."""

    before = serializers.BooleanField()
    after = serializers.BooleanField()


class PointsChangeSerializer(serializers.Serializer[Any]):
    """Points (0-100) before and after."""

    before = serializers.FloatField()
    after = serializers.FloatField()


class PredictionSerializer(serializers.Serializer[Any]):
    """Performance with its 90 % interval; of an infeasible job, the best value only."""

    value = serializers.FloatField()
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)


class PredictionChangeSerializer(serializers.Serializer[Any]):
    """Performance on the slowest sufficient platform, before and after."""

    before = PredictionSerializer(allow_null=True)
    after = PredictionSerializer(allow_null=True)


class HeldServerSerializer(serializers.Serializer[Any]):
    """A server the job runs on."""

    server = serializers.CharField()
    platform = serializers.CharField()
    acceptable = FlagChangeSerializer(
        help_text="Whether the job tolerates the interference there."
    )
    headroom = PointsChangeSerializer(help_text="Minimum of tolerance less interference.")
    tightest = serializers.ChoiceField(
        choices=[(name, name) for name in INTERFERENCE], help_text="Source of the minimum, after."
    )


class PreviewedJobSerializer(serializers.Serializer[Any]):
    """A job that would be sized or placed differently."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    state = serializers.ChoiceField(choices=STATES)
    target = TargetSerializer()
    units = CountChangeSerializer(help_text="Chosen size; of an infeasible job, the best size.")
    units_held = serializers.IntegerField(allow_null=True, help_text="Null: the job waits.")
    platforms_gained = serializers.ListField(child=serializers.CharField())
    platforms_lost = serializers.ListField(child=serializers.CharField())
    predicted = PredictionChangeSerializer()
    unit = serializers.CharField(help_text="Unit of the prediction.")
    feasible = FlagChangeSerializer()
    suggestion = serializers.CharField(
        allow_blank=True, help_text="Remedy, if the job is infeasible after."
    )
    good_servers = CountChangeSerializer(
        allow_null=True,
        help_text="Open servers with room and acceptable interference; null if the job runs.",
    )
    servers = HeldServerSerializer(many=True)


class OverridePreviewSerializer(serializers.Serializer[Any]):
    """Changes that overrides would make; nothing was written."""

    dry_run = serializers.BooleanField()
    application = serializers.CharField()
    profile = serializers.IntegerField(
        allow_null=True, help_text="The current profile; null: never profiled."
    )
    revision = RevisionChangeSerializer()
    cells = CellChangeSerializer(many=True)
    examined = serializers.IntegerField(help_text="Jobs evaluated.")
    total = serializers.IntegerField(help_text="Visible jobs that have not ended.")
    changed = serializers.IntegerField()
    jobs = PreviewedJobSerializer(many=True)


def represent_preview(preview: Preview) -> dict[str, Any]:
    """JSON of a preview."""
    kind = preview.application.kind
    return {
        "dry_run": True,
        "application": preview.application.name,
        "profile": preview.profile.number if preview.profile else None,
        "revision": {
            "before": preview.profile.revision if preview.profile else None,
            "after": preview.revision,
        },
        "cells": [_change(change, kind) for change in preview.cells],
        "examined": preview.examined,
        "total": preview.total,
        "changed": len(preview.jobs),
        "jobs": [_job(row) for row in preview.jobs],
    }


def _change(change: CellChange, kind: str) -> dict[str, Any]:
    return {
        "matrix": change.matrix,
        "column": change.column,
        "unit": unit_of(MatrixName(change.matrix), change.column, kind),
        "before": _believed(change.before),
        "after": _believed(change.after),
    }


def _believed(cell: CellEstimate | None) -> dict[str, Any] | None:
    return None if cell is None else cell._asdict()


def _job(row: PreviewedJob) -> dict[str, Any]:
    job, preview = row.job, row.preview
    before, after = preview.before, preview.after
    return {
        "id": str(job.pk),
        "name": job.name,
        "state": job.state,
        "target": job.target,
        "units": {"before": before.units, "after": after.units},
        "units_held": row.units_held,
        "platforms_gained": list(preview.gained),
        "platforms_lost": list(preview.lost),
        "predicted": {
            "before": _prediction(before.predicted),
            "after": _prediction(after.predicted),
        },
        "unit": PERFORMANCE_UNIT[TargetKind(job.target_kind)],
        "feasible": {"before": before.feasible, "after": after.feasible},
        "suggestion": after.suggestion,
        "good_servers": None if preview.headrooms else _good_servers(before, after),
        "servers": _servers(row),
    }


def _good_servers(before: SizingOutcome, after: SizingOutcome) -> dict[str, int]:
    return {"before": len(before.good_servers), "after": len(after.good_servers)}


def _servers(row: PreviewedJob) -> list[dict[str, Any]]:
    return [
        {
            "server": name,
            "platform": platform,
            "acceptable": {"before": headroom.before >= 0.0, "after": headroom.after >= 0.0},
            "headroom": {"before": round(headroom.before, 3), "after": round(headroom.after, 3)},
            "tightest": headroom.source,
        }
        for headroom, (name, platform) in zip(row.preview.headrooms, row.servers, strict=True)
    ]


def _prediction(estimate: Estimate | None) -> dict[str, float | None] | None:
    if estimate is None:
        return None
    return {
        name: value if math.isfinite(value) else None for name, value in estimate._asdict().items()
    }
