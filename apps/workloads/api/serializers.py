"""Jobs, batches and applications as the schema describes them.

`representations` makes the JSON. A test holds every answer against the schema, so neither can
drift from the other.
"""

from typing import Any

from rest_framework import serializers

from apps.workloads.core.lifecycle import JobState
from apps.workloads.core.reasons import Reason
from apps.workloads.core.spec import KIND_BY_TARGET

STATES = [(state.value, state.value) for state in JobState]
TARGET_KINDS = [(kind.value, kind.value) for kind in KIND_BY_TARGET]
APPLICATION_KINDS = [(kind, kind) for kind in KIND_BY_TARGET.values()]
SCOPES = [("server", "server"), ("rack", "rack")]
REASONS = [(reason.value, reason.value) for reason in Reason]


class TargetSerializer(serializers.Serializer[Any]):
    """What must be achieved; which fields are needed depends on the kind."""

    kind = serializers.ChoiceField(choices=TARGET_KINDS)
    seconds = serializers.FloatField(
        required=False, help_text="completion_time: all work done within this, cluster time."
    )
    qps = serializers.FloatField(required=False, help_text="throughput_latency: queries/s.")
    latency_seconds = serializers.FloatField(required=False, help_text="throughput_latency.")
    percentile = serializers.FloatField(
        required=False, help_text="throughput_latency: of the latency; 99 by default."
    )
    ips = serializers.FloatField(required=False, help_text="ips: instructions/s of the job.")


class ConstraintsSerializer(serializers.Serializer[Any]):
    """Where the job may run."""

    platforms = serializers.ListField(child=serializers.CharField(), required=False)
    labels = serializers.DictField(child=serializers.CharField(), required=False)
    locality = serializers.ChoiceField(choices=SCOPES, allow_null=True, required=False)
    spread = serializers.ChoiceField(choices=SCOPES, allow_null=True, required=False)


class JobSpecSerializer(serializers.Serializer[Any]):
    """What is wanted."""

    application = serializers.CharField(max_length=127)
    application_kind = serializers.ChoiceField(
        choices=APPLICATION_KINDS,
        allow_null=True,
        required=False,
        help_text="Of an application not seen before; by the target's kind when left out.",
    )
    target = TargetSerializer()
    input_bytes = serializers.IntegerField(min_value=0, required=False)
    tasks = serializers.IntegerField(min_value=1, max_value=1_000_000, required=False)
    units = serializers.IntegerField(
        min_value=1,
        max_value=100_000,
        allow_null=True,
        required=False,
        help_text="Fixed number of resource units; as many as the target needs when left out.",
    )
    duration_seconds = serializers.FloatField(
        allow_null=True, required=False, help_text="Cluster time a service runs."
    )
    priority = serializers.IntegerField(min_value=-100, max_value=100, required=False)
    gang = serializers.BooleanField(
        required=False, help_text="Start only when all units are there."
    )
    held = serializers.BooleanField(required=False, help_text="Wait for release.")
    constraints = ConstraintsSerializer(required=False)
    unit_memory_bytes = serializers.IntegerField(min_value=0, required=False)
    unit_network_bps = serializers.IntegerField(min_value=0, required=False)
    unit_storage_bytes = serializers.IntegerField(min_value=0, required=False)


class JobMetadataRequestSerializer(serializers.Serializer[Any]):
    """What identifies the job."""

    name = serializers.CharField(max_length=127, required=False)
    project = serializers.CharField(
        max_length=63, required=False, help_text="Your first project when left out."
    )
    labels = serializers.DictField(child=serializers.CharField(), required=False)
    annotations = serializers.DictField(required=False)


class JobRequestSerializer(serializers.Serializer[Any]):
    """A job to submit. All fields may also stand side by side, without metadata and spec."""

    metadata = JobMetadataRequestSerializer(required=False)
    spec = JobSpecSerializer()
    client_id = serializers.CharField(required=False, help_text="In batches: the item's own key.")


class JobPatchSpecSerializer(serializers.Serializer[Any]):
    """What may change after submission."""

    target = TargetSerializer(required=False)
    priority = serializers.IntegerField(min_value=-100, max_value=100, required=False)


class JobPatchMetadataSerializer(serializers.Serializer[Any]):
    """Names and labels may change any time."""

    name = serializers.CharField(max_length=127, required=False)
    labels = serializers.DictField(child=serializers.CharField(), required=False)
    annotations = serializers.DictField(required=False)


class JobPatchSerializer(serializers.Serializer[Any]):
    """A change of a job."""

    metadata = JobPatchMetadataSerializer(required=False)
    spec = JobPatchSpecSerializer(required=False)


class JobMetadataSerializer(serializers.Serializer[Any]):
    """What identifies the job, and its bookkeeping."""

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
    request_id = serializers.CharField(help_text="The id that follows the job everywhere.")


