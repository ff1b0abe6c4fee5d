"""Cluster time and wall time.

Jobs, durations and utilisation are in cluster time; leases, heartbeats and HTTP are in wall time.
On an emulated cluster 60 s of cluster time may pass per wall second; on a real cluster the two
clocks are the same (``speed`` 1).
"""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class ClusterClock:
    """Cluster time as a linear function of wall time, possibly stopped.

    Attributes
    ----------
    wall_anchor_s : wall time (Unix seconds) at which the clock showed ``cluster_anchor_s``
    cluster_anchor_s : cluster time in seconds at the anchor; 0 = the cluster's first start
    speed : cluster seconds per wall second, >= 0; 0 = stopped
    min_s, max_s : bounds of the cluster time that it shows, whatever the wall time
    """

    wall_anchor_s: float
    cluster_anchor_s: float
    speed: float
    min_s: float = 0.0
    max_s: float = inf

    def at(self, wall_s: float) -> float:
        """Cluster time in seconds at a wall time; never before the anchor, within the bounds."""
        elapsed_s = max(0.0, wall_s - self.wall_anchor_s) * self.speed
        return min(max(self.cluster_anchor_s + elapsed_s, self.min_s), self.max_s)

    def wall(self, cluster_s: float) -> float:
        """Wall time at which the clock shows ``cluster_s``; infinity if it is stopped."""
        if self.speed == 0.0:
            return float("inf")
        return self.wall_anchor_s + (cluster_s - self.cluster_anchor_s) / self.speed
