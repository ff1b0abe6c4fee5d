"""What Berth knows of the jobs of Slurm."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from apps.common.infrastructure.database import fetch_rows
from apps.execution.core.migration import TO_RESTART
from apps.execution.core.slurm.reconcile import Known
from apps.workloads.core.lifecycle import JobState, Suspension

_KNOWN: Final = """
SELECT s.slurm_id, j.id, l.id, j.state,
       j.cancel_requested OR coalesce(l.cancel_requested AND l.message <> %s, false),
       s.pinned, v.name,
       coalesce(l.state = 'running', false), coalesce(v.state IN ('draining', 'down'), false),
       j.suspension, coalesce(l.cancel_requested AND l.message = %s, false)
FROM execution_slurmjob s
JOIN workloads_job j ON j.id = s.job_id
LEFT JOIN execution_launch l ON l.job_id = j.id AND l.state IN ('requested', 'running')
LEFT JOIN inventory_server v ON v.id = (l."order"->'parts'->0->>0)::bigint
WHERE s.is_open ORDER BY s.slurm_id
"""


@dataclass(frozen=True, slots=True)
class KnownJob:
    """One open job of Slurm in Berth; ``launch`` is its live launch."""

    slurm_id: int
    job: UUID
    launch: int | None
    known: Known


def known_jobs() -> dict[int, KnownJob]:
    """Return the open jobs by their ids in Slurm."""
    return {row[0]: _known_job(row) for row in fetch_rows(_KNOWN, [TO_RESTART, TO_RESTART])}


def _known_job(row: tuple[Any, ...]) -> KnownJob:
    slurm_id, job, launch, state, stop, pinned, node, *flags, suspension, restarts = row
    is_running, is_closed = flags
    return KnownJob(
        slurm_id,
        job,
        launch,
        Known(
            state=JobState(state),
            stop=stop,
            pinned=pinned,
            node=node,
            is_running=is_running,
            is_closed=is_closed,
            suspension=Suspension(suspension),
            restarts=restarts,
        ),
    )
