"""JSON of profiles, size estimates, measurements and prediction errors."""

from collections import Counter
from typing import Any

from rest_framework import serializers

from apps.accounts.core.principal import Principal
from apps.classification.api.matrix_serializers import MATRICES, SOURCES
from apps.classification.core.cells import Source
from apps.classification.core.matrix import MatrixName
from apps.classification.core.size_estimates import SizeEstimate
from apps.classification.core.units import BYTES, WORK_OF_KIND, WORK_OF_TARGET, unit_of
from apps.classification.models import Drift, PredictionError, Profile
from apps.common.api.representations import time
from apps.profiling.models import Measurement
from apps.workloads.core.targets import TargetKind

ORIGINS = ("profiling", "telemetry")
METRICS = ("work", "bytes")
ORIGIN_CHOICES = [(origin, origin) for origin in ORIGINS]


class DriftSerializer(serializers.Serializer[Any]):
    """Drift of an application's predictions."""

    observations = serializers.IntegerField()
    mean_error = serializers.FloatField(help_text="Moving mean of ln(measured / predicted).")
    flagged_seconds = serializers.FloatField(
        allow_null=True, help_text="Cluster time at which drift was detected; null: no drift."
    )


class ProfileCellsSerializer(serializers.Serializer[Any]):
    """Cells of one matrix: lists as long as ``columns``, with 90 % intervals."""

    columns = serializers.ListField(child=serializers.CharField())
    unit = serializers.ListField(child=serializers.CharField())
    value = serializers.ListField(child=serializers.FloatField())
    low = serializers.ListField(child=serializers.FloatField())
    high = serializers.ListField(child=serializers.FloatField())
    measured = serializers.ListField(
        child=serializers.BooleanField(),
        help_text="True for known cells, false for inferred ones.",
    )
    source = serializers.ListField(  # type: ignore[assignment]  # shadows Field.source
        child=serializers.ChoiceField(choices=SOURCES)
    )
    standard_error = serializers.ListField(child=serializers.FloatField(allow_null=True))
    samples = serializers.ListField(child=serializers.IntegerField())
    at_s = serializers.ListField(
        child=serializers.FloatField(allow_null=True), help_text="Cluster seconds."
    )
    log_error = serializers.ListField(
        child=serializers.FloatField(),
        required=False,
        help_text="base_rate only: standard error of the logarithm.",
    )


class CellsByMatrixSerializer(serializers.Serializer[Any]):
    """The cells of an application in every matrix that applies to it."""

    def get_fields(self) -> dict[str, Any]:
        """One field for each matrix; only analytics applications have framework settings."""
        optional = MatrixName.FRAMEWORK.value
        return {name: ProfileCellsSerializer(required=name != optional) for name, _ in MATRICES}


class SourceCountSerializer(serializers.Serializer[Any]):
    """Number of cells by source."""

    measured = serializers.IntegerField()
    inferred = serializers.IntegerField()
    override = serializers.IntegerField()


class ClassificationSerializer(serializers.Serializer[Any]):
    """Profile of an application: measured and inferred cells with 90 % intervals."""

    id = serializers.UUIDField()
    application = serializers.CharField()
    number = serializers.IntegerField(help_text="Number of the profile, counted per application.")
    revision = serializers.IntegerField(help_text="Revision of the matrices used.")
    revision_in_force = serializers.IntegerField(allow_null=True)
    is_stale = serializers.BooleanField(help_text="True if a newer revision is current.")
    is_pending = serializers.BooleanField(help_text="True if a new profile is being computed.")
    estimator = serializers.CharField()
    created_at = serializers.DateTimeField()
    flags = serializers.ListField(
        child=serializers.CharField(),
        help_text="Reasons why estimates may be worse than their intervals.",
    )
    drift = DriftSerializer(
        allow_null=True, help_text="Null: no job has been compared with its prediction yet."
    )
    sources = SourceCountSerializer()
    cells = CellsByMatrixSerializer()


class SizeEstimateSerializer(serializers.Serializer[Any]):
    """Work per second of one size on one platform without interference, with 90 % interval."""

    platform = serializers.CharField()
    units = serializers.IntegerField()
    servers = serializers.IntegerField(help_text="Number of servers; units are spread evenly.")
    value = serializers.FloatField()
    low = serializers.FloatField()
    high = serializers.FloatField()
    fits = serializers.BooleanField(help_text="Whether a server of the platform has enough units.")


class EstimatesSerializer(serializers.Serializer[Any]):
    """Predicted work per second of an application."""

    application = serializers.CharField()
    profile = serializers.IntegerField(help_text="Number of the profile used.")
    revision = serializers.IntegerField(help_text="Revision of the matrices used.")
    metric = serializers.ChoiceField(choices=[(m, m) for m in METRICS])
    unit = serializers.CharField()
    results = SizeEstimateSerializer(many=True)


