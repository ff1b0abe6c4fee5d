"""API schema of applications."""

from typing import Any

from rest_framework import serializers

from apps.workloads.api.spec_serializers import APPLICATION_KINDS


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
