"""What a front covers: its moments, its containers that still run, and its drift."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from django.core.cache import cache

from apps.common.infrastructure.database import fetch_rows
from apps.inventory.core.snapshot import Floats
from apps.inventory.models import ClusterFrame
from apps.inventory.selectors import cluster_now
from apps.placement.core.front.mix import DRIFT_LIMIT, Mix, drift, mix
from apps.placement.core.front.validity import (
    ContainerSpan,
    change_by_lag,
    mix_at,
    seconds_left,
)
from apps.placement.models import Front, FrontSource
from apps.placement.selectors.fronts import container_ids
from apps.scheduling.models import Allocation

STEP_S: Final = 300.0  # cluster seconds between two mixes
MAX_STEPS: Final = 36  # the last three hours
_CACHED_S: Final = 30  # wall time: the measured change is the same for all fronts
_CHANGE_KEY: Final = "placement.mix_change"

_CONTAINERS: Final = """
SELECT a.job_id, coalesce(c.is_taz, false), coalesce(c.communication, 0), count(*)
FROM scheduling_allocation a
JOIN workloads_job j ON j.id = a.job_id AND j.state = 'running' AND NOT j.cancel_requested
LEFT JOIN placement_containerclass c ON c.allocation_id = a.id
WHERE a.released_seq IS NULL AND (a.moved_from IS NULL OR a.moved_s IS NOT NULL)
GROUP BY 1, 2, 3
"""
# containers of running jobs, and of jobs that ended since
_SPANS: Final = """
SELECT a.job_id, coalesce(c.is_taz, false), coalesce(c.communication, 0),
       greatest(a.acquired_s, coalesce(j.started_s, a.acquired_s), coalesce(a.moved_s, 0)),
       coalesce(a.released_s, 'infinity')
FROM workloads_job j
JOIN scheduling_allocation a ON a.job_id = j.id
LEFT JOIN placement_containerclass c ON c.allocation_id = a.id
WHERE (j.state = 'running' OR j.finished_at >= %s) AND j.started_s IS NOT NULL
  AND (a.moved_from IS NULL OR a.moved_s IS NOT NULL)
"""
_NODES: Final = """
SELECT idle_watts, peak_watts, count(*) FROM inventory_server GROUP BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class FrontDrift:
    """Share of the mix that changed since a front was computed, and its limit."""

    share: float
    limit: float
    sentence: str


def front_drift(front: Front) -> FrontDrift | None:
    """Compare the cluster with the workload of a front; None if it was a submitted instance."""
    if front.source != FrontSource.CLUSTER or not front.mix:
        return None
    change = drift(front.mix, running_mix())
    return FrontDrift(
        change.share,
        DRIFT_LIMIT,
        f"{100 * change.containers:.1f} % of the containers and {100 * change.nodes:.1f} % of the"
        f" servers changed in kind since it was computed; the limit is {100 * DRIFT_LIMIT:.0f} %.",
    )


@dataclass(frozen=True, slots=True)
class FrontCoverage:
    """What a front covers, and for how long it is expected to stay valid.

    Attributes
    ----------
    moments : cluster seconds of its workloads
    containers : different containers over all moments
    still_running : of them
    cluster_containers : that run now
    good_for_s : cluster seconds until the drift reaches its limit, as measured over the last
        ``measured_s``; None if the mix did not change that much
    """

    moments: Sequence[float]
    containers: int
    still_running: int
    cluster_containers: int
    good_for_s: float | None
    measured_s: float


def front_coverage(front: Front, found: FrontDrift | None) -> FrontCoverage | None:
    """Return what a front covers; None if its workload was submitted or has not been read."""
    if found is None:
        return None
    covered = container_ids(front.pk)
    live = Allocation.objects.filter(released_seq__isnull=True)
    change = _measured_change()
    return FrontCoverage(
        moments=front.moments or [front.cluster_s or 0.0],
        containers=len(covered),
        still_running=live.filter(pk__in=covered).count(),
        cluster_containers=live.filter(job__state="running").count(),
        good_for_s=seconds_left(change, STEP_S, share=found.share, limit=found.limit),
        measured_s=max(change.size - 1, 0) * STEP_S,
    )


def _measured_change() -> Floats:
    """(m,) mean change of the mix over 0, 1 … steps of the recent past; empty without history."""
    kept: list[float] | None = cache.get(_CHANGE_KEY)
    if kept is None:
        kept = _measure_change().tolist()
        cache.set(_CHANGE_KEY, kept, _CACHED_S)
    return np.array(kept)


def _measure_change() -> Floats:
    now_s = cluster_now()
    frames = ClusterFrame.objects.filter(cluster_s__gte=now_s - MAX_STEPS * STEP_S)
    first = frames.order_by("cluster_s").values_list("cluster_s", "at").first()
    if first is None:
        return np.zeros(0)
    since_s, since = first
    steps = int((now_s - since_s) // STEP_S)
    spans = [ContainerSpan(*row) for row in fetch_rows(_SPANS, [since])]
    moments = [now_s - STEP_S * step for step in range(steps, -1, -1)]
    return change_by_lag([mix_at(spans, at_s) for at_s in moments])


def running_mix() -> Mix:
    """Count the servers and the running containers by kind."""
    containers, nodes = fetch_rows(_CONTAINERS), fetch_rows(_NODES)
    sizes: Counter[object] = Counter()
    for job, _, _, count in containers:
        sizes[job] += count
    return mix(
        ((is_taz, communication, sizes[job], n) for job, is_taz, communication, n in containers),
        nodes,
    )
