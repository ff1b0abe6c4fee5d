"""Decisions of operators on proposed preemptions: stop exactly the named victims, or none."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from apps.accounts.services.audit import Act, record_act
from apps.common.core.errors import ConflictError
from apps.execution.models import PreemptionProposal, ProposalState
from apps.execution.selectors.preemption import preemptible_jobs, proposal_by_id
from apps.execution.services.preemption import (
    Outcome,
    Preemption,
    apply_preemption,
    preview_preemption,
)
from apps.execution.services.preemption_records import decide, exceeded_limits
from apps.inventory.selectors import cluster_now
from apps.scheduling.core.preemption.limits import ExceededLimit
from apps.scheduling.services.reservations import lock_reservations

NO_ROOM: Final = "The named victims no longer make enough room."


@dataclass(frozen=True, slots=True)
class Difference:
    """How a stored proposal differs from the state of the cluster.

    Attributes
    ----------
    gone : names of the victims that no longer run as they did
    not_needed : names of those without which the waiting job would start too
    missed : names of those that would now miss a target, unlike in the proposal
    reason : why the proposal is impossible; empty if the victims say it
    """

    gone: tuple[str, ...] = ()
    not_needed: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    reason: str = ""

    @property
    def message(self) -> str:
        """The difference in sentences."""
        parts = [
            (self.gone, "no longer runs", "no longer run"),
            (self.not_needed, "need not be stopped", "need not be stopped"),
            (self.missed, "would now miss its target", "would now miss their targets"),
        ]
        said = [f"{_listed(names)} {one if len(names) == 1 else many}."
                for names, one, many in parts if names]  # fmt: skip
        return " ".join([*said, self.reason] if self.reason else said)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "gone": list(self.gone),
            "not_needed": list(self.not_needed),
            "missed": list(self.missed),
            "reason": self.reason,
            "message": self.message,
        }


def _listed(names: tuple[str, ...], shown: int = 5) -> str:
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more > 0 else "")


class ProposalChangedError(ConflictError):
    """The victims of a proposal are no longer right; nothing was stopped."""

    def __init__(self, difference: Difference) -> None:
        super().__init__(f"{difference.message} Nothing was stopped.")
        self.difference = difference


class LimitsExceededError(ConflictError):
    """A preemption would exceed limits, and the operator has not overridden them."""

    def __init__(self, exceeded: tuple[ExceededLimit, ...]) -> None:
        named = " ".join(f"{each.message} ({each.setting})" for each in exceeded)
        super().__init__(f"{named} Nothing was stopped. Override the limits to apply it.")
        self.exceeded = exceeded


def check_proposal(proposal: PreemptionProposal) -> tuple[Preemption, Difference | None]:
    """Return the stop of exactly the named victims now, and how it differs from the proposal.

    Raises
    ------
    NotFoundError : the waiting job was deleted.
    """
    named = {UUID(victim["id"]): victim for victim in proposal.preview}
    found = preview_preemption(proposal.job_id, only=named)
    difference = _difference(named, found)
    return found, None if difference == Difference() else difference


def _difference(named: Mapping[UUID, Mapping[str, Any]], found: Preemption) -> Difference:
    running = {each.id: each.launch for each in preemptible_jobs(named, found.job.priority)}
    same = {key for key, victim in named.items() if running.get(key) == victim.get("launch")}
    gone = tuple(named[key]["name"] for key in named if key not in same)
    if found.outcome is Outcome.IMPOSSIBLE:
        return Difference(gone=gone, reason=NO_ROOM if found.lacks_room else found.message)
    chosen = {victim.job.id: victim for victim in found.victims}
    return Difference(
        gone=gone,
        not_needed=tuple(named[key]["name"] for key in named if key in same - chosen.keys()),
        missed=tuple(
            victim.job.name
            for key, victim in chosen.items()
            if victim.promise.breaks and not named[key]["breaks_promise"]
        ),
    )


def approve_proposal(
    proposal_id: int, *, override_limits: bool = False, request_id: str = ""
) -> PreemptionProposal:
    """Stop exactly the victims that a proposal names, and reserve their units.

    Parameters
    ----------
    override_limits : apply it even if it exceeds limits; they are stored with the proposal

    Raises
    ------
    NotFoundError : the proposal or its waiting job does not exist.
    ProposalChangedError : a victim has ended, is not needed, or would miss its target now.
    LimitsExceededError : a limit is exceeded and not overridden.
    ConflictError : the proposal is not open, or something changed during the approval.
    """
    proposal = proposal_by_id(proposal_id)
    _require_open(proposal)
    found, difference = check_proposal(proposal)
    if difference is not None:
        raise ProposalChangedError(difference)
    with transaction.atomic():
        lock_reservations()  # no other approval counts the victims of the hour meanwhile
        pasts = [victim.job.past for victim in found.victims]
        exceeded = exceeded_limits(proposal.job_id, pasts, cluster_now())
        if exceeded and not override_limits:
            raise LimitsExceededError(exceeded)
        apply_preemption(
            replace(found, exceeded=exceeded), request_id=request_id, approved=proposal_id
        )
    return proposal_by_id(proposal_id)


def dismiss_proposal(proposal_id: int) -> PreemptionProposal:
    """Dismiss a proposal: Berth proposes none for its job during the cool-down.

    Raises
    ------
    NotFoundError : there is none.
    ConflictError : it is not open.
    """
    with transaction.atomic():
        proposal = _locked(proposal_id)
        _require_open(proposal)
        decide(proposal, ProposalState.DISMISSED)
        after = {"proposal": proposal.pk, "victims": proposal.victims}
        record_act(Act("job.preemption_dismissed", str(proposal.job_id), after=after))
    return proposal


def _locked(proposal_id: int) -> PreemptionProposal:
    proposal_by_id(proposal_id)  # raises if there is none
    return PreemptionProposal.objects.select_for_update().get(pk=proposal_id)


def _require_open(proposal: PreemptionProposal) -> None:
    if proposal.state != ProposalState.PROPOSED:
        raise ConflictError(f"The proposal is {proposal.state}. {proposal.message}".strip())
