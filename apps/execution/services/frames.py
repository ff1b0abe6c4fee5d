"""Frames of the time-lapse: the state of the cluster once per cluster minute."""

from datetime import timedelta
from typing import Final

import numpy as np

from apps.common.infrastructure.database import database_now, fetch_rows
from apps.execution.services.frame_gaps import (
    FRAME_S,
    Allocated,
    half_percents,
    missed_frames,
)
from apps.execution.services.recovery import SILENT_S
from apps.inventory import services as inventory
from apps.inventory.models import ClusterFrame
from apps.inventory.selectors import cluster_now, log_position
from apps.workloads.selectors import job_counts

_SERVERS: Final = """
SELECT s.id, s.cores, s.used_cores, r.cpu_share, r.memory_share, r.watts
FROM inventory_server s
LEFT JOIN inventory_serverreading r ON r.server_id = s.id AND r.at >= %s AND s.state <> 'down'
ORDER BY s.id
"""
_TARGETS: Final = """
SELECT count(*) FILTER (WHERE attainment >= 1), count(*) FROM workloads_job
WHERE state = 'running' AND attainment IS NOT NULL
"""
_WAITING_BY_REASON: Final = """
SELECT reason_code, count(*) FROM workloads_job
WHERE state IN ('submitted', 'profiling', 'queued') GROUP BY reason_code
"""


def store_frame() -> bool:
    """Store the frame of this cluster minute, and those missed since the last one.

    Returns False if the frame exists or there are no servers. ``facts`` of a frame: ``jobs`` by
    state, ``targets`` (met and measured, of running jobs), ``waiting`` jobs by reason, the
    ``log_position`` of the change log, and ``filled`` if it was missed.
    """
    now = database_now()
    minute_s = FRAME_S * (cluster_now() // FRAME_S)
    if ClusterFrame.objects.filter(cluster_s=minute_s).exists():
        return False
    position = log_position()
    servers = fetch_rows(_SERVERS, [now - timedelta(seconds=SILENT_S)])
    if not servers:
        return False
    columns = [np.array([row[i] for row in servers], dtype=np.float64) for i in range(1, 6)]
    cores, used, cpu, memory, watts = columns
    known = ~np.isnan(cpu)
    ((met, measured),) = fetch_rows(_TARGETS)
    facts = {
        "jobs": dict(job_counts(None).by_state),
        "targets": {"met": met, "measured": measured},
        "waiting": {reason or "None": count for reason, count in fetch_rows(_WAITING_BY_REASON)},
        "log_position": position,
    }
    known_cores = float(cores[known].sum())
    frame = ClusterFrame(
        at=now,
        cluster_s=minute_s,
        server_cpu=half_percents(cpu),
        server_allocated=half_percents(used / cores),
        servers=len(servers),
        units=int(cores.sum()),
        units_allocated=int(used.sum()),
        cpu_share=float((cpu * cores)[known].sum() / known_cores) if known_cores else 0.0,
        memory_share=float((memory * cores)[known].sum() / known_cores) if known_cores else 0.0,
        watts=float(np.nansum(watts)),
        servers_on=int(known.sum()),
        facts=facts,
    )
    ids = np.array([row[0] for row in servers], dtype=np.int64)
    inventory.record_frames([*_missed(Allocated(now, minute_s, ids, cores, used)), frame])
    return True


def _missed(now: Allocated) -> list[ClusterFrame]:
    last = ClusterFrame.objects.filter(cluster_s__lt=now.cluster_s).order_by("cluster_s").last()
    return [] if last is None else missed_frames(last, now)
