"""Writes of jobs: submission, state transitions and progress reports.

Every function records events last, because event numbers are allotted under a lock that is held
until commit. Callers make their other writes first.
"""

from apps.workloads.services.applications import (
    create_application,
    follow_deletion,
    follow_rename,
    update_application,
)
from apps.workloads.services.arrays import (
    release_members,
    release_unreleased,
    set_array_limit,
)
from apps.workloads.services.changes import (
    cancel_array,
    cancel_jobs,
    delete_job,
    set_constraints,
    set_held,
    update_job,
)
from apps.workloads.services.clock_steps import shift_claims
from apps.workloads.services.decisions import (
    PlacedJob,
    fail_waiting,
    place_jobs,
    queue_profiled,
    send_to_profiling,
)
from apps.workloads.services.growth import (
    GrowthRound,
    claim_incomplete,
    end_growth,
    grow_jobs,
    postpone_growth,
    record_given,
    record_grown,
)
from apps.workloads.services.new_jobs import NewJob, Submission
from apps.workloads.services.progress import (
    JobEnd,
    ProgressReport,
    end_jobs,
    end_unplaced,
    record_placed,
    record_transitions,
    report_progress,
    requeue_lost,
    restart_jobs,
    start_running,
)
from apps.workloads.services.rows import lock_against_deletion, lock_jobs
from apps.workloads.services.shapes import (
    ClaimedShapes,
    CopyRound,
    claim_shapes,
    continue_shapes,
    copy_reasons,
    evaluate_soon,
    join_shapes,
)
from apps.workloads.services.submission import (
    as_submitted,
    require_accepted,
    resubmit,
    store_jobs,
    submit_array,
    submit_jobs,
    submitted_events,
)
from apps.workloads.services.suspension import (
    record_suspended,
    request_suspension,
)
from apps.workloads.services.waiting import (
    CLAIM_S,
    EvaluationTime,
    WaitingJob,
    claim_waiting,
    keep_waiting,
    release_claims,
)

__all__ = [
    "CLAIM_S",
    "ClaimedShapes",
    "CopyRound",
    "EvaluationTime",
    "GrowthRound",
    "JobEnd",
    "NewJob",
    "PlacedJob",
    "ProgressReport",
    "Submission",
    "WaitingJob",
    "as_submitted",
    "cancel_array",
    "cancel_jobs",
    "claim_incomplete",
    "claim_shapes",
    "claim_waiting",
    "continue_shapes",
    "copy_reasons",
    "create_application",
    "delete_job",
    "end_growth",
    "end_jobs",
    "end_unplaced",
    "evaluate_soon",
    "fail_waiting",
    "follow_deletion",
    "follow_rename",
    "grow_jobs",
    "join_shapes",
    "keep_waiting",
    "lock_against_deletion",
    "lock_jobs",
    "place_jobs",
    "postpone_growth",
    "queue_profiled",
    "record_given",
    "record_grown",
    "record_placed",
    "record_suspended",
    "record_transitions",
    "release_claims",
    "release_members",
    "release_unreleased",
    "report_progress",
    "request_suspension",
    "requeue_lost",
    "require_accepted",
    "restart_jobs",
    "resubmit",
    "send_to_profiling",
    "set_array_limit",
    "set_constraints",
    "set_held",
    "shift_claims",
    "start_running",
    "store_jobs",
    "submit_array",
    "submit_jobs",
    "submitted_events",
    "update_application",
    "update_job",
]
