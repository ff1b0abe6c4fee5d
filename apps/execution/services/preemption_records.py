"""The limits of preemptions, and the record of what became of a proposal."""

from collections.abc import Collection, Sequence
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from apps.accounts.infrastructure.actor import current_actor
from apps.common.core.errors import ConflictError
from apps.execution.models import PreemptionProposal, ProposalState
from apps.execution.selectors.preemption import applied_for, proposed_preemptions, victims_since
from apps.inventory.selectors import cluster_now
from apps.scheduling.core.preemption.limits import (
    ExceededLimit,
    PastPreemptions,
    PreemptionLimits,
)

HOUR_S: Final = 3600.0  # cluster seconds


def preemption_limits() -> PreemptionLimits:
    """Return the limits in the settings."""
    return PreemptionLimits(
        per_job=settings.PREEMPTIONS_PER_JOB,
        per_hour=settings.PREEMPTIONS_PER_HOUR,
        cooldown_s=settings.PREEMPTION_COOLDOWN_S,
    )


def exceeded_limits(
    job_id: UUID, victims: Sequence[PastPreemptions], now_s: float
) -> tuple[ExceededLimit, ...]:
    """Return the limits that stopping some jobs for a waiting one would exceed."""
    return preemption_limits().exceeded(
        victims, by_job=applied_for(job_id), in_hour=victims_since(now_s - HOUR_S), now_s=now_s
    )


def close_proposal(
    job_id: UUID,
    launches: Collection[int],
    overridden: Sequence[ExceededLimit] = (),
    *,
    approved: int | None = None,
) -> None:
    """Record that launches are stopped for a job: its open proposal is applied if it names them.

    Runs in the transaction of the preemption, which has locked the job, and before its events.

    Parameters
    ----------
    approved : the proposal that is applied; None = an operator chose the victims

    Raises
    ------
    ConflictError : that proposal is not open.
    """
    known = proposed_preemptions().filter(job_id=job_id).select_for_update().first()
    if approved is not None and (known is None or known.pk != approved):
        raise ConflictError("The proposal is no longer open.")
    if known is None:
        return
    if named_launches(known) == set(launches):
        decide(known, ProposalState.APPLIED, overridden)
    else:
        known.state = ProposalState.WITHDRAWN
        known.message = "An operator has preempted other jobs for the job."
        known.save(update_fields=["state", "message"])


def decide(
    proposal: PreemptionProposal, state: ProposalState, overridden: Sequence[ExceededLimit] = ()
) -> None:
    """Store the decision of the current actor on a locked proposal."""
    proposal.state = state
    proposal.decided_at = timezone.now()
    proposal.decided_s = cluster_now()
    proposal.decided_by = current_actor().username
    proposal.overridden = [each.as_json() for each in overridden]
    proposal.save(update_fields=["state", "decided_at", "decided_s", "decided_by", "overridden"])


def named_launches(proposal: PreemptionProposal) -> set[int]:
    """Return the ids of the launches that a proposal would stop."""
    victims: list[dict[str, Any]] = proposal.preview
    return {victim["launch"] for victim in victims if "launch" in victim}
