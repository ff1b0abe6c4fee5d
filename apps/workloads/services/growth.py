"""Running jobs that lack units: claims of agents, and the units that they are given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction

from apps.common.infrastructure.database import database_now, fetch_rows, without_index
from apps.operations.services import NewEvent, record_events
from apps.workloads.services.rows import lock_jobs
from apps.workloads.services.waiting import CLAIM_S

RETRY_S: Final = 0.5  # wall seconds until a job is evaluated again that got no unit
STOPPED_S: Final = 86_400.0  # wall seconds, in which every backend has stopped a job

_CLAIM: Final = """
UPDATE workloads_job SET claimed_by = %(agent)s, claimed_until = %(until)s
WHERE id = ANY(ARRAY(
    SELECT id FROM workloads_job
    WHERE state IN ('starting', 'running') AND units_missing > 0 AND NOT cancel_requested
      AND (claimed_until IS NULL OR claimed_until < %(now)s)
      AND (placed_at, id) > (%(placed_at)s, %(after)s)
    ORDER BY placed_at, id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED))
RETURNING placed_at, id
"""
BEFORE_ALL: Final = (datetime.min.replace(tzinfo=UTC), UUID(int=0))


@dataclass(slots=True)
class GrowthRound:
    """Position of an agent among the running jobs that lack units, the longest placed first.

    A round ends with the last of them, so that jobs that get no unit do not hold up the others.

    ``after`` : when the last claimed job was placed, and its id
    """

    after: tuple[datetime, UUID] = BEFORE_ALL


def claim_incomplete(*, agent: str, limit: int, position: GrowthRound | None = None) -> list[UUID]:
    """Claim the next jobs of a round that run with fewer units than they need.

    Moves the position on; back to the start after the last job. Without one, starts a round.
    """
    position = position or GrowthRound()
    placed_at, after = position.after
    now = database_now()
    values = {"agent": agent, "now": now, "limit": limit, "placed_at": placed_at, "after": after}
    until = now + timedelta(seconds=CLAIM_S)
    found = sorted(fetch_rows(_CLAIM, {**values, "until": until}))
    position.after = found[-1] if len(found) == limit else BEFORE_ALL
    return [job for _, job in found]


def postpone_growth(job_ids: Sequence[UUID], *, agent: str) -> None:
    """Release the claims of jobs that got no unit; they are evaluated again after a moment."""
    if not job_ids:
        return
    with transaction.atomic():
        lock_jobs(job_ids)
        fetch_rows(
            f"""UPDATE workloads_job SET claimed_by = '',
                      claimed_until = clock_timestamp() + make_interval(secs => %s)
               WHERE id = ANY(%s) AND claimed_by = %s
                 AND {without_index("state IN ('starting', 'running')")}
               RETURNING id""",  # noqa: S608 - a constant
            [RETRY_S, sorted(job_ids), agent],
        )


def end_growth(job_ids: Sequence[UUID]) -> None:
    """Keep agents from adding units to locked jobs that are being stopped.

    They stay claimed by nobody until they have stopped: each end of a launch releases its job.
    """
    fetch_rows(
        f"""UPDATE workloads_job SET claimed_by = '',
                  claimed_until = clock_timestamp() + make_interval(secs => %s)
           WHERE id = ANY(%s) AND {without_index("state IN ('starting', 'running')")}
             AND units_missing > 0
           RETURNING id""",  # noqa: S608 - a constant
        [STOPPED_S, sorted(job_ids)],
    )


# cluster seconds that a predicted run loses: of those left, the part of the new units
_FASTER: Final = """greatest(0.0,
    j.{end} - greatest(0.0, %(now_s)s - j.started_s - j.suspended_for_s)
) * d.units / (j.units + d.units)"""
_GROW: Final = f"""
UPDATE workloads_job AS j
SET units = j.units + d.units, units_missing = j.units_missing - d.units,
    units_pending = j.units_pending + d.units, updated_at = now(),
    claimed_by = '', claimed_until = NULL, generation = j.generation + 1,
    run_s = j.run_s - {_FASTER.format(end="run_s")},
    run_high_s = j.run_high_s - {_FASTER.format(end="run_high_s")}
FROM unnest(%(ids)s::uuid[], %(units)s::int[]) AS d(id, units)
WHERE j.id = d.id AND {without_index("j.state IN ('starting', 'running')")}
  AND j.claimed_by = %(agent)s
  AND j.units_missing >= d.units
RETURNING j.id
"""  # noqa: S608 - constants


def grow_jobs(given: Mapping[UUID, int], *, agent: str, cluster_s: float) -> set[UUID]:
    """Count units that claimed running jobs were given, and predict how long they run with them.

    Returns the ids of the jobs that changed. Records no event: the caller calls `record_given`
    last in the transaction.
    """
    if not given:
        return set()
    ids = sorted(given)
    units = [given[job] for job in ids]
    values = {"ids": ids, "units": units, "agent": agent, "now_s": cluster_s}
    return {job for (job,) in fetch_rows(_GROW, values)}


def record_given(jobs: Sequence[tuple[UUID, str, UUID, UUID, int]]) -> None:
    """Record (job, name, project, decision id, units) as grown; call it last."""
    record_events(
        [
            NewEvent(
                topic="jobs", kind="job.grown", subject=str(job), project_id=project,
                data={"name": name, "units": units, "decision": str(decision)},
            )
            for job, name, project, decision, units in jobs
        ]
    )  # fmt: skip


def record_grown(running: Mapping[UUID, int], *, at_s: float) -> None:
    """Store the number of units that the backend of each job uses from now on.

    Runs in the transaction of the report; units that were given meanwhile stay pending.
    """
    ids = sorted(running)
    lock_jobs(ids)
    fetch_rows(
        f"""UPDATE workloads_job AS j
           SET units_pending = greatest(0, j.units - d.units), grown_s = %s, updated_at = now()
           FROM unnest(%s::uuid[], %s::int[]) AS d(id, units)
           WHERE j.id = d.id AND {without_index("j.state = 'running'")}
           RETURNING j.id""",  # noqa: S608 - a constant
        [at_s, ids, [running[job] for job in ids]],
    )
