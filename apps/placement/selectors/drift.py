"""Drift of the cluster away from the workload of a front, in two statements."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from apps.common.infrastructure.database import fetch_rows
from apps.placement.core.front.mix import DRIFT_LIMIT, Mix, drift, mix
from apps.placement.models import Front, FrontSource

_CONTAINERS: Final = """
SELECT a.job_id, coalesce(c.is_taz, false), coalesce(c.communication, 0), count(*)
FROM scheduling_allocation a
JOIN workloads_job j ON j.id = a.job_id AND j.state = 'running' AND NOT j.cancel_requested
LEFT JOIN placement_containerclass c ON c.allocation_id = a.id
WHERE a.released_seq IS NULL AND (a.moved_from IS NULL OR a.moved_s IS NOT NULL)
GROUP BY 1, 2, 3
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
