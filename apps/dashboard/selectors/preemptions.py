"""Proposed preemptions with their waiting jobs, for operators."""

from dataclasses import dataclass
from uuid import UUID

from apps.execution.models import PreemptionProposal
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


def proposal_for(job_id: UUID) -> PreemptionProposal | None:
    """Return the proposal of a job that waits for an operator, if there is one."""
    return proposed_preemptions().filter(job_id=job_id).first()
