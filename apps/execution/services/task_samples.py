"""Samples of commands: what their processes use, and the progress that they report."""

import json
from collections.abc import Sequence
from typing import Final

from apps.common.infrastructure.database import fetch_rows
from apps.execution.core.agent.wire import TaskSample
from apps.execution.models import JobSample, ServerAgent
from apps.execution.services.agents import fenced
from apps.inventory.core.backends import AGENT
from apps.inventory.selectors import cluster_time
from apps.workloads import services as workloads
from apps.workloads.core.attainment import Performance, attainment, performance_in_unit

_RUNNING: Final = """
SELECT l.id, j.id, j.target, j.submitted_s, held.units::float8 / s.cores
FROM execution_launch l
JOIN workloads_job j ON j.id = l.job_id AND j.state = 'running'
JOIN inventory_server s ON s.id = %s
JOIN LATERAL (SELECT sum(a.cores) AS units FROM scheduling_allocation a
    WHERE a.job_id = j.id AND a.server_id = s.id AND a.released_seq IS NULL
      AND (a.moved_from IS NULL OR a.moved_s IS NOT NULL)) held
    ON held.units > 0
WHERE l.id = ANY(%s) AND l.backend = %s AND l.state = 'running'
"""


def record_samples(agent: ServerAgent, epoch: int, samples: Sequence[TaskSample]) -> None:
    """Record samples of launches that run on the server of an agent; ignore all others.

    A command that reports no progress has no performance.

    Raises
    ------
    SupersededError : the agent has been fenced.
    """
    if not samples:
        return
    by_launch = {sample.launch: sample for sample in samples}
    now = cluster_time()
    with fenced(agent, epoch):
        reports, rows = [], []
        for launch, job, target_json, submitted_s, share in fetch_rows(
            _RUNNING, [agent.server_id, list(by_launch), AGENT]
        ):
            sample = by_launch[launch]
            row = JobSample(
                job_id=job,
                cluster_s=now.cluster_s,
                cpu_share=sample.cpu_share,
                run_wait=sample.run_wait,
                blocked=sample.blocked,
                memory_bytes=sample.memory_bytes,
                cpu_pressure=sample.cpu_pressure,
                memory_pressure=sample.memory_pressure,
                io_pressure=sample.io_pressure,
                disk_wait=of_full_server(sample.disk_wait, share),
                network_wait=of_full_server(sample.network_wait, share),
            )
            rows.append(row)
            row.progress = sample.progress
            if sample.progress is None or not sample.progress_per_s or now.speed <= 0.0:
                continue
            target, elapsed_s = json.loads(target_json), now.cluster_s - submitted_s
            # the agent counts wall seconds
            found = Performance(sample.progress, sample.progress_per_s / now.speed)
            row.performance = performance_in_unit(target, found, elapsed_s=elapsed_s)
            row.attainment = attainment(target, found, elapsed_s=elapsed_s)
            reports.append(
                workloads.ProgressReport(
                    job, now.cluster_s, sample.progress, row.performance, row.attainment
                )
            )
        workloads.report_progress(reports)
        JobSample.objects.bulk_create(rows)


def of_full_server(waited: float | None, share: float) -> float | None:
    """Share of time that a server full of such tasks would wait, at most 1; None if not known.

    Parameters
    ----------
    waited : share of time that the task waited
    share : of the units of the server that it holds, > 0
    """
    return None if waited is None else min(1.0, waited / share)