class ReasonSerializer(serializers.Serializer[Any]):
    """Why the job is where it is."""

    code = serializers.ChoiceField(choices=REASONS)
    tier = serializers.IntegerField()
    sentence = serializers.CharField()
    next_action = serializers.CharField()
    message = serializers.CharField(allow_blank=True, help_text="With the numbers of this job.")
    also = serializers.ListField(child=serializers.CharField(), help_text="Outranked reasons.")


class ConditionSerializer(serializers.Serializer[Any]):
    """One step of the job's way: reached or not."""

    type = serializers.CharField()
    status = serializers.ChoiceField(choices=["True", "False", "Unknown"])
    reason = serializers.CharField()
    message = serializers.CharField(allow_blank=True)
    cluster_seconds = serializers.FloatField(allow_null=True)
    observed_generation = serializers.IntegerField()


class JobTimesSerializer(serializers.Serializer[Any]):
    """When each step was reached: cluster seconds, wall time where it says `at`."""

    submitted_seconds = serializers.FloatField()
    profiled_seconds = serializers.FloatField(allow_null=True)
    queued_seconds = serializers.FloatField(allow_null=True)
    placed_seconds = serializers.FloatField(allow_null=True)
    started_seconds = serializers.FloatField(allow_null=True)
    finished_seconds = serializers.FloatField(allow_null=True)
    placed_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)


class JobStatusSerializer(serializers.Serializer[Any]):
    """How far the job is."""

    state = serializers.ChoiceField(choices=STATES)
    held = serializers.BooleanField()
    cancel_requested = serializers.BooleanField()
    reason = ReasonSerializer(allow_null=True)
    conditions = ConditionSerializer(many=True)
    units = serializers.IntegerField(allow_null=True, help_text="Size decided for it.")
    attempts = serializers.IntegerField()
    progress = serializers.FloatField(help_text="Share of the work done, 0-1.")
    performance = serializers.FloatField(allow_null=True, help_text="In the target's unit.")
    attainment = serializers.FloatField(
        allow_null=True, help_text="Performance over target; 1 or more = met."
    )
    predicted = serializers.DictField()
    times = JobTimesSerializer()


class JobSerializer(serializers.Serializer[Any]):
    """A job: what is wanted, and how far it is."""

    metadata = JobMetadataSerializer()
    spec = JobSpecSerializer()
    status = JobStatusSerializer()


class ExpectSerializer(serializers.Serializer[Any]):
    """How many jobs the caller means."""

    expect = serializers.IntegerField(min_value=0)


class CancelledSerializer(serializers.Serializer[Any]):
    """How many jobs were cancelled."""

    matched = serializers.IntegerField()
    cancelled = serializers.IntegerField()


class BatchRequestSerializer(serializers.Serializer[Any]):
    """Jobs to submit together."""

    defaults = serializers.DictField(
        required=False, help_text="Fields of every item that does not say otherwise."
    )
    items = JobRequestSerializer(many=True)
    mode = serializers.ChoiceField(choices=["independent", "atomic"], required=False)
    project = serializers.CharField(required=False)


class BatchSerializer(serializers.Serializer[Any]):
    """Jobs submitted together."""

    id = serializers.UUIDField()
    project = serializers.CharField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    mode = serializers.CharField()
    total = serializers.IntegerField()
    accepted = serializers.IntegerField()
    rejected = serializers.IntegerField()


class BatchAcceptedSerializer(BatchSerializer):
    """What became of a batch request."""

    operation = serializers.UUIDField()
    replayed = serializers.IntegerField(help_text="Items whose client_id had been used before.")


class BatchDetailSerializer(BatchSerializer):
    """A batch and where its jobs are."""

    states = serializers.DictField(child=serializers.IntegerField())


class BatchItemSerializer(serializers.Serializer[Any]):
    """What became of one item."""

    index = serializers.IntegerField()
    client_id = serializers.CharField(allow_null=True)
    status = serializers.ChoiceField(choices=["accepted", "replayed", "rejected"])
    job = serializers.UUIDField(allow_null=True)
    problem = serializers.DictField(allow_null=True)


class ApplicationSerializer(serializers.Serializer[Any]):
    """What is run, remembered across runs."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=APPLICATION_KINDS)
    description = serializers.CharField(allow_blank=True)
    labels = serializers.DictField(child=serializers.CharField())
    generation = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class ApplicationPatchSerializer(serializers.Serializer[Any]):
    """What may change of an application."""

    description = serializers.CharField(max_length=500, allow_blank=True, required=False)
    labels = serializers.DictField(child=serializers.CharField(max_length=255), required=False)


class ApplicationRequestSerializer(ApplicationPatchSerializer):
    """An application to add before its first job."""

    name = serializers.RegexField(
        r"^[A-Za-z0-9](?:[A-Za-z0-9._:/+-]*[A-Za-z0-9])?$", max_length=127
    )
    kind = serializers.ChoiceField(choices=APPLICATION_KINDS)
