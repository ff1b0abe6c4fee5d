"""Scheduler agents of a replay, each with its own copy of the cluster."""

import numpy as np

from apps.scheduling.core.cluster_copy import ChangeKind, ClusterCopy
from apps.scheduling.core.in_memory_store import MemoryCluster


class Agent:
    """An agent that reads the change log at intervals.

    Attributes
    ----------
    copy : its view of the cluster
    read_s : time at which it reads the log next
    free_s : time at which it has committed its decisions
    released : change-log number of the last release that it has read
    swept : change-log number of the last release for which it has evaluated waiting jobs
    """

    def __init__(
        self, cluster: MemoryCluster, sync_s: float, jitter: float, rng: np.random.Generator
    ) -> None:
        self.copy = ClusterCopy(cluster.topology)
        self.read_s = 0.0
        self.free_s = 0.0
        self.released = 0
        self.swept = 0
        self._cluster, self._sync_s, self._jitter, self._rng = cluster, sync_s, jitter, rng
        self._read = 0

    def follow(self, now: float) -> None:
        """Read the change log if the interval has passed."""
        if now < self.read_s:
            return
        self.read()
        self.read_s = now + self._sync_s * self._rng.uniform(
            1.0 - self._jitter, 1.0 + self._jitter
        )

    def read(self) -> None:
        """Read the change log to its end."""
        log = self._cluster.log
        if self._read < len(log):
            new = log[self._read :]
            self.copy.apply(new)
            self.released = max(
                (each.sequence for each in new if each.kind is ChangeKind.RELEASE),
                default=self.released,
            )
            self._read = len(log)
