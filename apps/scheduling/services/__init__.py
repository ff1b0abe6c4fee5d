"""What scheduling writes: decisions and allocations, committed and given back; and dry runs."""

from apps.scheduling.services.check import check_job
from apps.scheduling.services.commit import commit
from apps.scheduling.services.preview import Preview, PreviewedJob, preview_overrides
from apps.scheduling.services.proposals import Agent, Lost, Proposal, Refusal
from apps.scheduling.services.refusals import note_refusals, refuse_for_good
from apps.scheduling.services.release import release

__all__ = [
    "Agent",
    "Lost",
    "Preview",
    "PreviewedJob",
    "Proposal",
    "Refusal",
    "check_job",
    "commit",
    "note_refusals",
    "preview_overrides",
    "refuse_for_good",
    "release",
]
