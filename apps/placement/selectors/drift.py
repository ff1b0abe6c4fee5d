"""How far the cluster has moved away from the workload of a front. Two statements."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from django.db import connection

from apps.placement.core.mix import LIMIT, Mix, drift, mix
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
class DriftOfFront:
    """Share of the mix that changed since a front was made, and the share it may."""

    share: float
    limit: float
    sentence: str


def drift_of(front: Front) -> DriftOfFront | None:
    """Compare the cluster with the workload of a front; None where it is not of this cluster."""
    if front.source != FrontSource.CLUSTER or not front.mix:
        return None
    found = drift(front.mix, running_mix())
    return DriftOfFront(
        found.share,
        LIMIT,
        f"{100 * found.containers:.1f} % of the containers and {100 * found.nodes:.1f} % of the"
        f" servers are of another kind than when it was made; the limit is {100 * LIMIT:.0f} %.",
    )


def running_mix() -> Mix:
    """Count the servers and the containers that run by kind."""
    with connection.cursor() as cursor:
        cursor.execute(_CONTAINERS)
        held = cursor.fetchall()
        cursor.execute(_NODES)
        nodes = cursor.fetchall()
    sizes: Counter[object] = Counter()
    for job, _, _, count in held:
        sizes[job] += count
    return mix(((is_taz, wish, sizes[job], n) for job, is_taz, wish, n in held), nodes)
