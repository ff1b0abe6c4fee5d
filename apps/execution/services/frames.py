"""Frames of the time-lapse: the state of the cluster in each cluster minute."""

import time
from typing import Final

from apps.common.infrastructure.database import database_now, fetch_rows
from apps.execution.services.frame_gaps import (
    FRAME_S,
    Allocated,
    half_percents,
    missed_frames,
)
from apps.inventory import services as inventory
from apps.inventory.core.usage import usage_totals
from apps.inventory.models import ClusterFrame
from apps.inventory.selectors import cluster_now, log_position, server_usage
from apps.workloads.selectors import job_counts

MAX_SHARE: Final = 0.02  # of wall time for reading frames
MAX_PAUSE_S: Final = 10.0  # wall seconds between two frames, however long one takes
_TARGETS: Final = """
SELECT count(*) FILTER (WHERE attainment >= 1), count(*) FROM workloads_job
WHERE state = 'running' AND attainment IS NOT NULL
"""
_WAITING_BY_REASON: Final = """
SELECT reason_code, count(*) FROM workloads_job
WHERE state IN ('submitted', 'profiling', 'queued') GROUP BY reason_code
"""


def store_due_frame() -> bool:
    """Store a frame, unless reading frames would then take more than `MAX_SHARE` of the wall time.

    A frame reads all servers, so a large cluster whose time runs fast has no frame for some
    minutes; the next frame fills them, unless servers were added or removed meanwhile. If reading
    takes longer than `MAX_SHARE` of `MAX_PAUSE_S`, a frame is stored once in `MAX_PAUSE_S`.
    Returns whether a frame was stored.
    """
    last = ClusterFrame.objects.order_by("cluster_s").only("at", "facts").last()
    if last is not None:
        pause_s = min(MAX_PAUSE_S, last.facts.get("read_s", 0.0) / MAX_SHARE)
        if 0.0 <= (database_now() - last.at).total_seconds() < pause_s:
            return False
    return store_frame()


def store_frame() -> bool:
    """Store the frame of this cluster minute, and those missed since the last one.

    Returns False if the frame exists or there are no servers. ``facts`` of a frame: ``jobs`` by
    state, ``targets`` (met and measured, of running jobs), ``waiting`` jobs by reason, the
    ``log_position`` of the change log, ``read_s`` (wall seconds to read it), and ``filled`` if it
    was missed.
    """
    began = time.perf_counter()
    now = database_now()
    minute_s = FRAME_S * (cluster_now() // FRAME_S)
    if ClusterFrame.objects.filter(cluster_s=minute_s).exists():
        return False
    position = log_position()
    servers = server_usage(now=now)
    if not servers.ids.size:
        return False
    usage = usage_totals(servers)
    ((met, measured),) = fetch_rows(_TARGETS)
    facts = {
        "jobs": dict(job_counts(None).by_state),
        "targets": {"met": met, "measured": measured},
        "waiting": {reason or "None": count for reason, count in fetch_rows(_WAITING_BY_REASON)},
        "log_position": position,
        "read_s": time.perf_counter() - began,
    }
    frame = ClusterFrame(
        at=now,
        cluster_s=minute_s,
        server_cpu=half_percents(servers.cpu),
        server_allocated=half_percents(servers.allocated / servers.cores),
        servers=usage.servers,
        units=usage.units,
        units_allocated=usage.units_allocated,
        cpu_share=usage.cpu_share if usage.reporting else 0.0,
        memory_share=usage.memory_share if usage.reporting else 0.0,
        watts=usage.watts,
        servers_on=usage.reporting,
        facts=facts,
    )
    allocated = Allocated(now, minute_s, servers.ids, servers.cores, servers.allocated)
    inventory.record_frames([*_missed(allocated), frame])
    return True


def _missed(now: Allocated) -> list[ClusterFrame]:
    last = ClusterFrame.objects.filter(cluster_s__lt=now.cluster_s).order_by("cluster_s").last()
    return [] if last is None else missed_frames(last, now)
