"""API schema of jobs, batches and applications.

`representations` builds the JSON. A test checks every response against the schema.
"""

from typing import Any

from rest_framework import serializers

from apps.workloads.api.submission import MAX_ITEMS
from apps.workloads.core.arrays import MAX_INDEX, MAX_TEXT
from apps.workloads.core.commands import (
    MAX_ARGUMENTS,
    MAX_BYTES,
    MAX_FILES,
    MAX_PATH,
    PROGRESS_LIMITS_S,
)
from apps.workloads.core.costs import COST_LIMITS
from apps.workloads.core.lifecycle import JobState, Suspension
from apps.workloads.core.reasons import Reason
from apps.workloads.core.spec import (
    DURATION_LIMITS_S,
    KIND_BY_TARGET,
    MAX_AMOUNT,
    MAX_EXCLUDED,
    MAX_PLATFORMS,
    MAX_R,
    SHARE_LIMITS,
)
from apps.workloads.core.targets import NUMBER_LIMITS

STATES = [(state.value, state.value) for state in JobState]
TARGET_KINDS = [(kind.value, kind.value) for kind in KIND_BY_TARGET]
APPLICATION_KINDS = [(kind, kind) for kind in KIND_BY_TARGET.values()]
SCOPES = [("server", "server"), ("rack", "rack"), ("switch", "switch")]
REASONS = [(reason.value, reason.value) for reason in Reason]


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


def _priority() -> serializers.IntegerField:
    return serializers.IntegerField(min_value=-100, max_value=100, required=False)


def _array_limit(*, required: bool) -> serializers.IntegerField:
    return serializers.IntegerField(
        min_value=1,
        max_value=MAX_INDEX,
        allow_null=True,
        required=required,
        help_text="Members that may wait for units or run at once; null: all.",
    )


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
    priority = _priority()
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
        "Runs again and again beside the command; the last line that it prints and that "
        "begins with a share says the progress. Without it, the command writes a file."
    )
    progress_every_seconds = serializers.FloatField(
        min_value=PROGRESS_LIMITS_S[0],
        max_value=PROGRESS_LIMITS_S[1],
        allow_null=True,
        required=False,
        help_text="Between two runs of the progress command; 30 if omitted.",
    )


class JobMetadataRequestSerializer(serializers.Serializer[Any]):
    """Identity of the job."""

    name = serializers.CharField(max_length=127, required=False)
    project = serializers.CharField(
        max_length=63, required=False, help_text="Your first project if omitted."
    )
    labels = serializers.DictField(child=serializers.CharField(), required=False)
    annotations = serializers.DictField(required=False)


class JobRequestSerializer(serializers.Serializer[Any]):
    """A job to submit. The fields may also be given flat, without metadata and spec."""

    metadata = JobMetadataRequestSerializer(required=False)
    spec = JobSpecSerializer()
    client_id = serializers.CharField(
        max_length=127, required=False, help_text="In batches: idempotency key of the item."
    )


class JobPatchSpecSerializer(serializers.Serializer[Any]):
    """Fields of the specification that may change after submission."""

    target = TargetSerializer(required=False)
    priority = _priority()


class JobPatchMetadataSerializer(serializers.Serializer[Any]):
    """Metadata that may change at any time."""

    name = serializers.CharField(max_length=127, required=False)
    labels = serializers.DictField(child=serializers.CharField(), required=False)
    annotations = serializers.DictField(required=False)


class JobPatchSerializer(serializers.Serializer[Any]):
    """A change of a job."""

    metadata = JobPatchMetadataSerializer(required=False)
    spec = JobPatchSpecSerializer(required=False)


class ArrayMemberSerializer(serializers.Serializer[Any]):
    """Place of a job in a job array."""

    id = serializers.UUIDField(help_text="Of the array, and of its batch.")
    index = serializers.IntegerField()


class JobMetadataSerializer(serializers.Serializer[Any]):
    """Identity and bookkeeping of the job."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    project = serializers.CharField()
    labels = serializers.DictField(child=serializers.CharField())
    annotations = serializers.DictField()
    generation = serializers.IntegerField()
    etag = serializers.CharField(help_text="For If-Match.")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
    created_by = serializers.CharField()
    batch = serializers.UUIDField(allow_null=True)
    array = ArrayMemberSerializer(allow_null=True, help_text="Null: no member of an array.")
    request_id = serializers.CharField(help_text="Correlation id, recorded in events and logs.")


class ReasonSerializer(serializers.Serializer[Any]):
    """Reason for the job's state."""

    code = serializers.ChoiceField(choices=REASONS)
    tier = serializers.IntegerField()
    sentence = serializers.CharField()
    next_action = serializers.CharField()
    message = serializers.CharField(allow_blank=True, help_text="Details for this job.")
    also = serializers.ListField(
        child=serializers.CharField(), help_text="Other reasons, of lower rank."
    )


class ConditionSerializer(serializers.Serializer[Any]):
    """One stage of the job's life and whether it was reached."""

    type = serializers.CharField()
    status = serializers.ChoiceField(choices=["True", "False", "Unknown"])
    reason = serializers.CharField()
    message = serializers.CharField(allow_blank=True)
    cluster_seconds = serializers.FloatField(allow_null=True)
    observed_generation = serializers.IntegerField()


class JobTimesSerializer(serializers.Serializer[Any]):
    """When each stage was reached: `seconds` are cluster time, `at` is wall time."""

    submitted_seconds = serializers.FloatField()
    profiled_seconds = serializers.FloatField(allow_null=True)
    queued_seconds = serializers.FloatField(allow_null=True)
    placed_seconds = serializers.FloatField(allow_null=True)
    started_seconds = serializers.FloatField(allow_null=True)
    finished_seconds = serializers.FloatField(allow_null=True)
    placed_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)


