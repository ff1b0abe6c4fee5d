"""What scheduling writes: decisions and allocations, committed and given back; and dry runs."""

from apps.scheduling.services.check import check_job
from apps.scheduling.services.commit import Agent, Lost, Proposal, Refusal, commit, note_refusals
from apps.scheduling.services.release import release

__all__ = [
    "Agent",
    "Lost",
    "Proposal",
    "Refusal",
    "check_job",
    "commit",
    "note_refusals",
    "release",
]
