"""API schema of the specification of a job: its target, its constraints and its command."""

from typing import Any

from rest_framework import serializers

from apps.workloads.core.commands import (
    MAX_ARGUMENTS,
    MAX_BYTES,
    MAX_FILES,
    MAX_PATH,
    PROGRESS_LIMITS_S,
)
from apps.workloads.core.constraints import MAX_EXCLUDED, MAX_PLATFORMS
from apps.workloads.core.costs import COST_LIMITS
from apps.workloads.core.guarantees import MAX_R, SHARE_LIMITS
from apps.workloads.core.spec import DURATION_LIMITS_S, KIND_BY_TARGET, MAX_AMOUNT
from apps.workloads.core.targets import NUMBER_LIMITS

TARGET_KINDS = [(kind.value, kind.value) for kind in KIND_BY_TARGET]
APPLICATION_KINDS = [(kind, kind) for kind in KIND_BY_TARGET.values()]
SCOPES = [("server", "server"), ("rack", "rack"), ("switch", "switch")]


def _target_number(name: str, help_text: str) -> serializers.FloatField:
    low, high = NUMBER_LIMITS[name]
    return serializers.FloatField(
        required=False, min_value=low, max_value=high, help_text=help_text
    )


def _arguments(help_text: str) -> serializers.ListField:
    return serializers.ListField(
        child=serializers.CharField(max_length=MAX_BYTES, allow_blank=True),
        min_length=1,
        max_length=MAX_ARGUMENTS,
        allow_null=True,
        required=False,
        help_text=help_text,
    )


def priority_field() -> serializers.IntegerField:
    """Return the field of a priority."""
    return serializers.IntegerField(min_value=-100, max_value=100, required=False)


class TargetSerializer(serializers.Serializer[Any]):
    """Performance target; the kind determines the required fields."""

    kind = serializers.ChoiceField(choices=TARGET_KINDS)
    seconds = _target_number("seconds", "completion_time: limit in cluster time for all work.")
    qps = _target_number("qps", "throughput_latency: queries/s.")
    latency_seconds = _target_number("latency_seconds", "throughput_latency: limit.")
    percentile = _target_number(
        "percentile", "throughput_latency: percentile of the latency, 99 by default."
    )
    ips = _target_number("ips", "ips: instructions/s of the job.")


class ConstraintsSerializer(serializers.Serializer[Any]):
    """Where the job may run."""

    platforms = serializers.ListField(
        child=serializers.CharField(max_length=127), max_length=MAX_PLATFORMS, required=False
    )
    labels = serializers.DictField(child=serializers.CharField(), required=False)
    locality = serializers.ChoiceField(choices=SCOPES, allow_null=True, required=False)
    spread = serializers.ChoiceField(choices=SCOPES, allow_null=True, required=False)
    max_cost = serializers.FloatField(
        min_value=COST_LIMITS[0],
        max_value=COST_LIMITS[1],
        allow_null=True,
        required=False,
        help_text="Highest cost of a placement, in unit-seconds of cluster time: units times the "
        "pessimistic end of the predicted run time. The job needs an input or a duration.",
    )
    excluded = serializers.ListField(
        child=serializers.CharField(max_length=127),
        max_length=MAX_EXCLUDED,
        required=False,
        help_text="Names of servers on which the job must not run; they need not exist.",
    )


class QualityGuaranteeSerializer(serializers.Serializer[Any]):
    """Pr[D < rank_threshold] <= probability, D = rank of the best candidate."""

    rank_threshold = serializers.FloatField(
        min_value=SHARE_LIMITS[0],
        max_value=SHARE_LIMITS[1],
        help_text="x, e.g. 0.8: the top 20 %.",
    )
    probability = serializers.FloatField(
        min_value=SHARE_LIMITS[0],
        max_value=SHARE_LIMITS[1],
        help_text="p, chance that the best candidate is below x.",
    )


