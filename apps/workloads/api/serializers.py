"""API schema of jobs: requests, changes and responses.

`representations` builds the JSON. A test checks every response against the schema.
"""

from typing import Any

from rest_framework import serializers

from apps.workloads.api.spec_serializers import (
    JobSpecSerializer,
    TargetSerializer,
    priority_field,
)
from apps.workloads.core.lifecycle import JobState, Suspension
from apps.workloads.core.reasons import Reason

STATES = [(state.value, state.value) for state in JobState]
REASONS = [(reason.value, reason.value) for reason in Reason]


class JobMetadataRequestSerializer(serializers.Serializer[Any]):
    """Identity of the job."""

    name = serializers.CharField(max_length=127, required=False)
    project = serializers.CharField(
        max_length=63,
        required=False,
        help_text="May be omitted if you may submit to one project only.",
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
    priority = priority_field()


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


class SubmittedJobSerializer(JobSerializer):
    """A job that was just submitted."""

    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="What is accepted, but matches no server."
    )


class ExpectSerializer(serializers.Serializer[Any]):
    """Expected number of jobs."""

    expect = serializers.IntegerField(min_value=0, max_value=2**31 - 1)


class CancelledSerializer(serializers.Serializer[Any]):
    """Number of jobs cancelled."""

    matched = serializers.IntegerField()
    cancelled = serializers.IntegerField()
