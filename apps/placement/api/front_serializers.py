"""Serializers of fronts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np
from rest_framework import serializers

from apps.common.api.representations import time
from apps.common.infrastructure.warm_up import Kernels, warming
from apps.inventory.core.snapshot import Ints
from apps.operations.api.serializers import STATUSES
from apps.operations.core.states import OperationStatus
from apps.operations.models import Operation
from apps.placement.core.front.moments import MAX_MOMENTS
from apps.placement.core.problem.objectives import OBJECTIVES
from apps.placement.models import Front, FrontSource, FrontVersion
from apps.placement.selectors.drift import FrontCoverage, FrontDrift
from apps.placement.selectors.fronts import Points
from apps.placement.selectors.other_objectives import OtherObjective

MAX_BUDGET_S: Final = 3600.0
MIN_BUDGET_S: Final = 0.1
MAX_CLUSTER_S: Final = 1e12
MAX_WINDOW_S: Final = 86_400.0
HIDDEN: Final = "a job of another project"
COMPILING: Final = (
    "The kernels of the search are compiled first, once after an installation;"
    " this takes about a minute"
)
SOURCES: Final = [(source.value, source.value) for source in FrontSource]


class FrontRequestSerializer(serializers.Serializer[Any]):
    """A request for a front."""

    source = serializers.ChoiceField(choices=SOURCES)  # type: ignore[assignment]  # shadows Field.source
    cluster_seconds = serializers.FloatField(
        required=False,
        allow_null=True,
        min_value=0.0,
        max_value=MAX_CLUSTER_S,
        help_text="Cluster time of the workload; omitted: now.",
    )
    moments = serializers.ListField(
        child=serializers.FloatField(min_value=0.0, max_value=MAX_CLUSTER_S),
        required=False,
        min_length=2,
        max_length=MAX_MOMENTS,
        help_text="Cluster times of several workloads: the objectives are averaged over them.",
    )
    window_seconds = serializers.FloatField(
        required=False,
        min_value=60.0,
        max_value=MAX_WINDOW_S,
        help_text="Instead of `moments`: a window that ends at `cluster_seconds`, or now. Its"
        f" moments are five minutes apart, or further if it has more than {MAX_MOMENTS}.",
    )
    instance = serializers.JSONField(
        required=False,
        help_text="Required for the source `instance`: docs/placement-instance.schema.json.",
    )
    budget_seconds = serializers.FloatField(
        default=10.0, min_value=MIN_BUDGET_S, max_value=MAX_BUDGET_S
    )
    seed = serializers.IntegerField(default=0, min_value=0, max_value=2**31 - 1)


class ObjectiveValuesSerializer(serializers.Serializer[Any]):
    """A value of each objective."""

    P = serializers.FloatField(help_text="Power: watts, lower is better.")
    D = serializers.FloatField(help_text="Diversified intensity, higher is better.")
    C = serializers.FloatField(help_text="Containers apart from their job, lower is better.")


class ScalesSerializer(serializers.Serializer[Any]):
    """Divisors of the raw values; null: the objective is always 0."""

    P = serializers.FloatField(allow_null=True)
    D = serializers.FloatField(allow_null=True)
    C = serializers.FloatField(allow_null=True)


class FrontVersionSerializer(serializers.Serializer[Any]):
    """Result of a search at one time."""

    number = serializers.IntegerField()
    points = serializers.IntegerField(help_text="Points found.")
    shown = serializers.IntegerField(help_text="Points stored, spread over the front.")
    generations = serializers.IntegerField()
    seconds = serializers.FloatField(help_text="Wall seconds of search.")
    hypervolume = serializers.FloatField()
    is_exact = serializers.BooleanField(help_text="Whether it is proven to be the complete front.")
    created_at = serializers.DateTimeField()


class SearchProgressSerializer(serializers.Serializer[Any]):
    """Progress of a search at one time."""

    seconds = serializers.FloatField()
    generation = serializers.IntegerField()
    hypervolume = serializers.FloatField()
    points = serializers.IntegerField()


class AnchorSerializer(serializers.Serializer[Any]):
    """A reference placement."""

    name = serializers.CharField()
    raw = ObjectiveValuesSerializer()
    normalised = ObjectiveValuesSerializer()


class MixDriftSerializer(serializers.Serializer[Any]):
    """Drift of the cluster away from the workload of a front."""

    share = serializers.FloatField(help_text="Share of the mix that changed, 0-1.")
    limit = serializers.FloatField(help_text="Above it the front is outdated.")
    sentence = serializers.CharField()


class CoverageSerializer(serializers.Serializer[Any]):
    """What a front covers, and for how long it is expected to stay valid."""

    moments = serializers.ListField(
        child=serializers.FloatField(), help_text="Cluster times of its workloads."
    )
    containers = serializers.IntegerField(help_text="Different containers over all moments.")
    still_running = serializers.IntegerField(help_text="Those of them that still run.")
    still_share = serializers.FloatField(
        help_text="Share of the containers running now that it covers, 0-1."
    )
    good_for_seconds = serializers.FloatField(
        allow_null=True,
        help_text="Cluster seconds until the drift is expected to exceed its limit, from the"
        " measured change of the mix. Null: the mix did not change that much while it was"
        " measured.",
    )
    measured_seconds = serializers.FloatField(
        help_text="Cluster seconds over which the change of the mix was measured."
    )


class FrontRowSerializer(serializers.Serializer[Any]):
    """Summary of a front."""

    id = serializers.UUIDField()
    name = serializers.CharField(help_text="For example f-0031.")
    state = serializers.ChoiceField(choices=STATUSES)
    source = serializers.ChoiceField(choices=SOURCES)  # type: ignore[assignment]  # shadows Field.source
    cluster_seconds = serializers.FloatField(
        allow_null=True,
        help_text="Cluster time of the workload; null: not read yet, or a submitted instance.",
    )
    moments = serializers.ListField(
        child=serializers.FloatField(),
        help_text="Cluster times of its workloads if it covers several; else empty.",
    )
    containers = serializers.IntegerField(help_text="Different containers over all moments.")
    nodes = serializers.IntegerField()
    budget_seconds = serializers.FloatField()
    seed = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    created_by = serializers.CharField()
    operation = serializers.UUIDField()
    progress = serializers.IntegerField()
    total = serializers.IntegerField(allow_null=True)
    message = serializers.CharField(allow_blank=True)
    problem = serializers.DictField(allow_null=True, help_text="Reason of a failure.")
    versions = FrontVersionSerializer(many=True, help_text="Oldest first.")


class FrontSerializer(FrontRowSerializer):
    """A front with the history of its search."""

    history = SearchProgressSerializer(many=True)
    anchors = AnchorSerializer(many=True)
    scales = ScalesSerializer()
    drift = MixDriftSerializer(
        allow_null=True, help_text="Null: the workload is a submitted instance."
    )
    coverage = CoverageSerializer(
        allow_null=True, help_text="Null: a submitted instance, or not read yet."
    )


class ColumnsSerializer(serializers.Serializer[Any]):
    """Values of each objective, one per point."""

    P = serializers.ListField(child=serializers.FloatField())
    D = serializers.ListField(child=serializers.FloatField())
    C = serializers.ListField(child=serializers.FloatField())


class OtherObjectiveSerializer(serializers.Serializer[Any]):
    """An objective that fronts are not searched by, evaluated on the stored placements."""

    label = serializers.CharField()  # type: ignore[assignment]  # shadows Field.label
    unit = serializers.CharField()
    is_higher_better = serializers.BooleanField()
    scale = serializers.FloatField(
        allow_null=True, help_text="Divisor of the raw values; null: the objective is always 0."
    )
    raw = serializers.ListField(child=serializers.FloatField(), help_text="One per point.")
    normalised = serializers.ListField(child=serializers.FloatField())
    anchors = serializers.DictField(
        child=serializers.FloatField(),
        help_text="Normalised value of each reference placement, by name.",
    )


class PointsSerializer(serializers.Serializer[Any]):
    """Points of a version as columns, ascending by power."""

    front = serializers.UUIDField()
    version = serializers.IntegerField()
    points = serializers.IntegerField(help_text="Points of the version.")
    shown = serializers.IntegerField(help_text="Points in this answer.")
    index = serializers.ListField(
        child=serializers.IntegerField(), help_text="Index of the point in its version."
    )
    raw = ColumnsSerializer()
    normalised = ColumnsSerializer()
    nodes_on = serializers.ListField(child=serializers.IntegerField())
    jobs_protected = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Jobs with tazes of which none shares a server with another taz.",
    )
    jobs_exposed = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Jobs with a taz that shares a server with another taz.",
    )
    jobs_split = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Jobs spread wider than their communication class requires.",
    )
    worst_job = serializers.ListField(
        child=serializers.CharField(allow_null=True),
        help_text="Job with the most containers slowed by neighbours or splits; null: none. Jobs"
        f" that you may not see are all {HIDDEN!r}.",
    )
    objectives = serializers.DictField(
        child=OtherObjectiveSerializer(), help_text="By name, those requested with `objectives`."
    )


class PointSerializer(serializers.Serializer[Any]):
    """One placement of a front."""

    front = serializers.UUIDField()
    version = serializers.IntegerField()
    index = serializers.IntegerField()
    raw = ObjectiveValuesSerializer()
    normalised = ObjectiveValuesSerializer()
    nodes_on = serializers.IntegerField()
    jobs_protected = serializers.IntegerField()
    jobs_exposed = serializers.IntegerField()
    jobs_split = serializers.IntegerField()
    worst_job = serializers.CharField(allow_null=True)
    assignment = serializers.DictField(
        child=serializers.CharField(), help_text="Node of each container."
    )


def represent_row(front: Front, versions: Sequence[FrontVersion]) -> dict[str, Any]:
    """Return a summary of a front, loaded with its operation and creator, as JSON."""
    operation = front.operation
    return {
        "id": str(front.pk),
        "name": str(front),
        "state": operation.status,
        "source": front.source,
        "cluster_seconds": front.cluster_s,
        "moments": front.moments,
        "containers": front.containers,
        "nodes": front.nodes,
        "budget_seconds": front.budget_s,
        "seed": front.seed,
        "created_at": time(front.created_at),
        "created_by": front.created_by.username,
        "operation": str(front.operation_id),
        "progress": operation.progress,
        "total": operation.total,
        "message": _message(operation),
        "problem": operation.problem,
        "versions": [_version(version) for version in versions],
    }


def _message(operation: Operation) -> str:
    """Return what a search does; of one that waits, whether its kernels are being compiled."""
    if operation.status != OperationStatus.PENDING:
        return operation.message
    return COMPILING if Kernels.PLACEMENT in warming() else ""


def represent_front(
    front: Front,
    versions: Sequence[FrontVersion],
    drift: FrontDrift | None,
    coverage: FrontCoverage | None,
) -> dict[str, Any]:
    """Return a front as JSON."""
    return {
        **represent_row(front, versions),
        "history": front.history,
        "anchors": front.anchors,
        "scales": front.scales or dict.fromkeys(OBJECTIVES),
        "drift": None if drift is None else asdict(drift),
        "coverage": None if coverage is None else _coverage(coverage),
    }


def _coverage(coverage: FrontCoverage) -> dict[str, Any]:
    return {
        "moments": list(coverage.moments),
        "containers": coverage.containers,
        "still_running": coverage.still_running,
        "still_share": coverage.still_running / max(coverage.cluster_containers, 1),
        "good_for_seconds": coverage.good_for_s,
        "measured_seconds": coverage.measured_s,
    }


def _version(version: FrontVersion) -> dict[str, Any]:
    return {
        "number": version.number,
        "points": version.points,
        "shown": version.shown,
        "generations": version.generations,
        "seconds": version.seconds,
        "hypervolume": version.hypervolume,
        "is_exact": version.is_exact,
        "created_at": time(version.created_at),
    }


def represent_points(
    version: FrontVersion, points: Points, indices: Ints, others: Sequence[OtherObjective] = ()
) -> dict[str, Any]:
    """Return points of a version as JSON columns."""
    index = indices.tolist()
    return {
        "front": str(version.front_id),
        "version": version.number,
        "points": version.points,
        "shown": len(index),
        "index": index,
        "raw": _columns(points.raw[indices]),
        "normalised": _columns(points.normalised[indices]),
        "nodes_on": [points.nodes_on[i] for i in index],
        "jobs_protected": [points.jobs_protected[i] for i in index],
        "jobs_exposed": [points.jobs_exposed[i] for i in index],
        "jobs_split": [points.jobs_split[i] for i in index],
        "worst_job": [points.worst_job[i] for i in index],
        "objectives": {other.name: _other(other, indices) for other in others},
    }


def _other(other: OtherObjective, indices: Ints) -> dict[str, Any]:
    scale = other.points.scale
    return {
        "label": other.objective.label,
        "unit": other.objective.unit,
        "is_higher_better": other.objective.is_higher_better,
        "scale": scale or None,
        "raw": other.points.raw[indices].tolist(),
        "normalised": other.points.normalised[indices].tolist(),
        "anchors": {name: raw / scale if scale else 0.0 for name, raw in other.references.items()},
    }


def represent_point(
    version: FrontVersion, points: Points, index: int, placed: Mapping[str, str]
) -> dict[str, Any]:
    """Return one placement as JSON.

    Parameters
    ----------
    placed : node of each container, by name
    """
    columns = represent_points(version, points, np.array([index]))
    for name in ("points", "shown", "objectives"):
        del columns[name]
    single = {
        name: {key: values[0] for key, values in column.items()}
        if isinstance(column, dict)
        else column[0]
        for name, column in columns.items()
        if name not in {"front", "version"}
    }
    return {
        "front": columns["front"],
        "version": columns["version"],
        **single,
        "assignment": dict(placed),
    }


def _columns(table: np.ndarray[Any, Any]) -> dict[str, list[float]]:
    return dict(zip(OBJECTIVES, table.T.tolist(), strict=True))
