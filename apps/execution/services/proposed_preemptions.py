"""Preemptions that Berth proposes for waiting jobs of high priority, and applies if it may.

Each is stored with its victims, and recorded as an event, before anything is stopped.
"""

import time
from collections.abc import Collection
from typing import Any, Final
from uuid import UUID

import psycopg
from django.conf import settings
from django.core.cache import cache
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet

from apps.common.core.errors import ConflictError, NotFoundError
from apps.execution.models import ONE_OPEN_PROPOSAL, PreemptionProposal, ProposalState
from apps.execution.selectors.preemption import (
    jobs_to_preempt_for,
    proposal_by_id,
    proposed_preemptions,
    was_dismissed,
)
from apps.execution.services.preemption import (
    Outcome,
    Preemption,
    Victim,
    apply_preemption,
    preview_preemption,
)
from apps.execution.services.preemption_approval import check_proposal
from apps.execution.services.preemption_records import exceeded_limits, preemption_limits
from apps.inventory.selectors import cluster_now
from apps.operations.services import NewEvent, record_events
from apps.scheduling.core.preemption.limits import PreemptionMode
from apps.scheduling.core.preemption.victims import is_clearly_less
from apps.scheduling.core.reservations.gangs import SHORT_OF_UNITS
from apps.scheduling.services.reservations import lock_reservations
from apps.workloads.core.lifecycle import JobState
from apps.workloads.models import Job

JOBS_AT_ONCE: Final = 4  # waiting jobs of a turn
URGENT_AT_ONCE: Final = 2  # at most these are of the JOBS_CONSIDERED, the others are untried
JOBS_CONSIDERED: Final = 100  # of the highest priority; those tried least recently are urgent
TRIED_S: Final = 3600  # wall seconds for which a turn remembers that a job was tried
TURN_S: Final = 60  # wall seconds after which another process takes over the turn
PAUSE_S: Final = 30  # wall seconds until a job without victims is tried again
TRIED_KEY: Final = "preemption:tried"  # the cached times at which jobs were tried
OTHERS: Final = "Other victims would lose less now."


def propose_preemptions() -> int:
    """Propose preemptions for the refused jobs of the highest priority, and apply them if allowed.

    Returns
    -------
    Number of proposals that are new or have changed; 0 if the mode is off or another process has
    the turn.
    """
    mode = PreemptionMode(settings.PREEMPTION)
    withdraw_stale(all_of_them=mode is PreemptionMode.OFF)
    if mode is PreemptionMode.OFF or not cache.add("preemption:turn", 1, TURN_S):
        return 0
    try:
        reasons = [reason.value for reason in SHORT_OF_UNITS]
        return sum(_propose(job, mode) for job in _next_jobs(reasons))
    finally:
        cache.delete("preemption:turn")


def _next_jobs(reasons: Collection[str]) -> list[UUID]:
    """Return the jobs of a turn: urgent ones, and those of highest priority that are untried.

    So jobs without victims, or whose proposals wait for an operator, do not hold back the others,
    however many they are.
    """
    now_s = time.time()
    known: dict[UUID, float] = cache.get(TRIED_KEY, {})
    tried = {job: at_s for job, at_s in known.items() if at_s > now_s - TRIED_S}
    urgent = jobs_to_preempt_for(reasons, limit=JOBS_CONSIDERED)
    paused = cache.get_many(map(_pause_key, urgent))
    ready = [job for job in urgent if _pause_key(job) not in paused]
    chosen = sorted(ready, key=lambda job: tried.get(job, 0.0))[:URGENT_AT_ONCE]
    rest = JOBS_AT_ONCE - len(chosen)
    chosen += jobs_to_preempt_for(reasons, limit=rest, besides={*tried, *chosen})
    cache.set(TRIED_KEY, tried | dict.fromkeys(chosen, now_s), TRIED_S)
    return chosen


def withdraw_stale(*, all_of_them: bool = False) -> None:
    """Withdraw the proposals whose job no longer waits; all of them if Berth proposes none."""
    waiting = Job.objects.filter(state=JobState.QUEUED, held=False, cancel_requested=False)
    if all_of_them:
        _withdraw(proposed_preemptions(), "Preemption was switched off.")
        return
    # looks up the job of each proposal, however many jobs wait
    stale = proposed_preemptions().exclude(Exists(waiting.filter(id=OuterRef("job_id"))))
    _withdraw(stale, "The job no longer waits.")


def _propose(job_id: UUID, mode: PreemptionMode) -> bool:
    """Propose a preemption for one job; True if it is new or has changed."""
    if _is_dismissed(job_id):
        return False
    try:
        found = preview_preemption(job_id, preemption_limits())
    except NotFoundError:
        return False  # deleted since it was read
    why_not = _why_not(found)
    if why_not:
        _withdraw(proposed_preemptions().filter(job_id=job_id), why_not)
        cache.set(_pause_key(job_id), 1, PAUSE_S)
        return False
    if mode is PreemptionMode.AUTOMATIC:
        proposal, is_new = _store(found, is_automatic=True)
        if proposal is not None:
            _apply(found, proposal)
        return is_new
    why = _why_replaced(found)
    return why is not None and _store(found, is_automatic=False, why=why)[1]