class MeasurementSerializer(serializers.Serializer[Any]):
    """One measurement of one cell."""

    id = serializers.IntegerField()
    matrix = serializers.ChoiceField(choices=MATRICES)
    column = serializers.CharField()
    value = serializers.FloatField()
    unit = serializers.CharField()
    standard_error = serializers.FloatField()
    samples = serializers.IntegerField()
    source = serializers.ChoiceField(  # type: ignore[assignment]  # shadows Field.source
        choices=ORIGIN_CHOICES
    )
    run = serializers.UUIDField(allow_null=True, help_text="Null: measured on running jobs.")
    at_seconds = serializers.FloatField(help_text="Cluster time.")


class PredictionErrorSerializer(serializers.Serializer[Any]):
    """Predicted and measured rate of one job."""

    id = serializers.IntegerField()
    job = serializers.UUIDField(
        allow_null=True, help_text="Null: the job belongs to a project you cannot see."
    )
    job_name = serializers.CharField(allow_null=True)
    number = serializers.IntegerField(help_text="Number of the observation, counted per job.")
    profile = serializers.IntegerField(help_text="Number of the profile used for the prediction.")
    at_seconds = serializers.FloatField(help_text="Cluster time.")
    unit = serializers.CharField()
    predicted = serializers.FloatField()
    measured = serializers.FloatField()
    ratio = serializers.FloatField(help_text="Measured rate divided by predicted rate.")
    deviation = serializers.FloatField(
        help_text="Standard deviation expected of ln(measured / predicted)."
    )
    beyond_tolerance = serializers.FloatField(
        help_text="Pressure above the tolerance of its units when they were chosen, in points."
    )


def represent_profile(
    profile: Profile, in_force: int | None, *, is_pending: bool
) -> dict[str, Any]:
    """JSON of a profile; its application and drift must be loaded.

    Parameters
    ----------
    in_force : number of the current revision
    """
    application = profile.application
    return {
        "id": str(profile.pk),
        "application": application.name,
        "number": profile.number,
        "revision": profile.revision,
        "revision_in_force": in_force,
        "is_stale": profile.revision != in_force,
        "is_pending": is_pending,
        "estimator": profile.estimator,
        "created_at": time(profile.created_at),
        "flags": profile.flags,
        "drift": _drift(getattr(application, "drift", None)),
        "sources": _source_counts(profile.cells),
        "cells": {
            name: {**part, "unit": _units(name, part["columns"], application.kind)}
            for name, part in _in_order(profile.cells)
        },
    }


def _in_order(cells: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(name, cells[name]) for name, _ in MATRICES if name in cells]


def _units(matrix: str, columns: list[str], kind: str) -> list[str]:
    return [unit_of(MatrixName(matrix), column, kind) for column in columns]


def _source_counts(cells: dict[str, Any]) -> dict[str, int]:
    counts = Counter(source for part in cells.values() for source in part["source"])
    return {source.value: counts[source.value] for source in Source}


def _drift(drift: Drift | None) -> dict[str, Any] | None:
    if drift is None:
        return None
    return {
        "observations": drift.observations,
        "mean_error": drift.mean_error,
        "flagged_seconds": drift.flagged_s,
    }


def represent_estimates(
    profile: Profile, estimates: list[SizeEstimate], *, in_bytes: bool
) -> dict[str, Any]:
    """JSON of estimates; the profile's application must be loaded."""
    return {
        "application": profile.application.name,
        "profile": profile.number,
        "revision": profile.revision,
        "metric": METRICS[in_bytes],
        "unit": BYTES if in_bytes else WORK_OF_KIND[profile.application.kind],
        "results": [
            {
                "platform": size.platform,
                "units": size.units,
                "servers": size.servers,
                **size.estimate._asdict(),
                "fits": size.fits,
            }
            for size in estimates
        ],
    }


def represent_measurement(row: Measurement, kind: str) -> dict[str, Any]:
    """JSON of a measurement; ``kind`` is the application's kind."""
    return {
        "id": row.pk,
        "matrix": row.matrix,
        "column": row.column,
        "value": row.value,
        "unit": unit_of(MatrixName(row.matrix), row.column, kind),
        "standard_error": row.standard_error,
        "samples": row.samples,
        "source": row.source,
        "run": str(row.run_id) if row.run_id else None,
        "at_seconds": row.cluster_s,
    }


def represent_error(row: PredictionError, caller: Principal) -> dict[str, Any]:
    """JSON of a prediction error; its job and profile must be loaded."""
    is_visible = caller.sees(row.job.project_id)
    return {
        "id": row.pk,
        "job": str(row.job_id) if is_visible else None,
        "job_name": row.job.name if is_visible else None,
        "number": row.number,
        "profile": row.profile.number,
        "at_seconds": row.cluster_s,
        "unit": WORK_OF_TARGET[TargetKind(row.job.target_kind)],
        "predicted": row.predicted,
        "measured": row.measured,
        "ratio": row.measured / row.predicted,
        "deviation": row.deviation,
        "beyond_tolerance": row.beyond,
    }
