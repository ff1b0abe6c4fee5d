"""What scheduling writes: decisions, allocations made, moved and given back; and dry runs."""

from apps.scheduling.services.check import check_job
from apps.scheduling.services.commit import commit
from apps.scheduling.services.moving import Obstacle, Wish, reserve, settle_moves
from apps.scheduling.services.preview import Preview, PreviewedJob, preview_overrides
from apps.scheduling.services.proposals import Agent, Lost, Proposal, Refusal
from apps.scheduling.services.refusals import note_refusals, refuse_for_good
from apps.scheduling.services.release import release, release_allocations

__all__ = [
    "Agent",
    "Lost",
    "Obstacle",
    "Preview",
    "PreviewedJob",
    "Proposal",
    "Refusal",
    "Wish",
    "check_job",
    "commit",
    "note_refusals",
    "preview_overrides",
    "refuse_for_good",
    "release",
    "release_allocations",
    "reserve",
    "settle_moves",
]
