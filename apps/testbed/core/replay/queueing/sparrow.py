"""Sparrow: batch sampling with late binding, and a queue at each server (T12).

A job of m units sends ceil(d m) probes, each to another server drawn at random from those that can
hold its units; if they are fewer, the probes go round. A server serves its probes in the order in
which they came. Late binding: when a core of the server becomes free, the job of the first probe
starts a unit there, if it still lacks one; a probe of a job that has all its units, or has ended,
is dropped. So the units of a job start on the first m cores that its probes reach.

With d >= 1 a job has at least as many probes as units, so that none is lost. The schedulers keep
no state, so their number does not matter. Messages take no time.

Source: Ousterhout et al., SOSP 2013, §3.2-3.4; Tarcil §2 and §6.2: two servers for each core.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from apps.inventory.core.snapshot import Ints, Shorts
from apps.scheduling.core.cluster.in_memory_store import MemoryCluster
from apps.testbed.core.replay.queueing.launching import Launcher, WaitingJob
from apps.testbed.core.replay.waiting import Refusal

if TYPE_CHECKING:
    from apps.testbed.core.replay.loop import ReplayLoop

QUEUED: Final = "its probes wait in the queues of servers"


class Sparrow:
    """The queues of one run.

    Parameters
    ----------
    probes : d, for each unit of a job, >= 1

    Attributes
    ----------
    queues : S queues of probes; a probe is the job that it is of
    """

    def __init__(
        self,
        loop: "ReplayLoop",
        cluster: MemoryCluster,
        rng: np.random.Generator,
        *,
        probes: float,
    ) -> None:
        if probes < 1.0:
            raise ValueError(f"probes must be at least 1, got {probes:g}")
        servers = cluster.topology.server_id.size
        self.queues: list[deque[WaitingJob]] = [deque() for _ in range(servers)]
        self._launcher = Launcher(loop, cluster)
        self._rng, self._probes = rng, probes
        self._unit_server = cluster.topology.unit_server
        self._freed: dict[int, None] = {}  # servers with a new free core, in order

    @property
    def has_waiting(self) -> bool:
        """Whether a job lacks units."""
        return bool(self._launcher.waiting)

    def arrive(self, job: int) -> None:
        """Take a new job, or one whose server failed."""
        self._launcher.arrive(job)

    def release(self, allocation: int, now: float, units: Shorts | None = None) -> None:
        """Free the unit of a job that ended."""
        _, freed = self._launcher.release(allocation)
        self._freed.update(dict.fromkeys(self._unit_server[freed].tolist()))

    def open(self, servers: Sequence[int]) -> None:
        """Serve the probes of repaired servers."""
        self._launcher.open(servers)
        self._freed.update(dict.fromkeys(servers))

    def next_s(self) -> float:
        """Nothing happens by itself: cores become free when jobs end."""
        return math.inf

    def commit(self, now: float) -> None:
        """Commit nothing: a unit is taken when it is granted."""

    def decide(self, now: float) -> None:
        """Serve the queues of servers with a new free core, then send the probes of new jobs."""
        freed, self._freed = self._freed, {}
        for server in freed:
            self._serve(server, now)
        for job in self._launcher.admitted(now):
            able = np.flatnonzero(job.able)
            probed = probed_servers(able, job.left, self._probes, self._rng).tolist()
            for server in probed:
                self.queues[server].append(job)
            for server in dict.fromkeys(probed):
                self._serve(server, now)

    def refusals(self) -> dict[int, Refusal]:
        """Why jobs hold no units."""
        return self._launcher.refusals(QUEUED)

    def _serve(self, server: int, now: float) -> None:
        """Start units of the first probes, until the server has no room for the next."""
        queue = self.queues[server]
        while queue and (not queue[0].left or self._launcher.launch(queue[0], server, now)):
            queue.popleft()


def probed_servers(servers: Ints, units: int, probes: float, rng: np.random.Generator) -> Ints:
    """(ceil(d m),) servers of the probes of a job, in the order in which they are sent.

    No server gets two more than another one. Source: Sparrow §3.2 (batch sampling).

    Parameters
    ----------
    servers : (k,) to draw from, k >= 1
    units, probes : m and d
    """
    count = math.ceil(units * probes)
    drawn: Ints = rng.choice(servers, size=min(count, servers.size), replace=False)
    return np.resize(drawn, count)