class JobSpecSerializer(serializers.Serializer[Any]):
    """Specification of a job."""

    application = serializers.CharField(
        max_length=127,
        required=False,
        help_text="Required without a command; with one, derived from it if omitted.",
    )
    application_kind = serializers.ChoiceField(
        choices=APPLICATION_KINDS,
        allow_null=True,
        required=False,
        help_text="Kind of a new application; determined by the target if omitted.",
    )
    target = TargetSerializer(
        required=False, help_text="Required without a command; with one, best effort if omitted."
    )
    input_bytes = serializers.IntegerField(min_value=0, max_value=MAX_AMOUNT, required=False)
    tasks = serializers.IntegerField(min_value=1, max_value=1_000_000, required=False)
    units = serializers.IntegerField(
        min_value=1,
        max_value=100_000,
        allow_null=True,
        required=False,
        help_text="Fixed number of resource units; determined by the target if omitted.",
    )
    duration_seconds = serializers.FloatField(
        min_value=DURATION_LIMITS_S[0],
        max_value=DURATION_LIMITS_S[1],
        allow_null=True,
        required=False,
        help_text="Cluster time that a service runs.",
    )
    priority = priority_field()
    gang = serializers.BooleanField(
        allow_null=True,
        required=False,
        help_text="True: start only with all units. False: start with some, and get the rest as "
        "units are freed. If omitted: true for targets of queries or instructions per second.",
    )
    policy = serializers.CharField(
        max_length=63,
        allow_null=True,
        required=False,
        help_text="Placement policy; that of the installation if omitted.",
    )
    sample_size = serializers.IntegerField(
        min_value=1,
        max_value=MAX_R,
        allow_null=True,
        required=False,
        help_text="R, candidates per unit; the installation limits it (BERTH_MAX_SAMPLE).",
    )
    guarantee = QualityGuaranteeSerializer(
        allow_null=True,
        required=False,
        help_text="R follows from it at each decision; not together with sample_size.",
    )
    held = serializers.BooleanField(required=False, help_text="Do not place before release.")
    constraints = ConstraintsSerializer(required=False)
    unit_memory_bytes = serializers.IntegerField(min_value=0, max_value=MAX_AMOUNT, required=False)
    unit_network_bps = serializers.IntegerField(min_value=0, max_value=MAX_AMOUNT, required=False)
    unit_storage_bytes = serializers.IntegerField(
        min_value=0, max_value=MAX_AMOUNT, required=False
    )
    command = _arguments(
        "Program and arguments, run as they are: no shell reads them. Needs a server "
        "whose backend runs commands."
    )
    environment = serializers.DictField(
        child=serializers.CharField(allow_blank=True, max_length=MAX_BYTES),
        required=False,
        help_text="Variables of the command. Everybody who sees the job sees them.",
    )
    working_directory = serializers.CharField(
        max_length=MAX_PATH,
        allow_null=True,
        required=False,
        help_text="Absolute path on the server; a new directory if omitted.",
    )
    files = serializers.CharField(
        max_length=MAX_FILES,
        allow_null=True,
        required=False,
        help_text="Archive that is unpacked into the new working directory: a tar file, plain or "
        "with gzip, of at most 1 MiB, in base64; or sha256:... of one that a job of the project "
        "already has. Responses hold the latter.",
    )
    user = serializers.CharField(
        max_length=32,
        allow_null=True,
        required=False,
        help_text="Account of the server that runs the command, if the agent allows it; never "
        "root. That of the agent's configuration if omitted.",
    )
    copyable = serializers.BooleanField(
        required=False,
        help_text="Copies of the command may run, to profile its application once.",
    )
    progress_command = _arguments(
        "Runs repeatedly while the command runs; the last line of its output that begins with a "
        "share is the progress. Without it, the command writes its progress to a file."
    )
    progress_every_seconds = serializers.FloatField(
        min_value=PROGRESS_LIMITS_S[0],
        max_value=PROGRESS_LIMITS_S[1],
        allow_null=True,
        required=False,
        help_text="Between two runs of the progress command; 30 if omitted.",
    )
