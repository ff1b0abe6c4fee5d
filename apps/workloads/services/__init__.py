"""Writes of jobs: submission, every change of state, and what running jobs report.

Every function ends by recording events, whose numbers are allotted under a lock held until
commit: callers do their other writes first.
"""

from apps.workloads.services.applications import create_application, update_application
from apps.workloads.services.changes import cancel_jobs, delete_job, set_held, update_job
from apps.workloads.services.decisions import (
    CLAIM_S,
    Sized,
    Waiting,
    claim_waiting,
    fail_waiting,
    keep_waiting,
    place_jobs,
    queue_profiled,
    release_claims,
    send_to_profiling,
)
from apps.workloads.services.progress import (
    Ended,
    Report,
    end_jobs,
    record_moves,
    record_placed,
    report_progress,
    requeue_lost,
    start_running,
)
from apps.workloads.services.submission import submit_jobs

__all__ = [
    "CLAIM_S",
    "Ended",
    "Report",
    "Sized",
    "Waiting",
    "cancel_jobs",
    "claim_waiting",
    "create_application",
    "delete_job",
    "end_jobs",
    "fail_waiting",
    "keep_waiting",
    "place_jobs",
    "queue_profiled",
    "record_moves",
    "record_placed",
    "release_claims",
    "report_progress",
    "requeue_lost",
    "send_to_profiling",
    "set_held",
    "start_running",
    "submit_jobs",
    "update_application",
    "update_job",
]
