"""Writes of scheduling: decisions and allocations; and dry runs, which write nothing."""

from apps.scheduling.services.commit import commit
from apps.scheduling.services.dry_run import check_job, check_start
from apps.scheduling.services.migrations import (
    ReservationFailure,
    ReservationRequest,
    finish_migrations,
    reserve_units,
)
from apps.scheduling.services.preview import Preview, PreviewedJob, preview_overrides
from apps.scheduling.services.proposals import (
    AgentIdentity,
    LostProposal,
    Proposal,
    Refusal,
    SizedJob,
)
from apps.scheduling.services.refusals import record_refusals, refuse_permanently
from apps.scheduling.services.release import release, release_allocations
from apps.scheduling.services.reservations import end_reservations_of_ended_jobs

__all__ = [
    "AgentIdentity",
    "LostProposal",
    "Preview",
    "PreviewedJob",
    "Proposal",
    "Refusal",
    "ReservationFailure",
    "ReservationRequest",
    "SizedJob",
    "check_job",
    "check_start",
    "commit",
    "end_reservations_of_ended_jobs",
    "finish_migrations",
    "preview_overrides",
    "record_refusals",
    "refuse_permanently",
    "release",
    "release_allocations",
    "reserve_units",
]
