"""What running jobs of Slurm use, as samples of their jobs: `sstat` sums since the start."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from django.db import transaction

from apps.common.infrastructure.database import fetch_rows
from apps.execution.core.slurm.usage import Usage
from apps.execution.models import JobSample
from apps.execution.models import SlurmJob as SlurmRow
from apps.inventory.selectors import cluster_now

# `sstat` repeats itself until Slurm samples again (JobAcctGatherFrequency, 30 s by default)
UNCHANGED_S: Final = 60.0  # cluster seconds after which equal sums mean that a job used nothing
# the last sample of a job, and the units that it holds
_RUNNING: Final = """
SELECT j.id, j.started_s, held.units,
       (SELECT max(s.cluster_s) FROM execution_jobsample s WHERE s.job_id = j.id)
FROM workloads_job j
JOIN LATERAL (SELECT sum(a.cores) AS units FROM scheduling_allocation a
    WHERE a.job_id = j.id AND a.released_seq IS NULL) held ON held.units > 0
WHERE j.id = ANY(%s) AND j.state = 'running'
"""


def record_usage(usage: Mapping[int, Usage]) -> None:
    """Store what jobs have used so far, and a sample of what they used since the last one.

    ``memory_bytes`` of a sample is the most memory of one task so far; Slurm reports no other.
    """
    with transaction.atomic():
        rows = list(
            SlurmRow.objects.select_for_update(of=("self",))
            .filter(slurm_id__in=usage, is_open=True)
            .order_by("pk")
        )
        held = {row[0]: row[1:] for row in fetch_rows(_RUNNING, [[row.job_id for row in rows]])}
        now_s = cluster_now()
        samples = [_sample(row, usage[row.slurm_id], held, now_s) for row in rows]
        for row in rows:
            row.cpu_s = usage[row.slurm_id].cpu_s
            row.max_rss_bytes = usage[row.slurm_id].max_rss_bytes
        SlurmRow.objects.bulk_update(rows, ["cpu_s", "max_rss_bytes"])
        JobSample.objects.bulk_create(sample for sample in samples if sample is not None)


def _sample(
    row: SlurmRow, found: Usage, held: Mapping[UUID, tuple[float, int, float | None]], now_s: float
) -> JobSample | None:
    """Return the sample of a job; None if it does not run in Berth, or Slurm has no new sum."""
    if row.job_id not in held:
        return None
    started_s, units, last_s = held[row.job_id]
    before_s, since_s = row.cpu_s, last_s
    if before_s is None or since_s is None or since_s < started_s or found.cpu_s < before_s:
        before_s, since_s = 0.0, started_s  # its first sample since Slurm started it
    if now_s <= since_s or (found.cpu_s == before_s and now_s < since_s + UNCHANGED_S):
        return None
    return JobSample(
        job_id=row.job_id,
        cluster_s=now_s,
        cpu_share=min(1.0, (found.cpu_s - before_s) / (units * (now_s - since_s))),
        memory_bytes=found.max_rss_bytes or None,
    )
