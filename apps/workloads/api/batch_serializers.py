"""API schema of batches and job arrays."""

from typing import Any

from rest_framework import serializers

from apps.workloads.api.serializers import JobRequestSerializer
from apps.workloads.api.submission import MAX_ITEMS
from apps.workloads.core.arrays import MAX_INDEX, MAX_TEXT


def _array_limit(*, required: bool) -> serializers.IntegerField:
    return serializers.IntegerField(
        min_value=1,
        max_value=MAX_INDEX,
        allow_null=True,
        required=required,
        help_text="Members that may wait for units or run at once; null: all.",
    )


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
