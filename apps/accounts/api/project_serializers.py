"""Projects and members as the API shows them."""

from typing import Any, Final

from rest_framework import serializers

from apps.accounts.api.serializers import ROLES
from apps.accounts.models import Membership, Project, ProjectShare
from apps.accounts.selectors import share_of
from apps.common.api.representations import time

MAX_UNITS: Final = 2_147_483_647


class LabelsField(serializers.DictField):
    """Labels: up to 64 names with texts."""

    child = serializers.CharField(max_length=63, allow_blank=True)

    def to_internal_value(self, data: Any) -> Any:
        """Return the labels, or raise a validation error."""
        labels = super().to_internal_value(data)
        if len(labels) > 64 or any(not 0 < len(name) <= 63 for name in labels):
            raise serializers.ValidationError("must be at most 64 names of 1 to 63 characters")
        return labels


class FairShareSerializer(serializers.Serializer[Any]):
    """The decayed dominant share of a project, by which its waiting jobs are ordered."""

    share = serializers.FloatField(help_text="Of the cluster, 0-1: the largest by resource.")
    resource = serializers.CharField(help_text="Of the largest share.")
    position = serializers.IntegerField(
        help_text="From 1: of equal priority, the jobs of the smallest share are first."
    )
    half_life_seconds = serializers.FloatField(help_text="Cluster time after which use is halved.")
    cluster_seconds = serializers.FloatField(help_text="When it was computed.")


class ProjectSerializer(serializers.Serializer[Any]):
    """A group of users and their jobs."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    description = serializers.CharField()
    labels = serializers.DictField(child=serializers.CharField())
    requires_key = serializers.BooleanField(
        help_text="Service accounts must submit jobs with an Idempotency-Key; in a batch, a"
        " client_id of every item replaces it."
    )
    created_at = serializers.DateTimeField()
    archived_at = serializers.DateTimeField(
        allow_null=True, help_text="An archived project accepts no jobs."
    )
    guaranteed_units = serializers.IntegerField(
        allow_null=True, help_text="Units that the project may always use. Null: no guarantee."
    )
    max_units = serializers.IntegerField(
        allow_null=True,
        help_text="Max units of the project, including borrowed ones. Null: no limit.",
    )
    fair_share = FairShareSerializer(
        allow_null=True, help_text="Null: without fair share, or not computed yet."
    )


SLUG_ERRORS: Final[dict[str, Any]] = {
    "invalid": "Only letters without accents, digits, hyphens and underscores are accepted."
}


class ProjectRequestSerializer(serializers.Serializer[Any]):
    """The request for a new project."""

    name = serializers.SlugField(max_length=63, error_messages=SLUG_ERRORS)
    description = serializers.CharField(max_length=1000, allow_blank=True, required=False)
    labels = LabelsField(required=False)
    requires_key = serializers.BooleanField(required=False)
    guaranteed_units = serializers.IntegerField(
        min_value=0, max_value=MAX_UNITS, allow_null=True, required=False
    )
    max_units = serializers.IntegerField(
        min_value=0, max_value=MAX_UNITS, allow_null=True, required=False
    )


class ProjectPatchSerializer(ProjectRequestSerializer):
    """A change of a project."""

    name = serializers.SlugField(max_length=63, required=False, error_messages=SLUG_ERRORS)
    archived = serializers.BooleanField(required=False)


class MemberSerializer(serializers.Serializer[Any]):
    """A member of a project."""

    user_id = serializers.UUIDField()
    username = serializers.CharField()
    role = serializers.ChoiceField(choices=ROLES)


class MemberRequestSerializer(serializers.Serializer[Any]):
    """A member to add, or whose role to change."""

    username = serializers.CharField(max_length=150)
    role = serializers.ChoiceField(choices=ROLES)


def represent_project(project: Project) -> dict[str, Any]:
    """JSON of a project."""
    return {
        "id": str(project.pk),
        "name": project.name,
        "description": project.description,
        "labels": project.labels,
        "requires_key": not project.key_optional,
        "created_at": time(project.created_at),
        "archived_at": time(project.archived_at),
        "guaranteed_units": project.guaranteed_units,
        "max_units": project.max_units,
        "fair_share": represent_share(share_of(project)),
    }


def represent_share(row: ProjectShare | None) -> dict[str, Any] | None:
    """JSON of a share."""
    if row is None:
        return None
    return {
        "share": row.dominant,
        "resource": row.resource,
        "position": row.position,
        "half_life_seconds": row.half_life_s,
        "cluster_seconds": row.cluster_s,
    }


def represent_member(row: Membership) -> dict[str, Any]:
    """JSON of a member whose user is loaded."""
    return {"user_id": str(row.user_id), "username": row.user.username, "role": row.role}
