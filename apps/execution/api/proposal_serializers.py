"""Serializers of proposed preemptions."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from rest_framework import serializers

from apps.common.api.representations import time
from apps.execution.api.preemption_views import ExceededLimitSerializer
from apps.execution.models import PreemptionProposal, ProposalState
from apps.execution.services.preemption import Preemption
from apps.execution.services.preemption_approval import Difference
from apps.workloads.models import Job

STATES = tuple(ProposalState.values)


class ProposalSerializer(serializers.Serializer[Any]):
    """A preemption that Berth proposed for a waiting job."""

    id = serializers.IntegerField()
    job = serializers.UUIDField(help_text="That waits.")
    job_name = serializers.CharField()
    project = serializers.CharField()
    priority = serializers.IntegerField(help_text="Of the waiting job.")
    state = serializers.ChoiceField(choices=STATES)
    message = serializers.CharField(allow_blank=True, help_text="Why it was withdrawn.")
    is_automatic = serializers.BooleanField(help_text="Whether Berth applied it by itself.")
    created_at = serializers.DateTimeField()
    victims = serializers.IntegerField(help_text="Number of jobs to stop.")
    lost_unit_seconds = serializers.IntegerField(help_text="When it was proposed.")
    broken_promises = serializers.IntegerField()
    decided_at = serializers.DateTimeField(allow_null=True)
    decided_by = serializers.CharField(
        allow_blank=True, help_text="Operator who applied or dismissed it; empty: Berth."
    )
    overridden_limits = ExceededLimitSerializer(
        many=True, help_text="Limits that the operator has overridden."
    )


class NamedVictimSerializer(serializers.Serializer[Any]):
    """A victim that a proposal names, as it was then."""

    id = serializers.UUIDField(allow_null=True, help_text="Null: you may not see the job.")
    name = serializers.CharField(allow_blank=True)
    units = serializers.IntegerField()
    lost_unit_seconds = serializers.IntegerField()
    breaks_promise = serializers.BooleanField()
    reason = serializers.CharField(help_text="Why it was chosen.")


class ProposalDifferenceSerializer(serializers.Serializer[Any]):
    """How a proposal differs from the state of the cluster; names of victims."""

    gone = serializers.ListField(
        child=serializers.CharField(), help_text="Victims that no longer run as they did."
    )
    not_needed = serializers.ListField(
        child=serializers.CharField(),
        help_text="Victims without which the waiting job would start too.",
    )
    missed = serializers.ListField(
        child=serializers.CharField(),
        help_text="Victims that would now miss a target, unlike in the proposal.",
    )
    reason = serializers.CharField(allow_blank=True, help_text="Why it is impossible.")
    message = serializers.CharField(help_text="The differences in sentences.")


class ProposalCheckSerializer(serializers.Serializer[Any]):
    """Whether an open proposal can be applied now."""

    can_apply = serializers.BooleanField()
    difference = ProposalDifferenceSerializer(allow_null=True)
    lost_unit_seconds = serializers.IntegerField(help_text="Now.")
    exceeded_limits = ExceededLimitSerializer(
        many=True, help_text="To be overridden with `override_limits`."
    )


class ProposalDetailSerializer(ProposalSerializer):
    """A proposed preemption with its victims."""

    named = NamedVictimSerializer(many=True, help_text="The victims.")
    check = ProposalCheckSerializer(
        allow_null=True, help_text="Of an open proposal, for operators; else null."
    )


WITHDRAWN: Final = "Its victims or the limits have changed, or the job no longer waits."


class ApprovalSerializer(serializers.Serializer[Any]):
    """The application of a proposal."""

    override_limits = serializers.BooleanField(
        default=False, help_text="Apply it even if it exceeds limits; they are recorded."
    )


def represent_proposal(
    row: PreemptionProposal, job: Job, *, names_victims: bool
) -> dict[str, Any]:
    """JSON of a proposal.

    Parameters
    ----------
    names_victims : keep the stored sentences, which name jobs of all projects
    """
    message, overridden = row.message, row.overridden
    if not names_victims:
        message = WITHDRAWN if row.state == ProposalState.WITHDRAWN else message
        overridden = [
            {**each, "message": f"{each['setting']} was exceeded."} for each in overridden
        ]
    return {
        "id": row.pk,
        "job": str(row.job_id),
        "job_name": job.name,
        "project": job.project.name,
        "priority": job.priority,
        "state": row.state,
        "message": message,
        "is_automatic": row.is_automatic,
        "created_at": time(row.at),
        "victims": row.victims,
        "lost_unit_seconds": row.lost,
        "broken_promises": row.broken,
        "decided_at": time(row.decided_at),
        "decided_by": row.decided_by,
        "overridden_limits": overridden,
    }


def represent_victim(victim: Mapping[str, Any], visible: set[UUID]) -> dict[str, Any]:
    """JSON of a victim; without its name if the caller may not see the job."""
    is_visible = UUID(victim["id"]) in visible
    return {
        "id": victim["id"] if is_visible else None,
        "name": victim["name"] if is_visible else "",
        "units": victim["units"],
        "lost_unit_seconds": victim["lost_unit_seconds"],
        "breaks_promise": victim["breaks_promise"],
        "reason": victim["reason"],
    }


def represent_check(found: Preemption, difference: Difference | None) -> dict[str, Any]:
    """JSON of the check of an open proposal."""
    return {
        "can_apply": difference is None,
        "difference": None if difference is None else difference.as_json(),
        "lost_unit_seconds": found.cost.lost,
        "exceeded_limits": [each.as_json() for each in found.exceeded],
    }
