"""Giving units back: the mirror of the commit."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.utils import timezone

from apps.common.poke import poke
from apps.inventory.selectors import cluster_clock
from apps.scheduling.services.holding import Held, give_back

AGENT_TASK: Final = "scheduling.agent"
AGENT_QUEUE: Final = "agents"

_HELD: Final = """
SELECT id, server_id, unit_ids FROM scheduling_allocation
WHERE {of} = ANY(%s) AND released_seq IS NULL ORDER BY id FOR UPDATE
"""
_OF_JOBS: Final = _HELD.format(of="job_id")
_ITSELF: Final = _HELD.format(of="id")


def release(job_ids: Sequence[UUID]) -> int:
    """Give back all units of these jobs; returns how many allocations ended.

    In the caller's transaction, which has locked the jobs (by ending them). Only the events may be
    written after it.
    """
    return _release(_OF_JOBS, job_ids)


def release_allocations(allocation_ids: Sequence[int]) -> int:
    """Give back what these allocations hold; returns how many of them were live.

    As `release`: the caller's transaction has locked their jobs, and writes only events after it.
    """
    return _release(_ITSELF, allocation_ids)


def _release(held: str, keys: Sequence[Any]) -> int:
    if not keys:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(held, [sorted(keys)])
        rows = [Held(*row) for row in cursor.fetchall()]
    if rows:
        now = timezone.now()
        give_back(rows, at=now, cluster_s=cluster_clock().at(now.timestamp()))
        poke(AGENT_TASK, queue=AGENT_QUEUE)
    return len(rows)
