"""Failures of servers during a replay.

Failures are a Poisson process over the whole cluster, and every failure takes a server at random.
They depend on the seed and the number of servers only, so that settings are compared under the
same failures. A failed server takes no jobs until it is repaired, after a fixed time. A failure
of a server that is down changes nothing.
"""

from heapq import heappop, heappush
from typing import Final

import numpy as np

from apps.testbed.core.replay.model import Failures

DAY_S: Final = 86_400.0
NEVER_S: Final = float("inf")
STREAM: Final = 0x6661696C  # of the seed of a run: "fail"


class FailureClock:
    """When servers fail and when they are repaired.

    Attributes
    ----------
    failure_s : time of the next failure
    count : servers that have failed so far
    """

    def __init__(self, failures: Failures | None, servers: int, seed: int) -> None:
        self._rng = np.random.default_rng([STREAM, seed])
        self._servers, self._failures = servers, failures
        self._repairs: list[tuple[float, int]] = []
        self._down: set[int] = set()
        self.count = 0
        self.failure_s = NEVER_S
        if failures is not None:
            self.failure_s = self._gap_s(failures)

    @property
    def repair_s(self) -> float:
        """Time of the next repair; infinite if no server is down."""
        return self._repairs[0][0] if self._repairs else NEVER_S

    def repaired(self, now: float) -> list[int]:
        """Return the servers that are repaired by now."""
        servers = []
        while self._repairs and self._repairs[0][0] <= now:
            servers.append(heappop(self._repairs)[1])
        self._down.difference_update(servers)
        return servers

    def failed(self, now: float) -> list[int]:
        """Return the servers that fail by now, which were up before."""
        servers = []
        while self._failures is not None and self.failure_s <= now:
            server = int(self._rng.integers(self._servers))
            if server not in self._down:
                self._down.add(server)
                heappush(self._repairs, (self.failure_s + self._failures.repair_s, server))
                servers.append(server)
            self.failure_s += self._gap_s(self._failures)
        self.count += len(servers)
        return servers

    def skip_to(self, now: float) -> None:
        """Leave out the failures until a time at which no job runs."""
        while self._failures is not None and self.failure_s <= now:
            self._rng.integers(self._servers)
            self.failure_s += self._gap_s(self._failures)

    def _gap_s(self, failures: Failures) -> float:
        return float(self._rng.exponential(DAY_S / failures.per_day))
