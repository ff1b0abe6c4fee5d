"""Replays of policies that queue jobs themselves, with their state after every instant."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st

from apps.scheduling.core.cluster.in_memory_store import MemoryCluster
from apps.testbed.core.demo_cluster import cluster_of
from apps.testbed.core.replay.demand import Demand
from apps.testbed.core.replay.loop import ReplayLoop
from apps.testbed.core.replay.model import ReplayCluster
from apps.testbed.core.replay.queueing.schedulers import make_queueing
from apps.testbed.core.replay.queueing.types import QueueingPolicy
from apps.testbed.core.replay.workloads import Workload
from tests.testbed.core.replay.cases import jobs, options


@st.composite
def random_jobs(draw: st.DrawFn) -> Workload:
    """Up to 25 jobs of one to six units, in up to three queues."""
    n = draw(st.integers(1, 25))
    gaps = draw(st.lists(st.floats(0.0, 60.0), min_size=n, max_size=n))
    work = draw(st.lists(st.floats(1.0, 300.0), min_size=n, max_size=n))
    units = draw(st.lists(st.integers(1, 6), min_size=n, max_size=n))
    queue = draw(st.lists(st.sampled_from([0, 1, 5]), min_size=n, max_size=n))
    return jobs(np.cumsum(gaps), work, units=units, queue=queue)


class Watched:
    """One run of a policy; `steps` yields the time of each instant after it was processed.

    Attributes
    ----------
    grants : time, job and server of each unit, in order
    """

    def __init__(
        self, servers: ReplayCluster, load: Workload, name: str, seed: int = 1, **values: Any
    ) -> None:
        parameters = values.pop("parameters", None)
        chosen = options(policy=name, seed=seed, **values)
        emulated = cluster_of(servers.platforms, servers.platform, servers.rack, chosen.seed)
        self.scheduler: Any = None
        self.cluster: MemoryCluster
        self.grants: list[tuple[float, int, int]] = []
        policy = make_queueing(name, parameters)

        def scheduler(loop: ReplayLoop, cluster: MemoryCluster, rng: np.random.Generator) -> Any:
            self.cluster = cluster
            self.scheduler = policy.scheduler(loop, cluster, rng)
            return self.scheduler

        demand = Demand(load, servers, emulated, chosen)
        self.loop = ReplayLoop(
            emulated, demand, QueueingPolicy(name, scheduler), chosen, self._note
        )

    def steps(self) -> Iterator[float]:
        """Run."""
        yield from self.loop.turns()

    def free(self) -> list[int]:
        """Free units of each server."""
        owner = self.cluster.topology.unit_server
        return (
            np.bincount(owner, weights=self.cluster.view().unit_free, minlength=owner.max() + 1)
            .astype(int)
            .tolist()
        )

    def _note(self, now: float, placed: Any, is_committed: bool) -> None:
        owner = self.cluster.topology.unit_server
        self.grants += [(now, int(placed.job), int(owner[unit])) for unit in placed.units]


def most_used(watched: Watched) -> list[int]:
    """Most units held at the same time on each server, by the times of the parts of jobs."""
    holds = watched.loop.holds
    most = [0] * watched.cluster.topology.server_id.size
    for server in range(len(most)):
        rows = [i for i, each in enumerate(holds.server) if each == server]
        # at one time, parts end before others begin
        changes = sorted(
            [(holds.to_s[i], -holds.units[i]) for i in rows if holds.to_s[i] > holds.from_s[i]]
            + [(holds.from_s[i], holds.units[i]) for i in rows if holds.to_s[i] > holds.from_s[i]]
        )
        most[server] = max(np.cumsum([units for _, units in changes]).tolist(), default=0)
    return most
