"""Reads for preemptions: the running jobs of lower priority, with what they hold."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from apps.common.infrastructure.database import fetch_rows
from apps.inventory.core.backends import Capability, backends_with
from apps.scheduling.core.promises import RunningJob

_PREEMPTIBLE: Final = """
SELECT j.id, j.name, p.name, a.name, j.priority, l.id, l.backend = ANY(%(resume)s), j.target,
       j.submitted_s, j.started_s, j.progress, j.run_high_s,
       (SELECT max(s.cluster_s) FROM execution_jobsample s WHERE s.job_id = j.id)
FROM execution_launch l
JOIN workloads_job j ON j.id = l.job_id
JOIN accounts_project p ON p.id = j.project_id
JOIN workloads_application a ON a.id = j.application_id
WHERE l.state = 'running' AND NOT l.cancel_requested AND l.backend = ANY(%(requeue)s)
  AND j.state = 'running' AND NOT j.cancel_requested AND j.priority < %(priority)s
  AND NOT EXISTS (SELECT FROM execution_migration m
                  WHERE m.job_id = j.id AND m.state IN ('requested', 'running'))
ORDER BY j.id
"""
_HELD: Final = """
SELECT job_id, server_id, unit_ids, memory_bytes, network_bps, storage_bytes
FROM scheduling_allocation WHERE job_id = ANY(%s) AND released_seq IS NULL ORDER BY id
"""
_STOPPING: Final = """
SELECT count(*) FROM scheduling_reservation r, execution_launch l
JOIN scheduling_allocation a ON a.job_id = l.job_id AND a.released_seq IS NULL
WHERE r.job_id = %s AND l.state IN ('requested', 'running') AND l.cancel_requested
  AND a.unit_ids && r.unit_ids
"""


class HeldPart(NamedTuple):
    """Units and resources that a job holds on a server."""

    server: int
    units: Sequence[int]
    memory_bytes: int
    network_bps: int
    storage_bytes: int


@dataclass(frozen=True, slots=True)
class PreemptibleJob:
    """A running job that may be preempted."""

    id: UUID
    name: str
    project: str
    application: str
    priority: int
    launch: int
    run: RunningJob
    held: tuple[HeldPart, ...]


def preemptible_jobs(priority: int) -> list[PreemptibleJob]:
    """Return the running jobs below a priority that their backend can stop and start again.

    Jobs that start, migrate or are being stopped are left out.
    """
    rows = fetch_rows(
        _PREEMPTIBLE,
        {
            "priority": priority,
            "requeue": sorted(backends_with(Capability.REQUEUE)),
            "resume": sorted(backends_with(Capability.RESUME)),
        },
    )
    held: dict[UUID, list[HeldPart]] = defaultdict(list)
    for job, *part in fetch_rows(_HELD, [[row[0] for row in rows]]):
        held[job].append(HeldPart(*part))
    jobs = []
    for job, name, project, application, job_priority, launch, resumes, *run in rows:
        target, submitted_s, started_s, progress, run_high_s, reported_s = run
        parts = tuple(held[job])
        saved_s = max(started_s, reported_s or started_s) if resumes else started_s
        running = RunningJob(
            target=json.loads(target),
            units=sum(len(part.units) for part in parts),
            submitted_s=submitted_s,
            started_s=started_s,
            saved_s=saved_s,
            progress=progress,
            run_high_s=run_high_s,
        )
        jobs.append(
            PreemptibleJob(job, name, project, application, job_priority, launch, running, parts)
        )
    return jobs


def victims_are_stopping(job_id: UUID) -> bool:
    """Return True if jobs are being stopped whose units are reserved for a job."""
    rows = fetch_rows(_STOPPING, [job_id])
    return bool(rows[0][0])
