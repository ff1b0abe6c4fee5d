"""The copy of the cluster on which one agent decides, read from the change log at intervals."""

import time
from collections.abc import Callable, Collection
from typing import Final
from uuid import UUID

import numpy as np

from apps.common.infrastructure.database import fetch_rows, number_array, without_index
from apps.scheduling.core.cluster.copy import Change, ChangeKind, ClusterCopy
from apps.scheduling.selectors import ClusterFollower
from apps.scheduling.services.proposals import CopyVersion

_CLAIMS: Final = f"""
SELECT acquired_seq, unit_ids, caused, tolerated, memory_bytes, network_bps, storage_bytes
FROM scheduling_allocation
WHERE job_id = ANY(%s) AND acquired_seq > %s AND {without_index("released_seq IS NULL")}
ORDER BY acquired_seq
"""  # noqa: S608 - a constant


class AgentCopy(ClusterFollower):
    """A copy that reads the change log at intervals, and earlier after `expire`.

    Agents with the same interval do not read at the same time: each interval is
    ``interval_s`` x (1 ± jitter). Between two reads the agent adds its own commits.

    Parameters
    ----------
    interval_s : wall seconds between two reads; 0 = every call of `follow` reads
    clock : wall seconds, monotonic

    Source: Tarcil §5.1 (T8).
    """

    def __init__(
        self,
        rng: np.random.Generator,
        *,
        interval_s: float = 0.0,
        jitter: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._rng, self._interval_s, self._jitter, self._clock = rng, interval_s, jitter, clock
        self._due_s = -float("inf")
        self._read_s = -float("inf")
        self._own = 0  # changes since the last read

    def follow(self) -> ClusterCopy:
        """Apply the change log if the interval has passed."""
        if self._clock() < self._due_s:
            return self.copy
        self._read_s = self._clock()  # before the read: younger changes may be missing
        self._own = 0
        copy = super().follow()
        low, high = 1.0 - self._jitter, 1.0 + self._jitter
        self._due_s = self._clock() + self._interval_s * self._rng.uniform(low, high)
        return copy

    def expire(self) -> None:
        """Let the next `follow` read the log: a lost commit shows that the copy is old."""
        self._due_s = -float("inf")

    @property
    def version(self) -> CopyVersion:
        """When the copy was read, and what it holds."""
        return CopyVersion(self._read_s, self.copy.sequence + self._own)

    def add_own(self, job_ids: Collection[UUID]) -> None:
        """Apply the agent's own commits, unless the next `follow` reads the log anyway.

        The copy is ahead of its number then, so decisions on it cannot be replayed.
        """
        if not job_ids or self._clock() >= self._due_s:
            return
        copy = self.copy
        sequence = copy.sequence
        rows = fetch_rows(_CLAIMS, [number_array(sorted(job_ids)), sequence])
        copy.apply(_claim(*row) for row in rows)
        copy.sequence = sequence  # entries of others up to these numbers are still to be read
        self._own += len(rows)
        self.exact_from = max(self.exact_from, *(row[0] for row in rows), 0)


def _claim(
    sequence: int, units: list[int], caused: list[float], tolerated: list[float], *used: int
) -> Change:
    limit = np.array(tolerated) if tolerated else None
    vector = np.array(used, dtype=np.float64) / len(units)
    return Change(sequence, ChangeKind.CLAIM, units, np.array(caused), limit, vector)
