"""Cluster time and wall time.

Cluster time is what jobs, durations and utilisation live in; wall time is what leases,
heartbeats and HTTP live in. On an emulated cluster 60 s of cluster time may pass per wall second;
on a real one the two are one (``speed`` 1).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterClock:
    """Cluster time as a linear function of wall time, possibly stopped.

    Attributes
    ----------
    wall_anchor_s : wall time (Unix seconds) at which the clock showed ``cluster_anchor_s``
    cluster_anchor_s : cluster time in seconds at the anchor; 0 = the cluster's first start
    speed : cluster seconds per wall second, >= 0; 0 = stopped
    """

    wall_anchor_s: float
    cluster_anchor_s: float
    speed: float

    def at(self, wall_s: float) -> float:
        """Cluster time in seconds at a wall time; never before the anchor."""
        return self.cluster_anchor_s + max(0.0, wall_s - self.wall_anchor_s) * self.speed

    def wall(self, cluster_s: float) -> float:
        """Wall time at which the clock will show ``cluster_s``; infinity when stopped."""
        if self.speed == 0.0:
            return float("inf")
        return self.wall_anchor_s + (cluster_s - self.cluster_anchor_s) / self.speed
