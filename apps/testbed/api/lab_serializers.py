"""Serializers of scenarios, comparisons and runs."""

from typing import Any, Final

from rest_framework import serializers

from apps.common.api.representations import time
from apps.emulation.core.worlds import WORLDS
from apps.operations.api.serializers import OperationSerializer, represent_operation
from apps.testbed.core.lab import MAX_HOURS, MAX_NAME, MAX_SEED, MAX_SEEDS, MAX_SETTINGS
from apps.testbed.core.lab_halving import MIN_FIRST_SEEDS
from apps.testbed.core.lab_options import FAILURES, OPTIONS
from apps.testbed.models import LabComparison, LabRun, LabScenario

MAX_SERVERS: Final = 20_000
MAX_JOBS: Final = 50_000


class ScenarioClusterSerializer(serializers.Serializer[Any]):
    """Where the servers come from."""

    kind = serializers.ChoiceField(["now", "synthetic"])
    servers = serializers.IntegerField(
        min_value=1, max_value=MAX_SERVERS, required=False, help_text="Of a synthetic cluster."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Require the servers of a synthetic cluster."""
        if attrs["kind"] == "synthetic" and "servers" not in attrs:
            raise serializers.ValidationError({"servers": "A synthetic cluster needs servers."})
        return attrs


class ScenarioWorkloadSerializer(serializers.Serializer[Any]):
    """Where the jobs come from: this cluster's history, or a generated Facebook-like day."""

    kind = serializers.ChoiceField(["history", "facebook"])
    hours = serializers.FloatField(
        min_value=0.1, max_value=MAX_HOURS, default=24.0, help_text="Of history, cluster time."
    )
    jobs = serializers.IntegerField(min_value=1, max_value=MAX_JOBS, default=1_000)
    seed = serializers.IntegerField(min_value=0, max_value=MAX_SEED, default=1)


class FailuresSerializer(serializers.Serializer[Any]):
    """Failures of servers; a job on a failed server is submitted again."""

    per_day = serializers.FloatField(
        min_value=FAILURES["per_day"].low,
        max_value=FAILURES["per_day"].high,
        help_text="Mean number in the whole cluster.",
    )
    repair_s = serializers.FloatField(
        min_value=FAILURES["repair_s"].low,
        max_value=FAILURES["repair_s"].high,
        default=3_600.0,
        help_text="Time after which a failed server takes jobs again.",
    )


class ScenarioRequestSerializer(serializers.Serializer[Any]):
    """A cluster and jobs to store."""

    name = serializers.CharField(max_length=MAX_NAME)
    cluster = ScenarioClusterSerializer()
    workload = ScenarioWorkloadSerializer()
    world = serializers.ChoiceField(
        list(WORLDS),
        allow_null=True,
        default=None,
        help_text="Of the applications' true behaviour; null: that of this installation.",
    )
    failures = FailuresSerializer(
        allow_null=True, default=None, help_text="Null: no server fails."
    )


class ScenarioSerializer(serializers.Serializer[Any]):
    """A stored cluster with jobs."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    origin = serializers.DictField(help_text="The request, and notes on jobs left out.")
    world = serializers.CharField()
    servers = serializers.IntegerField()
    jobs = serializers.IntegerField()
    created_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()


def represent_scenario(scenario: LabScenario) -> dict[str, Any]:
    """JSON of a scenario."""
    return {
        "id": str(scenario.pk),
        "name": scenario.name,
        "origin": scenario.source,
        "world": scenario.world,
        "servers": scenario.servers,
        "jobs": scenario.jobs_total,
        "created_by": scenario.created_by.username if scenario.created_by else None,
        "created_at": time(scenario.created_at),
    }


class SettingSerializer(serializers.Serializer[Any]):
    """A policy with parameters."""

    name = serializers.CharField(max_length=MAX_NAME)
    options = serializers.DictField(
        help_text="Those left out have their default. "
        + "; ".join(f"{name}: {option.accepted}" for name, option in OPTIONS.items())
    )


def _seeds() -> serializers.ListField:
    return serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=MAX_SEED),
        min_length=1,
        max_length=MAX_SEEDS,
    )


class HalvingSerializer(serializers.Serializer[Any]):
    """A sweep by successive halving: clearly worse settings are dropped after each round."""

    first_seeds = serializers.IntegerField(
        min_value=MIN_FIRST_SEEDS, max_value=MAX_SEEDS, help_text="Each round doubles them."
    )


class ComparisonRequestSerializer(serializers.Serializer[Any]):
    """Settings to compare on a scenario."""

    name = serializers.CharField(max_length=MAX_NAME)
    scenario = serializers.UUIDField()
    settings = serializers.ListField(
        child=SettingSerializer(), min_length=1, max_length=MAX_SETTINGS
    )
    seeds = _seeds()
    baseline = serializers.CharField(max_length=MAX_NAME)
    bound = serializers.CharField(
        max_length=MAX_NAME, allow_null=True, default=None, help_text="A setting, or null."
    )
    halving = HalvingSerializer(
        allow_null=True, default=None, help_text="Null: every setting runs with every seed."
    )


class EstimateRequestSerializer(serializers.Serializer[Any]):
    """Size of a comparison."""

    jobs = serializers.IntegerField(min_value=1, max_value=MAX_JOBS)
    servers = serializers.IntegerField(min_value=1, max_value=MAX_SERVERS)
    settings = serializers.IntegerField(min_value=1, max_value=MAX_SETTINGS)
    seeds = serializers.IntegerField(min_value=1, max_value=MAX_SEEDS)


class EstimateSerializer(serializers.Serializer[Any]):
    """What a comparison will take, on one core."""

    runs = serializers.IntegerField()
    seconds = serializers.FloatField()
    memory_bytes = serializers.IntegerField()


class ComparisonRowSerializer(serializers.Serializer[Any]):
    """A comparison in a list, with its operation."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    scenario = ScenarioSerializer()
    settings = SettingSerializer(many=True)
    seeds = serializers.ListField(child=serializers.IntegerField())
    baseline = serializers.CharField()
    bound = serializers.CharField(allow_null=True)
    halving = HalvingSerializer(allow_null=True)
    digest = serializers.CharField()
    version = serializers.CharField(help_text="Version of Berth that made all the runs.")
    runs_discarded = serializers.IntegerField(
        help_text="Number of runs of other versions that were made again."
    )
    runs_done = serializers.IntegerField()
    operation = OperationSerializer()
    created_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()


class ComparisonSerializer(ComparisonRowSerializer):
    """A comparison, with its operation and result."""

    result = serializers.DictField(allow_null=True)


def represent_comparison(comparison: LabComparison, *, is_whole: bool = True) -> dict[str, Any]:
    """JSON of a comparison that `selectors.lab.comparisons` returned; in lists without result."""
    body = {
        "id": str(comparison.pk),
        "name": comparison.name,
        "scenario": represent_scenario(comparison.scenario),
        "settings": comparison.grid,
        "seeds": comparison.seeds,
        "baseline": comparison.baseline,
        "bound": comparison.bound or None,
        "halving": comparison.halving,
        "digest": comparison.digest,
        "version": comparison.version,
        "runs_discarded": comparison.runs_discarded,
        "runs_done": comparison.runs_done,  # type: ignore[attr-defined] # annotated
        "operation": represent_operation(comparison.operation),
        "created_by": comparison.created_by.username if comparison.created_by else None,
        "created_at": time(comparison.created_at),
    }
    return body | {"result": comparison.result} if is_whole else body


class RunSerializer(serializers.Serializer[Any]):
    """A completed run."""

    id = serializers.IntegerField()
    setting = serializers.CharField()
    seed = serializers.IntegerField()
    record = serializers.DictField()
    wall_seconds = serializers.FloatField()
    version = serializers.CharField(
        allow_blank=True, help_text="Of Berth; empty if it was not stored."
    )


def represent_run(run: LabRun) -> dict[str, Any]:
    """JSON of a run."""
    return {
        "id": run.pk,
        "setting": run.setting,
        "seed": run.seed,
        "record": run.record,
        "wall_seconds": round(run.wall_seconds, 3),
        "version": run.version,
    }
