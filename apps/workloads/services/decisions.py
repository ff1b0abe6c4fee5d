"""Apply the decisions of agents to claimed jobs: place them, profile them or let them fail."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from apps.common.infrastructure.database import (
    fetch_rows,
    number_array,
    text_array,
    without_index,
)
from apps.inventory.selectors import cluster_now
from apps.operations.services import record_events
from apps.workloads.core.lifecycle import WAITING_STATES, JobState
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Job
from apps.workloads.services.rows import as_json, lock_jobs, row_event
from apps.workloads.services.transitions import advance
from apps.workloads.services.waiting import release_claims


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """The decision to place a job; see `place_jobs`.

    Attributes
    ----------
    units : units that are allocated to the job
    missing : units that it gets later, as they are freed
    run_s, run_high_s : predicted run time of the whole work and its pessimistic end, cluster
        seconds; None = unknown
    is_resumed : whether the backend continues the job from its last reported progress, so that the
        launch takes the rest of the run time; otherwise the job starts from the beginning
    """

    job_id: UUID
    units: int
    reason: str
    message: str
    missing: int = 0
    run_s: float | None = None
    run_high_s: float | None = None
    predicted: Mapping[str, Any] = field(default_factory=dict)
    is_resumed: bool = False


def place_jobs(placed: Sequence[PlacedJob], *, agent: str, cluster_s: float) -> dict[UUID, float]:
    """Set the state of claimed jobs to ``starting``.

    Jobs that were meanwhile cancelled, held or claimed by another agent stay as they are.
    This function records no event: its caller calls `record_placed` at the end of the transaction.

    Returns
    -------
    wall seconds from the submission of each changed job until now
    """
    rows = sorted(placed, key=lambda row: row.job_id)
    updated = fetch_rows(
        f"""UPDATE workloads_job AS j
           SET state = 'starting', units = d.units, units_missing = d.missing,
               units_pending = 0, grown_s = NULL, run_s = d.run_s * (1 - {_DONE}),
               run_high_s = d.run_high_s * (1 - {_DONE}),
               started_s = NULL, suspended_for_s = 0.0, progress_before = {_DONE},
               progress = CASE WHEN d.resumed THEN j.progress ELSE 0.0 END,
               reason_code = d.reason,
               reason_message = left(d.message, 500), reason_also = '[]',
               predicted = d.predicted::jsonb, queued_s = coalesce(j.queued_s, %s),
               placed_s = %s, placed_at = now(), updated_at = now(), attempts = j.attempts + 1,
               tries = 0, claimed_by = '', claimed_until = NULL, shape_id = NULL,
               generation = j.generation + 1
           FROM unnest(%s::uuid[], %s::int[], %s::int[], %s::float8[], %s::float8[], %s::text[],
                       %s::text[], %s::text[], %s::bool[])
                AS d(id, units, missing, run_s, run_high_s, reason, message, predicted, resumed)
           WHERE j.id = d.id AND {_IS_WAITING} AND j.claimed_by = %s
           RETURNING j.id,
                     extract(epoch FROM clock_timestamp() - j.created_at)::float8""",  # noqa: S608 - constants
        [
            cluster_s, cluster_s, number_array(row.job_id for row in rows),
            number_array(row.units for row in rows), number_array(row.missing for row in rows),
            [row.run_s for row in rows], [row.run_high_s for row in rows],
            text_array(row.reason for row in rows), text_array(row.message for row in rows),
            text_array(as_json(row.predicted) for row in rows),
            [row.is_resumed for row in rows], agent,
        ],
    )  # fmt: skip
    return dict(updated)


# of the work when a job is placed; never all of it: predicted run times are above 0
_DONE: Final = "CASE WHEN d.resumed THEN least(j.progress, 0.999) ELSE 0.0 END"
_IS_WAITING: Final = without_index("j.state IN ('submitted', 'queued') AND NOT j.held")


def send_to_profiling(
    job_ids: Sequence[UUID], *, agent: str, profiled: Sequence[UUID] = ()
) -> None:
    """Let jobs wait until their application is profiled.

    Parameters
    ----------
    job_ids : jobs of applications without a profile
    profiled : jobs whose application was profiled meanwhile; agents may claim them again at once
    """
    with transaction.atomic():
        lock_jobs([*job_ids, *profiled])
        release_claims(profiled, agent=agent)
        rows = advance(
            job_ids,
            to=JobState.PROFILING,
            reason=Reason.WAITING_FOR_PROFILE,
            only_from={JobState.SUBMITTED, JobState.QUEUED},
            claimed_by=agent,
        )
        record_events([row_event("job.profiling", row) for row in rows])


def queue_profiled(application_id: UUID) -> int:
    """Queue the jobs that waited for the profile of an application; returns their number."""
    with transaction.atomic():
        now_s = cluster_now()
        waiting = Job.objects.filter(application=application_id, state=JobState.PROFILING)
        lock_jobs(waiting.values_list("id", flat=True))
        rows = fetch_rows(
            """UPDATE workloads_job
               SET state = 'queued', profiled_s = %s, queued_s = %s, updated_at = now(),
                   reason_code = CASE WHEN held THEN reason_code ELSE %s END,
                   reason_message = '', claimed_by = '', claimed_until = NULL,
                   generation = generation + 1
               WHERE application_id = %s AND state = 'profiling'
               RETURNING id, name, project_id, state""",
            [now_s, now_s, Reason.WAITING_FOR_AGENT, application_id],
        )
        record_events([row_event("job.queued", row) for row in rows])
    return len(rows)


def fail_waiting(job_ids: Sequence[UUID], *, reason: Reason, message: str, agent: str = "") -> int:
    """Fail waiting jobs that can never start; returns their number.

    An agent fails only jobs that it has claimed.
    """
    with transaction.atomic():
        rows = advance(
            job_ids,
            to=JobState.FAILED,
            reason=reason,
            message=message,
            only_from=WAITING_STATES,
            claimed_by=agent,
        )
        record_events([row_event("job.failed", row, reason=reason) for row in rows])
    return len(rows)
