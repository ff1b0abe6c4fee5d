"""Preemption of running jobs for a waiting one: a preview, and its application."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.core.roles import Role
from apps.common.api.inputs import validated
from apps.common.api.views import ApiView, answer
from apps.common.core.keyed_requests import KeyedResponse
from apps.common.infrastructure.request_id import current_request_id
from apps.execution.services.preemption import (
    Outcome,
    Victim,
    preempt,
    preview_preemption,
)
from apps.operations.api.idempotency import once
from apps.scheduling.core.preemption.limits import Limit
from apps.workloads.api.job_views import visible_job
from apps.workloads.api.submission import job_url


class VictimServerSerializer(serializers.Serializer[Any]):
    """Units of a victim on a server."""

    server = serializers.CharField()
    units = serializers.IntegerField()


class VictimSerializer(serializers.Serializer[Any]):
    """A running job that would be stopped and queued again."""

    id = serializers.UUIDField(source="job.id")
    name = serializers.CharField(source="job.name")
    project = serializers.CharField(source="job.project")
    application = serializers.CharField(source="job.application")
    priority = serializers.IntegerField(source="job.priority")
    units = serializers.IntegerField(source="job.run.units")
    servers = serializers.SerializerMethodField()
    lost_unit_seconds = serializers.IntegerField(
        source="lost", help_text="Work in cluster time: since its last report, or since its start."
    )
    breaks_promise = serializers.BooleanField(
        source="promise.breaks",
        help_text="Whether it misses its target because of the preemption.",
    )
    promise = serializers.CharField(
        source="promise.reason", help_text="Why it breaks its promise, or does not."
    )
    short_units = serializers.IntegerField(
        source="short", help_text="Units that the waiting job lacks if this job is kept."
    )
    reason = serializers.CharField(help_text="Why it was chosen.")

    @extend_schema_field(VictimServerSerializer(many=True))
    def get_servers(self, victim: Victim) -> list[dict[str, Any]]:
        """Return the servers of a victim with its units there."""
        return [{"server": name, "units": units} for name, units in victim.servers.items()]


class PreemptionCostSerializer(serializers.Serializer[Any]):
    """Cost of a set of victims; compared in this order."""

    broken_promises = serializers.IntegerField(source="broken")
    lost_unit_seconds = serializers.IntegerField(source="lost")
    jobs = serializers.IntegerField()


class ExceededLimitSerializer(serializers.Serializer[Any]):
    """A limit of preemptions that a preemption exceeds."""

    limit = serializers.ChoiceField(choices=[limit.value for limit in Limit])
    setting = serializers.CharField(help_text="That sets the limit.")
    message = serializers.CharField()


class PreemptionSerializer(serializers.Serializer[Any]):
    """The jobs of lower priority that would make room for a waiting job."""

    job = serializers.UUIDField(source="job.pk")
    outcome = serializers.ChoiceField(choices=[outcome.value for outcome in Outcome])
    message = serializers.CharField(help_text="Why it is not possible or needed; else empty.")
    units = serializers.IntegerField(help_text="That the job waits for; 0: not known.")
    candidates = serializers.IntegerField(
        help_text="Running jobs of lower priority that can be stopped and started again."
    )
    victims = VictimSerializer(many=True)
    cost = PreemptionCostSerializer()
    bound = PreemptionCostSerializer(help_text="No set of victims costs less.")
    is_best = serializers.BooleanField(help_text="Whether no other set of victims costs less.")
    overridden_limits = ExceededLimitSerializer(
        many=True, source="exceeded", help_text="Limits that applying this preview overrides."
    )
    basis = serializers.CharField(help_text="To be sent to apply exactly this preview.")


class SeenVictimSerializer(serializers.Serializer[Any]):
    """A victim of the preview."""

    id = serializers.UUIDField()
    breaks_promise = serializers.BooleanField()


class PreemptionRequestSerializer(serializers.Serializer[Any]):
    """The preview to apply."""

    basis = serializers.CharField(max_length=64)
    victims = serializers.ListField(
        child=SeenVictimSerializer(),
        required=False,
        max_length=10_000,
        help_text="Of the preview. If other victims would be chosen now, those of these are"
        " stopped that still make room, unless one would miss its target only now.",
    )


class JobPreemption(ApiView):
    """Preview of a preemption."""

    read_role = Role.OPERATOR

    @extend_schema(responses=PreemptionSerializer)
    def get(self, request: Request, job_id: UUID) -> Response:
        """Choose the victims that would let a waiting job start, without writing anything."""
        job = visible_job(request, job_id)
        return answer(request, PreemptionSerializer(preview_preemption(job.pk)).data)


class JobPreemptionApply(ApiView):
    """Application of a preemption."""

    write_role = Role.OPERATOR
    takes_key = True

    @extend_schema(request=PreemptionRequestSerializer, responses={202: PreemptionSerializer})
    def post(self, request: Request, job_id: UUID) -> Response:
        """Stop the victims of a preview, and reserve their units: 409 if they have changed."""
        job = visible_job(request, job_id)
        given = validated(PreemptionRequestSerializer, request.data)
        seen = {each["id"]: each["breaks_promise"] for each in given.get("victims", ())}

        def apply() -> KeyedResponse:
            done = preempt(job.pk, given["basis"], seen, request_id=current_request_id())
            return KeyedResponse(202, job_url(job.pk), PreemptionSerializer(done).data)

        return once(request, request.data, apply)