def _is_dismissed(job_id: UUID) -> bool:
    """Return whether an operator has dismissed a proposal for a job during the cool-down."""
    return was_dismissed(job_id, since_s=cluster_now() - preemption_limits().cooldown_s)


def _pause_key(job_id: UUID) -> str:
    return f"preemption:pause:{job_id}"


def _why_not(found: Preemption) -> str:
    if found.outcome is not Outcome.POSSIBLE:
        return found.message
    return found.exceeded[0].message if found.exceeded else ""


def _why_replaced(found: Preemption) -> str | None:
    """Return why a choice replaces the open proposal of its job; None if the proposal stays."""
    known = proposed_preemptions().filter(job_id=found.job.pk).first()
    if known is None or known.basis == found.basis:
        return OTHERS
    named, difference = check_proposal(known)
    if difference is not None:
        return difference.message
    return OTHERS if is_clearly_less(found.cost, named.cost, found.units) else None


def renew_proposal(proposal_id: int, why: str) -> PreemptionProposal | None:
    """Withdraw an open proposal whose victims have changed, and propose again for its job.

    Returns
    -------
    The new proposal; None if none is possible within the limits.
    """
    job_id = proposal_by_id(proposal_id).job_id
    _withdraw(proposed_preemptions().filter(pk=proposal_id), why)
    found = preview_preemption(job_id, preemption_limits())
    if not _why_not(found):
        _store(found, is_automatic=False)
    return proposed_preemptions().filter(job_id=job_id).first()


def _withdraw(proposals: QuerySet[PreemptionProposal], message: str) -> None:
    proposals.update(state=ProposalState.WITHDRAWN, message=message[:500])


def _store(
    found: Preemption, *, is_automatic: bool, why: str = OTHERS
) -> tuple[PreemptionProposal | None, bool]:
    """Store a proposal in place of an open one of the job, unless that is the same.

    Returns
    -------
    (the open proposal, whether it is new); (None, False) if an operator has dismissed one, or
    another process has stored the first one of the job, since the preview
    """
    try:
        with transaction.atomic():
            known = proposed_preemptions().filter(job_id=found.job.pk).select_for_update().first()
            if known is not None and known.basis == found.basis:
                return known, False
            if _is_dismissed(found.job.pk):
                return None, False
            if known is not None:
                _withdraw(proposed_preemptions().filter(pk=known.pk), why)
            proposal = PreemptionProposal.objects.create(
                job_id=found.job.pk,
                is_automatic=is_automatic,
                cluster_s=cluster_now(),
                basis=found.basis,
                victims=len(found.victims),
                lost=found.cost.lost,
                broken=found.cost.broken,
                preview=[_described(victim) for victim in found.victims],
            )
            record_events([_event(found, proposal)])
    except IntegrityError as error:
        cause = error.__cause__
        violated = cause.diag.constraint_name if isinstance(cause, psycopg.Error) else None
        if violated != ONE_OPEN_PROPOSAL:
            raise
        return None, False
    return proposal, True


def _described(victim: Victim) -> dict[str, Any]:
    return {
        "id": str(victim.job.id),
        "launch": victim.job.launch,
        "name": victim.job.name,
        "units": victim.job.run.units,
        "lost_unit_seconds": victim.lost,
        "breaks_promise": victim.promise.breaks,
        "reason": victim.reason,
    }


def _event(found: Preemption, proposal: PreemptionProposal) -> NewEvent:
    """Return the event of a proposal; it names no victim, as they may be of other projects."""
    return NewEvent(
        topic="jobs",
        kind="job.preemption_proposed",
        subject=str(found.job.pk),
        project_id=found.job.project_id,
        data={
            "name": found.job.name,
            "state": "queued",
            "victims": proposal.victims,
            "lost_unit_seconds": proposal.lost,
            "broken_promises": proposal.broken,
            "is_automatic": proposal.is_automatic,
        },
    )


def _apply(found: Preemption, proposal: PreemptionProposal) -> None:
    """Apply a proposal if it is still open; it is withdrawn if something has changed."""
    try:
        with transaction.atomic():
            lock_reservations()  # no approval counts the victims of the hour meanwhile
            _require_within_limits(found)
            apply_preemption(found, approved=proposal.pk)
    except ConflictError as error:
        _withdraw(proposed_preemptions().filter(pk=proposal.pk), str(error))


def _require_within_limits(found: Preemption) -> None:
    """Check the limits again: other preemptions may have been applied since the preview.

    Raises
    ------
    ConflictError : one is exceeded.
    """
    pasts = [victim.job.past for victim in found.victims]
    if exceeded := exceeded_limits(found.job.pk, pasts, cluster_now()):
        raise ConflictError(exceeded[0].message)
