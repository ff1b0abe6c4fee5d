"""Replays of decisions."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.core.roles import Role
from apps.common.api.views import ApiView
from apps.scheduling.api.views import visible_decision
from apps.scheduling.core.records.replay_verdict import ReplayVerdict
from apps.scheduling.services.by_worker import replay_by_worker


class DifferenceSerializer(serializers.Serializer[Any]):
    """A field with two values."""

    field = serializers.CharField(help_text="Such as `candidates[0].server_id`.")
    stored = serializers.JSONField(allow_null=True)
    now = serializers.JSONField(allow_null=True)


class ReplaySerializer(serializers.Serializer[Any]):
    """A repeated decision, compared with the stored one."""

    decision = serializers.UUIDField()
    verdict = serializers.ChoiceField(choices=[(str(each), str(each)) for each in ReplayVerdict])
    detail = serializers.CharField(
        allow_blank=True, help_text="Why it cannot be repeated; empty otherwise."
    )
    differences = DifferenceSerializer(many=True, help_text="Empty: every field is identical.")
    changed = DifferenceSerializer(
        many=True, help_text="Versions and parameters that are others now."
    )
    jobs = serializers.IntegerField(help_text="Decided together with it, itself included.")
    position = serializers.IntegerField(help_text="Among these, from 0.")
    checkpoint = serializers.IntegerField(
        help_text="Change-log number of the stored state that the cluster was rebuilt from."
    )
    changes = serializers.IntegerField(help_text="Entries of the change log applied to it.")


class DecisionReplay(ApiView):
    """Replay of a decision."""

    takes_body = False
    rate_class = "solver"
    write_role = Role.VIEWER  # nothing is written

    @extend_schema(operation_id="decisions_replay", request=None, responses=ReplaySerializer)
    def post(self, request: Request, decision_id: UUID) -> Response:
        """Decide again on the same cluster, with the same request and seed, and compare."""
        decision = visible_decision(request, decision_id)
        return Response({"decision": str(decision.pk), **replay_by_worker(decision.pk)})
