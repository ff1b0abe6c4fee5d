"""Reads of execution: migrations, and what containers were seen to use."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import numpy as np
from django.db import connection
from django.db.models import QuerySet

from apps.execution.models import Migration, MigrationState
from apps.inventory.core.snapshot import Floats

OPEN: Final = (MigrationState.REQUESTED, MigrationState.RUNNING)


def open_migrations() -> QuerySet[Migration]:
    """Migrations asked for or under way, oldest first."""
    return Migration.objects.filter(state__in=OPEN).order_by("id")


def migrations(ids: Iterable[int]) -> dict[int, Migration]:
    """Migrations by id."""
    return Migration.objects.in_bulk(list(ids))


def migrations_of(job_id: UUID) -> QuerySet[Migration]:
    """Migrations of a job, newest first."""
    return Migration.objects.filter(job=job_id).order_by("-id")


@dataclass(frozen=True, slots=True, eq=False)
class ContainerMetrics:
    """What the units of J jobs were seen to use, per unit of each.

    Attributes
    ----------
    job_id : J ids, ascending
    memory_rate : (J,) off-chip requests/s
    network_wait, disk_wait : (J,) share of time spent waiting for packets, or for the disk, were a
        whole server of such units at work, 0-1
    traffic_bps : (J,) bits/s exchanged with other parts, or tasks, of the job
    reports : (J,) how many reports they are the mean of; where 0, all of these are NaN
    """

    job_id: tuple[UUID, ...]
    memory_rate: Floats
    network_wait: Floats
    disk_wait: Floats
    traffic_bps: Floats
    reports: Floats


# one look into the index of each job's reports; all reports of a window would be a scan
_METRICS: Final = """
SELECT j.id, s.memory_rate, s.network_wait, s.disk_wait, s.traffic_bps, s.reports
FROM workloads_job j
CROSS JOIN LATERAL (
    SELECT avg(memory_rate) AS memory_rate, avg(network_wait) AS network_wait,
           avg(disk_wait) AS disk_wait, avg(traffic_bps) AS traffic_bps,
           count(memory_rate)::float8 AS reports
    FROM execution_jobsample
    WHERE job_id = j.id AND cluster_s >= %s AND cluster_s < %s) s
WHERE {jobs} ORDER BY j.id
"""
_OF_RUNNING: Final = _METRICS.format(jobs="j.state = 'running'")
_OF_THESE: Final = _METRICS.format(jobs="j.id = ANY(%s)")


def container_metrics(
    job_ids: Sequence[UUID] | None = None, *, since_s: float, until_s: float
) -> ContainerMetrics:
    """Mean of what monitors reported of jobs in a window of cluster time, noise averaged out.

    A container, the units of a job on one server, has these times its units over those of the
    server. Cost: one statement, 20-40 µs a job with eleven reports each.

    Parameters
    ----------
    job_ids : whose; None = of all that run now. What does not exist is left out
    since_s, until_s : of the window, its end excluded
    """
    window: list[Any] = [since_s, until_s]
    with connection.cursor() as cursor:
        if job_ids is None:
            cursor.execute(_OF_RUNNING, window)
        else:
            cursor.execute(_OF_THESE, [*window, list(job_ids)])
        rows = cursor.fetchall()
    values = np.array([row[1:] for row in rows], dtype=np.float64).reshape(-1, 5)
    return ContainerMetrics(tuple(row[0] for row in rows), *values.T)
