"""A mutable placement of the running cluster that updates F incrementally with every migration.

Stored per server: its containers, free units and resources, tazes, pressure and contribution to D;
per job: the number of exposed tazes, its credit and the locations of its containers. A migration
changes two servers and the jobs on them. `cluster` has the definitions; tests compare both after
every migration.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats
from apps.placement.core.problem.instance import Communication
from apps.placement.core.rebalancing.cluster import RunningCluster, pressure, retained_share


class PredictedSlowdown(NamedTuple):
    """Predicted speed of a container next to its neighbours.

    Attributes
    ----------
    speed : work per second
    retained_share : speed relative to running alone on its server
    """

    speed: float
    retained_share: float


class PlacementState:
    """One placement; `move` changes it.

    Attributes
    ----------
    assignment : server of each container
    on : containers of each server
    free : (n,) free units
    room : (n, 3) free memory, network and storage
    filled, tazes : (n,) containers and tazes on each server
    caused : (n, N) sum of the scores of all units of each server
    value : F of the placement
    """

    def __init__(self, cluster: RunningCluster, weights: dict[str, float]) -> None:
        self.cluster = cluster
        self.assignment: list[int] = cluster.assignment.tolist()
        self.on: list[list[int]] = [[] for _ in range(cluster.units.size)]
        for container, server in enumerate(self.assignment):
            self.on[server].append(container)
        self.free = cluster.units - cluster.held_units
        self.room = cluster.room.copy()
        self.filled = np.array([len(held) for held in self.on], dtype=np.int64)
        self.tazes = np.bincount(
            cluster.assignment[cluster.is_taz], minlength=cluster.units.size
        ).astype(np.int64)
        self.caused = np.zeros((cluster.units.size, cluster.caused.shape[1]))
        np.add.at(
            self.caused, cluster.assignment, cluster.size[:, None] * cluster.caused[cluster.job]
        )
        self._cache_lists(cluster, weights)
        self.value = 0.0
        self._credit = [0.0] * len(cluster.job_id)
        self._exposed = [0] * len(cluster.job_id)
        self._servers = [Counter[int]() for _ in cluster.job_id]
        self._racks = [Counter[int]() for _ in cluster.job_id]
        for container, server in enumerate(self.assignment):
            self._servers[self._job[container]][server] += 1
            self._racks[self._job[container]][self._rack[server]] += 1
        self.value += sum(self._cost_of_job(job) for job in range(len(cluster.job_id)))
        for server in range(cluster.units.size):
            self.value += self._watts(server)
            self._count_server(server, 1)

    def _cache_lists(self, cluster: RunningCluster, weights: dict[str, float]) -> None:
        """Copy arrays that are read element by element to lists, which are faster."""
        _, intensity, sensitive = cluster.scales()
        self._credit_weight = weights.get("D", 0.0) / intensity
        cost = cluster.watt_costs(weights)
        self._idle: list[float] = (cluster.idle_watts * cost).tolist()
        span = (cluster.peak_watts - cluster.idle_watts) / cluster.units
        self._span: list[float] = (span * cost).tolist()
        each = weights.get("C", 0.0) / sensitive
        self._split_cost: list[float] = (cluster.containers() * each).tolist()
        self._counts_as: list[int] = cluster.counts_as().tolist()
        self._job: list[int] = cluster.job.tolist()
        self._rack: list[int] = cluster.rack.tolist()
        self._size: list[int] = cluster.size.tolist()
        self._intensity: list[float] = cluster.intensity.tolist()
        self._is_taz: list[bool] = cluster.is_taz.tolist()
        self._units: list[int] = np.zeros(cluster.units.size, dtype=np.int64).tolist()
        for container, server in enumerate(self.assignment):
            self._units[server] += self._size[container]

    def move(self, container: int, to: int) -> None:
        """Move a container without checking that it fits. O(containers of the two servers)."""
        cluster, source, job = self.cluster, self.assignment[container], self._job[container]
        size = self._size[container]
        self._remove_servers(source, to)
        before = self._cost_of_job(job)
        self.on[source].remove(container)
        self.on[to].append(container)
        self.assignment[container] = to
        caused_by = self.caused_by(container)
        for server, sign in ((source, 1), (to, -1)):
            self.free[server] += sign * size
            self.caused[server] -= sign * caused_by
            self.room[server] += sign * cluster.demand[container]
            self._units[server] -= sign * size
            self.filled[server] -= sign
            self.tazes[server] -= sign * self._is_taz[container]
        _move_count(self._servers[job], source, to)
        _move_count(self._racks[job], self._rack[source], self._rack[to])
        self.value += self._cost_of_job(job) - before
        for server in (source, to):
            self.value += self._watts(server)
            self._count_server(server, 1)

    def _remove_servers(self, *servers: int) -> None:
        for server in servers:
            self.value -= self._watts(server)
            self._count_server(server, -1)

    def caused_by(self, container: int) -> Floats:
        """(N,) sum of the scores of the container's units."""
        cluster = self.cluster
        caused: Floats = cluster.size[container] * cluster.caused[cluster.job[container]]
        return caused

    def fits(self, container: int) -> Bools:
        """(n,) servers with enough free resources that the job may use. O(n)."""
        cluster = self.cluster
        fits: Bools = (
            cluster.is_open
            & cluster.is_allowed[cluster.job[container]]
            & (self.free >= cluster.size[container])
            & (self.room >= cluster.demand[container]).all(axis=1)
        )
        fits[self.assignment[container]] = False
        return fits

    def is_exposed(self, job: int) -> bool:
        """Whether a taz of the job shares its server with another taz."""
        return self._exposed[job] > 0

    def is_split(self, job: int) -> bool:
        """Whether the job spans several of the servers or racks it should stay inside."""
        scope = self._counts_as[job]
        if scope == Communication.CLUSTER:
            return False
        return len(self._servers[job] if scope == Communication.NODE else self._racks[job]) > 1

    def servers_of(self, job: int) -> Counter[int]:
        """Containers of a job by server."""
        return self._servers[job]

    def racks_of(self, job: int) -> Counter[int]:
        """Containers of a job by rack."""
        return self._racks[job]

    def predicted_slowdowns(self, servers: Iterable[int]) -> dict[int, PredictedSlowdown]:
        """Predict the speed of each container on these servers. O(containers x N)."""
        cluster = self.cluster
        slowdowns: dict[int, PredictedSlowdown] = {}
        for server in servers:
            held = self.on[server]
            if not held:
                continue
            job = cluster.job[held]
            caused_by: Floats = cluster.size[held, None] * cluster.caused[job]
            felt = pressure(
                caused_by.sum(axis=0) - caused_by, np.full(len(held), cluster.units[server])
            )
            alone = cluster.size[held] * cluster.speed[job, cluster.platform[server]]
            retained = retained_share(felt, cluster.tolerated[job])
            slowdowns.update(
                zip(
                    held,
                    map(PredictedSlowdown, (alone * retained).tolist(), retained.tolist()),
                    strict=True,
                )
            )
        return slowdowns

    def _watts(self, server: int) -> float:
        if not self.on[server]:
            return 0.0
        return self._idle[server] + self._span[server] * self._units[server]

    def _cost_of_job(self, job: int) -> float:
        return self._split_cost[job] if self.is_split(job) else 0.0

    def _count_server(self, server: int, sign: int) -> None:
        """Add (sign 1) or subtract (sign -1) the contribution of one server to D."""
        held = self.on[server]
        if not held:
            return
        intensity = self._intensity
        first, top, next_top = -1, -1.0, 0.0
        for container in held:
            level = intensity[container]
            if level > top:
                first, top, next_top = container, level, max(top, 0.0)
            elif level > next_top:
                next_top = level
        self._add_credit(self._job[first], sign * (top - next_top))
        if self.tazes[server] > 1:
            for container in held:
                if self._is_taz[container]:
                    self._change_exposure(self._job[container], sign)

    def _add_credit(self, job: int, credit: float) -> None:
        self._credit[job] += credit
        if self._exposed[job] == 0:
            self.value -= self._credit_weight * credit

    def _change_exposure(self, job: int, sign: int) -> None:
        was = self._exposed[job]
        self._exposed[job] = was + sign
        if was == 0:
            self.value += self._credit_weight * self._credit[job]
        elif was + sign == 0:
            self.value -= self._credit_weight * self._credit[job]


def _move_count(counts: Counter[int], source: int, to: int) -> None:
    counts[source] -= 1
    if not counts[source]:
        del counts[source]
    counts[to] += 1
