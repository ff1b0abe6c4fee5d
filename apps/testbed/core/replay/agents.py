"""Scheduler agents of a replay, each with its own copy of the cluster."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from apps.scheduling.core.cluster.copy import ChangeKind, ClusterCopy
from apps.scheduling.core.cluster.in_memory_store import Committed, Conflict, MemoryCluster
from apps.scheduling.core.types import Placed, Request
from apps.testbed.core.replay.model import ReplayOptions

FREES: Final = frozenset({ChangeKind.RELEASE, ChangeKind.OPEN})  # changes that add free units


class Agent:
    """An agent that reads the change log at intervals.

    Attributes
    ----------
    copy : what it knows of the cluster
    read_s : time at which it reads the log next
    free_s : time at which it has committed its decisions
    released : change-log number of the last release, or opening, that it has read
    opened : change-log number of the last opening of a server that it has read
    swept : change-log number of the last release for which it has evaluated waiting jobs
    """

    def __init__(
        self,
        cluster: MemoryCluster,
        copy: ClusterCopy,
        rng: np.random.Generator,
        *,
        sync_s: float = 0.0,
        jitter: float = 0.0,
    ) -> None:
        self.copy = copy
        self.read_s = 0.0
        self.free_s = 0.0
        self.released = 0
        self.opened = 0
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

    def commit(self, placements: Sequence[tuple[Placed, Request]]) -> list[Committed | Conflict]:
        """Commit placements, and apply those that won.

        If the copy was up to date, the entries of the log about them need not be read again.
        """
        was_current = self._read == len(self._cluster.log)
        results = self._cluster.commit_batch(placements)
        for (placed, request), result in zip(placements, results, strict=True):
            if isinstance(result, Committed):
                won = replace(placed, units=result.units)
                self.copy.apply_commit(won, request, sequence=result.sequence)
                self.copy.sequence = result.sequence if was_current else self.copy.sequence
        if was_current:
            self._read = len(self._cluster.log)
        return results

    def read(self) -> None:
        """Read the change log to its end."""
        log = self._cluster.log
        if self._read < len(log):
            new = log[self._read :]
            self.copy.apply(new)
            self.released = max(
                (each.sequence for each in new if each.kind in FREES),
                default=self.released,
            )
            self.opened = max(
                (each.sequence for each in new if each.kind is ChangeKind.OPEN),
                default=self.opened,
            )
            self._read = len(log)


class SoleAgent(Agent):
    """The only agent, which reads the log before every decision.

    A copy of its own would equal the cluster whenever it decides, so it reads the cluster itself.
    """

    def __init__(self, cluster: MemoryCluster, rng: np.random.Generator) -> None:
        super().__init__(cluster, cluster.state, rng)

    def follow(self, now: float) -> None:
        """Read the change log."""
        self.read()
        self.read_s = now

    def commit(self, placements: Sequence[tuple[Placed, Request]]) -> list[Committed | Conflict]:
        """Commit placements."""
        was_current = self._read == self._cluster.sequence
        results = self._cluster.commit_batch(placements)
        if was_current:
            self._read = self._cluster.sequence
        return results

    def read(self) -> None:
        """Note the last release."""
        self.released = max(self.released, self._cluster.released)
        self._read = self._cluster.sequence


def agents_of(
    cluster: MemoryCluster, options: ReplayOptions, rng: np.random.Generator
) -> Sequence[Agent]:
    """Return the agents of a run."""
    if options.has_sole_agent:
        return [SoleAgent(cluster, rng)]
    copies = (ClusterCopy(cluster.topology, is_compiled=True) for _ in range(options.agents))
    return [
        Agent(cluster, copy, rng, sync_s=options.sync_s, jitter=options.jitter) for copy in copies
    ]
