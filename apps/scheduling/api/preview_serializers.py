"""What corrections by hand would change, as the API shows it."""

import math
from typing import Any

from rest_framework import serializers

from apps.classification.api.matrix_serializers import MATRICES, SOURCES
from apps.classification.core.differences import Believed, CellChange
from apps.classification.core.matrix import MatrixName
from apps.classification.core.profile import Estimate
from apps.classification.core.units import unit_of
from apps.common.core.interference import SOURCES as INTERFERENCE
from apps.scheduling.core.preview import PERFORMANCE_UNIT, Outlook
from apps.scheduling.services import Preview, PreviewedJob
from apps.workloads.api.serializers import STATES, TargetSerializer
from apps.workloads.core.targets import TargetKind


class RevisionChangeSerializer(serializers.Serializer[Any]):
    """Which matrices profiles are drawn from."""

    before = serializers.IntegerField(allow_null=True)
    after = serializers.IntegerField()


class CellStateSerializer(serializers.Serializer[Any]):
    """What a profile says of a cell; the interval holds 90 %."""

    value = serializers.FloatField()
    low = serializers.FloatField()
    high = serializers.FloatField()
    source = serializers.ChoiceField(choices=SOURCES)  # type: ignore[assignment]  # shadows Field.source


class CellChangeSerializer(serializers.Serializer[Any]):
    """A cell of the profile that changes."""

    matrix = serializers.ChoiceField(choices=MATRICES)
    column = serializers.CharField()
    unit = serializers.CharField()
    before = CellStateSerializer(allow_null=True, help_text="Null: nothing was believed.")
    after = CellStateSerializer()


class CountChangeSerializer(serializers.Serializer[Any]):
    """A number before and after."""

    before = serializers.IntegerField(allow_null=True)
    after = serializers.IntegerField(allow_null=True)


class FlagChangeSerializer(serializers.Serializer[Any]):
    """Whether something holds, before and after."""

    before = serializers.BooleanField()
    after = serializers.BooleanField()


class PointsChangeSerializer(serializers.Serializer[Any]):
    """Points of 100, before and after."""

    before = serializers.FloatField()
    after = serializers.FloatField()


class PredictionSerializer(serializers.Serializer[Any]):
    """Performance with its 90 % interval; without one it is the best there is."""

    value = serializers.FloatField()
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)


class PredictionChangeSerializer(serializers.Serializer[Any]):
    """Performance on the slowest platform that is enough, before and after."""

    before = PredictionSerializer(allow_null=True)
    after = PredictionSerializer(allow_null=True)


class HeldServerSerializer(serializers.Serializer[Any]):
    """A server the job runs on."""

    server = serializers.CharField()
    platform = serializers.CharField()
    acceptable = FlagChangeSerializer(help_text="Whether the job tolerates the pressure there.")
    headroom = PointsChangeSerializer(help_text="Least of what it tolerates beyond the pressure.")
    tightest = serializers.ChoiceField(
        choices=[(name, name) for name in INTERFERENCE], help_text="Where it is least, after."
    )


class PreviewedJobSerializer(serializers.Serializer[Any]):
    """A job that would be sized or placed differently."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    state = serializers.ChoiceField(choices=STATES)
    target = TargetSerializer()
    units = CountChangeSerializer(help_text="Size decided; of an infeasible job the best.")
    units_held = serializers.IntegerField(allow_null=True, help_text="Null: it waits.")
    platforms_gained = serializers.ListField(child=serializers.CharField())
    platforms_lost = serializers.ListField(child=serializers.CharField())
    predicted = PredictionChangeSerializer()
    unit = serializers.CharField(help_text="Of what is predicted.")
    feasible = FlagChangeSerializer()
    suggestion = serializers.CharField(allow_blank=True, help_text="Where it is infeasible after.")
    good_servers = CountChangeSerializer(
        allow_null=True,
        help_text="Open servers with room that are quiet enough; null where it runs.",
    )
    servers = HeldServerSerializer(many=True)


class OverridePreviewSerializer(serializers.Serializer[Any]):
    """What corrections would change; nothing was written."""

    dry_run = serializers.BooleanField()
    application = serializers.CharField()
    profile = serializers.IntegerField(
        allow_null=True, help_text="The current one; null: never profiled."
    )
    revision = RevisionChangeSerializer()
    cells = CellChangeSerializer(many=True)
    examined = serializers.IntegerField(help_text="Jobs looked at.")
    total = serializers.IntegerField(help_text="Jobs in sight that have not ended.")
    changed = serializers.IntegerField()
    jobs = PreviewedJobSerializer(many=True)


def represent_preview(found: Preview) -> dict[str, Any]:
    """JSON of a preview."""
    kind = found.application.kind
    return {
        "dry_run": True,
        "application": found.application.name,
        "profile": found.profile.number if found.profile else None,
        "revision": {
            "before": found.profile.revision if found.profile else None,
            "after": found.revision,
        },
        "cells": [_change(change, kind) for change in found.cells],
        "examined": found.examined,
        "total": found.total,
        "changed": len(found.jobs),
        "jobs": [_job(one) for one in found.jobs],
    }


def _change(change: CellChange, kind: str) -> dict[str, Any]:
    return {
        "matrix": change.matrix,
        "column": change.column,
        "unit": unit_of(MatrixName(change.matrix), change.column, kind),
        "before": _believed(change.before),
        "after": _believed(change.after),
    }


def _believed(cell: Believed | None) -> dict[str, Any] | None:
    return None if cell is None else cell._asdict()


def _job(one: PreviewedJob) -> dict[str, Any]:
    job, found = one.job, one.found
    before, after = found.before, found.after
    return {
        "id": str(job.pk),
        "name": job.name,
        "state": job.state,
        "target": job.target,
        "units": {"before": before.units, "after": after.units},
        "units_held": one.units_held,
        "platforms_gained": list(found.gained),
        "platforms_lost": list(found.lost),
        "predicted": {
            "before": _prediction(before.predicted),
            "after": _prediction(after.predicted),
        },
        "unit": PERFORMANCE_UNIT[TargetKind(job.target_kind)],
        "feasible": {"before": before.feasible, "after": after.feasible},
        "suggestion": after.suggestion,
        "good_servers": None if found.stands else _good_servers(before, after),
        "servers": _servers(one),
    }


def _good_servers(before: Outlook, after: Outlook) -> dict[str, int]:
    return {"before": len(before.good_servers), "after": len(after.good_servers)}


def _servers(one: PreviewedJob) -> list[dict[str, Any]]:
    return [
        {
            "server": name,
            "platform": platform,
            "acceptable": {"before": stand.before >= 0.0, "after": stand.after >= 0.0},
            "headroom": {"before": round(stand.before, 3), "after": round(stand.after, 3)},
            "tightest": stand.source,
        }
        for stand, (name, platform) in zip(one.found.stands, one.servers, strict=True)
    ]


def _prediction(estimate: Estimate | None) -> dict[str, float | None] | None:
    if estimate is None:
        return None
    return {
        name: value if math.isfinite(value) else None for name, value in estimate._asdict().items()
    }
