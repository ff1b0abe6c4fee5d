"""The policy of the cluster."""

from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.common.api.etags import required_generation
from apps.common.api.inputs import validated
from apps.common.api.representations import time
from apps.common.api.views import ApiView, answer
from apps.inventory.models import DefaultPolicy
from apps.inventory.selectors import applied_policy
from apps.scheduling.selectors.default_policy import policy_in_use
from apps.scheduling.services.default_policy import apply_policy


class DefaultPolicySerializer(serializers.Serializer[Any]):
    """The policy that decides on jobs that name none."""

    policy = serializers.CharField(help_text="In use.")
    is_applied = serializers.BooleanField(help_text="False: the setting BERTH_POLICY decides.")
    setting = serializers.CharField(help_text="BERTH_POLICY, in use until a policy is applied.")
    reason = serializers.CharField(allow_blank=True)
    changed_by = serializers.CharField(allow_null=True)
    changed_at = serializers.DateTimeField(allow_null=True)
    generation = serializers.IntegerField()


class PolicyChangeSerializer(serializers.Serializer[Any]):
    """A policy to apply."""

    policy = serializers.CharField(
        max_length=63, allow_null=True, help_text="Null: the setting BERTH_POLICY decides again."
    )
    reason = serializers.CharField(max_length=500, help_text="For the audit log.")


def represent_policy(row: DefaultPolicy) -> dict[str, Any]:
    """JSON of the policy of the cluster."""
    return {
        "policy": policy_in_use(),
        "is_applied": bool(row.policy),
        "setting": settings.DEFAULT_POLICY,
        "reason": row.reason,
        "changed_by": row.changed_by.username if row.changed_by else None,
        "changed_at": row.changed_at and time(row.changed_at),
        "generation": row.generation,
    }


class DefaultPolicyView(ApiView):
    """The policy that decides on jobs that name none."""

    takes_match = frozenset({"PUT"})
    needs_match = True
    write_role = Role.ADMIN

    @extend_schema(responses=DefaultPolicySerializer)
    def get(self, request: Request) -> Response:
        """Return the policy in use, and who applied it."""
        row = applied_policy()
        return answer(request, represent_policy(row), generation=row.generation)

    @extend_schema(request=PolicyChangeSerializer, responses=DefaultPolicySerializer)
    def put(self, request: Request) -> Response:
        """Apply a policy: agents decide by it from their next turn on."""
        found = validated(PolicyChangeSerializer, request.data)
        row = apply_policy(
            found["policy"] or "",
            reason=found["reason"],
            by=User.objects.filter(pk=principal_of(request).user_id).first(),
            expected=required_generation(request._request),
        )
        return answer(request, represent_policy(row), generation=row.generation)
