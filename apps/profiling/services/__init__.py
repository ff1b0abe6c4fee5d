"""Writes of profiling: requests, claims, progress and results of runs."""

from apps.profiling.services.claims import (
    MAX_ATTEMPTS,
    claim_runs,
    record_begun,
    record_progress,
    renew_claims,
    shift_claims,
)
from apps.profiling.services.requests import (
    lock_applications,
    rank_columns,
    request_probes,
    request_run,
    request_runs,
)
from apps.profiling.services.results import (
    end_cancelled_runs,
    fail_jobs,
    give_up_runs,
    record_done,
    record_ended,
    record_failure,
    record_measurements,
    record_profiled,
    stop_runs,
)

__all__ = [
    "MAX_ATTEMPTS",
    "claim_runs",
    "end_cancelled_runs",
    "fail_jobs",
    "give_up_runs",
    "lock_applications",
    "rank_columns",
    "record_begun",
    "record_done",
    "record_ended",
    "record_failure",
    "record_measurements",
    "record_profiled",
    "record_progress",
    "renew_claims",
    "request_probes",
    "request_run",
    "request_runs",
    "shift_claims",
    "stop_runs",
]
