"""The policies of this server, and that of the cluster."""

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
from apps.scheduling.selectors.policies import ListedPolicy, listed_policies
from apps.scheduling.services.default_policy import apply_policy


class PolicySerializer(serializers.Serializer[Any]):
    """A policy that jobs may name."""

    name = serializers.CharField()
    is_default = serializers.BooleanField(help_text="Decides on jobs that name none.")
    version = serializers.IntegerField(
        allow_null=True,
        help_text="Incremented when it may decide differently. Null: its package fails, so its"
        " jobs wait.",
    )
    draws_sample = serializers.BooleanField(
        allow_null=True, help_text="Compares R random candidates, so jobs may name R."
    )
    source = serializers.CharField(  # type: ignore[assignment]  # shadows Field.source
        help_text="Paper and section."
    )
    summary = serializers.CharField(
        help_text="Which units it chooses; empty if its package does not say."
    )
    formula = serializers.CharField(help_text="What it maximises.")
    parameters = serializers.DictField(
        help_text="JSON schema: the default, minimum and maximum of each parameter."
    )


class PoliciesSerializer(serializers.Serializer[Any]):
    """All policies."""

    results = PolicySerializer(many=True)


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


class PolicyList(ApiView):
    """The policies of this server, with those of other packages."""

    @extend_schema(operation_id="policies_list", responses=PoliciesSerializer)
    def get(self, request: Request) -> Response:
        """Return the policies by name, with their parameters."""
        rows = [_represent_listed(policy) for policy in listed_policies()]
        return answer(request, {"results": rows})


def _represent_listed(policy: ListedPolicy) -> dict[str, Any]:
    return {
        "name": policy.name,
        "is_default": policy.is_default,
        "version": policy.version,
        "draws_sample": policy.draws_sample,
        "source": policy.entry.source,
        "summary": policy.entry.summary,
        "formula": policy.entry.formula,
        "parameters": policy.entry.schema(),
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
