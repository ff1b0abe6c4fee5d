"""API schema of applications."""

from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail

from apps.workloads.api.spec_serializers import APPLICATION_KINDS
from apps.workloads.core.checks import MAX_LABEL_VALUE, Problems, labels


class LabelsField(serializers.DictField):
    """Labels, limited as those of jobs."""

    child = serializers.CharField(max_length=MAX_LABEL_VALUE, allow_blank=True)

    def to_internal_value(self, data: Any) -> Any:
        """Return the labels, or raise a validation error for each wrong one."""
        problems: Problems = []
        checked = labels(data, "", problems)
        if problems:
            details = [[ErrorDetail(each.detail, each.code)] for each in problems]
            names = [each.pointer.removeprefix("/") for each in problems]
            raise serializers.ValidationError(
                details[0] if checked is None else dict(zip(names, details, strict=True))
            )
        return checked


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
    labels = LabelsField(required=False)


class ApplicationRequestSerializer(ApplicationPatchSerializer):
    """An application to add before its first job."""

    name = serializers.RegexField(
        r"^[A-Za-z0-9](?:[A-Za-z0-9._:/+-]*[A-Za-z0-9])?$", max_length=127
    )
    kind = serializers.ChoiceField(choices=APPLICATION_KINDS)
