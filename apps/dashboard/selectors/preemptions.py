"""Proposed preemptions with their waiting jobs, for operators."""

from dataclasses import dataclass
from uuid import UUID

from apps.execution.models import PreemptionProposal, ProposalState
from apps.execution.selectors.preemption import proposed_preemptions
from apps.workloads.models import Job


@dataclass(frozen=True, slots=True)
class ProposedPreemption:
    """A proposal and the job that it is for."""

    job: Job
    proposal: PreemptionProposal


def proposed_rows() -> list[ProposedPreemption]:
    """Return the proposals that wait for an operator, highest priority first."""
    proposals = {each.job_id: each for each in proposed_preemptions()}
    jobs = Job.objects.filter(id__in=proposals).select_related("project")
    return [
        ProposedPreemption(job, proposals[job.id])
        for job in jobs.order_by("-priority", "created_at", "id")
    ]


def decided_rows(limit: int = 8) -> list[ProposedPreemption]:
    """Return the newest proposals that no longer wait for an operator."""
    ended = PreemptionProposal.objects.exclude(state=ProposalState.PROPOSED)
    proposals = list(ended.order_by("-id")[:limit])
    jobs = Job.objects.select_related("project").in_bulk({each.job_id for each in proposals})
    return [
        ProposedPreemption(jobs[each.job_id], each) for each in proposals if each.job_id in jobs
    ]


def proposal_for(job_id: UUID) -> PreemptionProposal | None:
    """Return the proposal of a job that waits for an operator, if there is one."""
    return proposed_preemptions().filter(job_id=job_id).first()
