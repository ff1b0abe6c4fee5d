"""Release of allocations."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from apps.common.infrastructure.database import fetch_rows, number_array, without_index
from apps.common.infrastructure.notifications import notify
from apps.inventory.selectors import cluster_time
from apps.inventory.services import Usage
from apps.scheduling.services.allocation_store import LiveAllocation, end_allocations

AGENT_TASK: Final = "scheduling.agent"
AGENT_QUEUE: Final = "agents"

_IS_LIVE: Final = without_index("released_seq IS NULL")
_LIVE: Final = f"""
SELECT id, unit_ids, server_id, cores, memory_bytes, network_bps, storage_bytes
FROM scheduling_allocation
WHERE id = ANY({{ids}}) AND {_IS_LIVE} ORDER BY id FOR UPDATE
"""  # noqa: S608 - a constant
# one look-up for each job, as the planner cannot estimate how many allocations it has
_BY_JOB: Final = _LIVE.format(
    ids=f"""ARRAY(
    SELECT a.id FROM unnest(%s::uuid[]) AS d(job), LATERAL (
        SELECT id FROM scheduling_allocation
        WHERE job_id = d.job AND {_IS_LIVE} OFFSET 0) a)"""  # noqa: S608 - a constant
)  # fmt: skip
_BY_ID: Final = _LIVE.format(ids="%s")


def release(job_ids: Sequence[UUID]) -> int:
    """Release all units of jobs; returns the number of allocations that ended.

    Runs in the caller's transaction, which has locked the jobs by ending them. Afterwards, only
    events may be written.
    """
    return _release(_BY_JOB, job_ids)


def release_allocations(allocation_ids: Sequence[int]) -> int:
    """Release live allocations; returns their number.

    As for `release`, the caller has locked their jobs and writes only events afterwards.
    """
    return _release(_BY_ID, allocation_ids)


def _release(select: str, keys: Sequence[Any]) -> int:
    if not keys:
        return 0
    rows = [
        LiveAllocation(allocation, units, Usage(*usage))
        for allocation, units, *usage in fetch_rows(select, [number_array(sorted(keys))])
    ]
    if rows:
        now = cluster_time()
        end_allocations(rows, at=now.at, cluster_s=now.cluster_s)
        notify(AGENT_TASK, queue=AGENT_QUEUE)
    return len(rows)
