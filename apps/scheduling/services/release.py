"""Giving units back: the mirror of the commit."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from django.db import connection
from django.utils import timezone

from apps.common.poke import poke
from apps.inventory.models import ChangeKind
from apps.inventory.selectors import cluster_clock
from apps.inventory.services import NewChange, append_changes

AGENT_TASK: Final = "scheduling.agent"
AGENT_QUEUE: Final = "agents"

_HELD: Final = """
SELECT id, server_id, unit_ids, cores, memory_bytes, network_bps, storage_bytes
FROM scheduling_allocation WHERE job_id = ANY(%s) AND released_seq IS NULL ORDER BY id FOR UPDATE
"""
_GIVE_BACK: Final = """
UPDATE inventory_server AS s SET used_cores = used_cores - d.cores,
       used_memory_bytes = used_memory_bytes - d.memory,
       used_network_bps = used_network_bps - d.network,
       used_storage_bytes = used_storage_bytes - d.storage
FROM (SELECT server_id, sum(cores) AS cores, sum(memory_bytes) AS memory,
             sum(network_bps) AS network, sum(storage_bytes) AS storage
      FROM scheduling_allocation WHERE id = ANY(%s) GROUP BY server_id) AS d
WHERE s.id = d.server_id
"""


def release(job_ids: Sequence[UUID]) -> int:
    """Give back all units of these jobs; returns how many allocations ended.

    In the caller's transaction, which has locked the jobs (by ending them). Only the events may be
    written after it.
    """
    if not job_ids:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_HELD, [sorted(job_ids)])
        held = cursor.fetchall()
        if not held:
            return 0
        allocations = [row[0] for row in held]
        units = sorted(unit for row in held for unit in row[2])
        cursor.execute(
            "SELECT FROM inventory_resourceunit WHERE id = ANY(%s) ORDER BY id FOR UPDATE",
            [units],
        )
        cursor.execute(
            "SELECT FROM inventory_server WHERE id = ANY(%s) ORDER BY id FOR UPDATE",
            [sorted({row[1] for row in held})],
        )
        cursor.execute(
            """UPDATE inventory_resourceunit SET allocation_id = NULL, version = version + 1
               WHERE id = ANY(%s) AND allocation_id = ANY(%s)""",
            [units, allocations],
        )
        cursor.execute(_GIVE_BACK, [allocations])
        now = timezone.now()
        cluster_s = cluster_clock().at(now.timestamp())
        changes = [
            NewChange(ChangeKind.RELEASE, server, allocation, unit_ids)
            for allocation, server, unit_ids, *_ in held
        ]
        numbers = append_changes(changes, at=now, cluster_s=cluster_s)
        cursor.execute(
            """UPDATE scheduling_allocation AS a
               SET released_seq = d.seq, released_at = %s, released_s = %s
               FROM unnest(%s::bigint[], %s::bigint[]) AS d(id, seq) WHERE a.id = d.id""",
            [now, cluster_s, allocations, list(numbers)],
        )
    poke(AGENT_TASK, queue=AGENT_QUEUE)
    return len(held)