class JobStatusSerializer(serializers.Serializer[Any]):
    """Status of the job."""

    state = serializers.ChoiceField(choices=STATES)
    held = serializers.BooleanField()
    cancel_requested = serializers.BooleanField()
    suspension = serializers.ChoiceField(
        choices=[each.value for each in Suspension if each],
        allow_null=True,
        help_text="Of a running job: its processes are stopped, and it keeps its units.",
    )
    reason = ReasonSerializer(allow_null=True)
    conditions = ConditionSerializer(many=True)
    units = serializers.IntegerField(allow_null=True, help_text="Units given to the job.")
    units_missing = serializers.IntegerField(
        help_text="Units that it still gets as they are freed; 0 for gangs."
    )
    attempts = serializers.IntegerField()
    progress = serializers.FloatField(help_text="Share of the work done, 0-1.")
    performance = serializers.FloatField(allow_null=True, help_text="In the target's unit.")
    attainment = serializers.FloatField(
        allow_null=True, help_text="Performance over target; met if at least 1."
    )
    predicted = serializers.DictField()
    exit_code = serializers.IntegerField(
        allow_null=True, help_text="Of the command; below 0: the signal that ended it."
    )
    times = JobTimesSerializer()


class JobSerializer(serializers.Serializer[Any]):
    """A job: metadata, specification and status."""

    metadata = JobMetadataSerializer()
    spec = JobSpecSerializer()
    status = JobStatusSerializer()


class ExpectSerializer(serializers.Serializer[Any]):
    """Expected number of jobs."""

    expect = serializers.IntegerField(min_value=0, max_value=2**63 - 1)


class CancelledSerializer(serializers.Serializer[Any]):
    """Number of jobs cancelled."""

    matched = serializers.IntegerField()
    cancelled = serializers.IntegerField()


class BatchRequestSerializer(serializers.Serializer[Any]):
    """Jobs to submit in one request."""

    defaults = serializers.DictField(
        required=False, help_text="Default values for the fields of all items."
    )
    items = serializers.ListField(child=JobRequestSerializer(), min_length=1, max_length=MAX_ITEMS)
    mode = serializers.ChoiceField(choices=["independent", "atomic"], required=False)
    project = serializers.CharField(max_length=63, required=False)


class ArraySpecSerializer(serializers.Serializer[Any]):
    """The members of a job array: give size or indexes."""

    size = serializers.IntegerField(
        min_value=1,
        max_value=MAX_INDEX,
        allow_null=True,
        required=False,
        help_text="Indexes from 0; the installation limits it (BERTH_MAX_ARRAY).",
    )
    indexes = serializers.CharField(
        max_length=MAX_TEXT,
        allow_null=True,
        required=False,
        help_text="Indexes and ranges with steps: 0-99:2,200.",
    )
    limit = _array_limit(required=False)


class ArrayRequestSerializer(JobRequestSerializer):
    """A job array to submit: a job, and the indexes of its members."""

    array = ArraySpecSerializer()


class ArrayLimitSerializer(serializers.Serializer[Any]):
    """A new limit of an array."""

    limit = _array_limit(required=True)


class JobArraySerializer(serializers.Serializer[Any]):
    """A job array: jobs of one specification, each with an index."""

    id = serializers.UUIDField(help_text="Also that of its batch.")
    name = serializers.CharField(help_text="The members are called name-index.")
    project = serializers.CharField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    size = serializers.IntegerField(help_text="Members as submitted, without those rerun.")
    indexes = serializers.CharField()
    limit = serializers.IntegerField(allow_null=True)


class JobArrayDetailSerializer(JobArraySerializer):
    """An array and the number of its members by state."""

    states = serializers.DictField(
        child=serializers.IntegerField(), help_text="Members by state, those held too."
    )
    waiting_for_limit = serializers.IntegerField(
        help_text="Members that the limit holds until others end."
    )


class BatchSerializer(serializers.Serializer[Any]):
    """Jobs submitted in one request."""

    id = serializers.UUIDField()
    project = serializers.CharField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    mode = serializers.CharField()
    total = serializers.IntegerField()
    accepted = serializers.IntegerField()
    rejected = serializers.IntegerField()


class BatchAcceptedSerializer(BatchSerializer):
    """Outcome of a batch request."""

    operation = serializers.UUIDField()
    replayed = serializers.IntegerField(help_text="Items whose client_id was used before.")


class BatchDetailSerializer(BatchSerializer):
    """A batch and the number of its jobs by state."""

    states = serializers.DictField(child=serializers.IntegerField())


class BatchItemSerializer(serializers.Serializer[Any]):
    """Outcome of one item."""

    index = serializers.IntegerField()
    client_id = serializers.CharField(allow_null=True)
    status = serializers.ChoiceField(choices=["accepted", "replayed", "rejected"])
    job = serializers.UUIDField(allow_null=True)
    problem = serializers.DictField(allow_null=True)


class ApplicationSerializer(serializers.Serializer[Any]):
    """An application: a program that jobs run."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=APPLICATION_KINDS)
    description = serializers.CharField(allow_blank=True)
    labels = serializers.DictField(child=serializers.CharField())
    generation = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class ApplicationPatchSerializer(serializers.Serializer[Any]):
    """Fields of an application that may change."""

    description = serializers.CharField(max_length=500, allow_blank=True, required=False)
    labels = serializers.DictField(child=serializers.CharField(max_length=255), required=False)


class ApplicationRequestSerializer(ApplicationPatchSerializer):
    """An application to add before its first job."""

    name = serializers.RegexField(
        r"^[A-Za-z0-9](?:[A-Za-z0-9._:/+-]*[A-Za-z0-9])?$", max_length=127
    )
    kind = serializers.ChoiceField(choices=APPLICATION_KINDS)
