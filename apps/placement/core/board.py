"""A placement of the running cluster under change: what one move does to F, in microseconds.

Kept per server: its containers, the units and rooms left, tazes, pressure, and what it adds to D;
per job: how many tazes stand exposed, its credit, and where its containers are. A move touches two
servers and the jobs on them. `live` holds the definitions; tests hold the two equal after every
move.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats
from apps.placement.core.instance import Communication
from apps.placement.core.live import Cluster, kept_share, pressure


class Comfort(NamedTuple):
    """How a container fares where it stands, as predicted.

    Attributes
    ----------
    speed : work per second
    kept : share of what it would be alone
    """

    speed: float
    kept: float


class Board:
    """One placement, changed by `move`.

    Attributes
    ----------
    home : server of each container
    on : containers of each server
    free : (n,) units nobody holds
    room : (n, 3) memory, network and storage nobody holds
    filled, tazes : (n,) containers and tazes of each server
    caused : (n, N) scores of the units of each server, summed
    value : F of the placement
    """

    def __init__(self, cluster: Cluster, weights: dict[str, float]) -> None:
        self.cluster = cluster
        self.home: list[int] = cluster.home.tolist()
        self.on: list[list[int]] = [[] for _ in range(cluster.units.size)]
        for container, server in enumerate(self.home):
            self.on[server].append(container)
        self.free = cluster.units - cluster.held_units
        self.room = cluster.room.copy()
        self.filled = np.array([len(held) for held in self.on], dtype=np.int64)
        self.tazes = np.bincount(
            cluster.home[cluster.is_taz], minlength=cluster.units.size
        ).astype(np.int64)
        self.caused = np.zeros((cluster.units.size, cluster.caused.shape[1]))
        np.add.at(self.caused, cluster.home, cluster.size[:, None] * cluster.caused[cluster.job])
        self._read(cluster, weights)
        self.value = 0.0
        self._credit = [0.0] * len(cluster.job_id)
        self._exposed = [0] * len(cluster.job_id)
        self._servers = [Counter[int]() for _ in cluster.job_id]
        self._racks = [Counter[int]() for _ in cluster.job_id]
        for container, server in enumerate(self.home):
            self._servers[self._job[container]][server] += 1
            self._racks[self._job[container]][self._rack[server]] += 1
        self.value += sum(self._cost_of_job(job) for job in range(len(cluster.job_id)))
        for server in range(cluster.units.size):
            self.value += self._watts(server)
            self._stand(server, 1)

    def _read(self, cluster: Cluster, weights: dict[str, float]) -> None:
        """Keep as lists what is read one by one."""
        _, intensity, sensitive = cluster.scales()
        self._worth = weights.get("D", 0.0) / intensity
        cost = cluster.watt_costs(weights)
        self._idle: list[float] = (cluster.idle_watts * cost).tolist()
        span = (cluster.peak_watts - cluster.idle_watts) / cluster.units
        self._span: list[float] = (span * cost).tolist()
        each = weights.get("C", 0.0) / sensitive
        self._cost: list[float] = (cluster.containers() * each).tolist()
        self._counts_as: list[int] = cluster.counts_as().tolist()
        self._job: list[int] = cluster.job.tolist()
        self._rack: list[int] = cluster.rack.tolist()
        self._size: list[int] = cluster.size.tolist()
        self._intensity: list[float] = cluster.intensity.tolist()
        self._is_taz: list[bool] = cluster.is_taz.tolist()
        self._units: list[int] = np.zeros(cluster.units.size, dtype=np.int64).tolist()
        for container, server in enumerate(self.home):
            self._units[server] += self._size[container]

    def move(self, container: int, to: int) -> None:
        """Put a container elsewhere, whether or not it fits. O(containers of the two servers)."""
        cluster, source, job = self.cluster, self.home[container], self._job[container]
        size = self._size[container]
        self._leave(source, to)
        before = self._cost_of_job(job)
        self.on[source].remove(container)
        self.on[to].append(container)
        self.home[container] = to
        own = self.own(container)
        for server, sign in ((source, 1), (to, -1)):
            self.free[server] += sign * size
            self.caused[server] -= sign * own
            self.room[server] += sign * cluster.demand[container]
            self._units[server] -= sign * size
            self.filled[server] -= sign
            self.tazes[server] -= sign * self._is_taz[container]
        _shift(self._servers[job], source, to)
        _shift(self._racks[job], self._rack[source], self._rack[to])
        self.value += self._cost_of_job(job) - before
        for server in (source, to):
            self.value += self._watts(server)
            self._stand(server, 1)

    def _leave(self, *servers: int) -> None:
        for server in servers:
            self.value -= self._watts(server)
            self._stand(server, -1)

    def own(self, container: int) -> Floats:
        """(N,) scores of the container's units, summed."""
        cluster = self.cluster
        caused: Floats = cluster.size[container] * cluster.caused[cluster.job[container]]
        return caused

    def fits(self, container: int) -> Bools:
        """(n,) servers that could take the container now. O(n)."""
        cluster = self.cluster
        fits: Bools = (
            cluster.is_open
            & cluster.is_allowed[cluster.job[container]]
            & (self.free >= cluster.size[container])
            & (self.room >= cluster.demand[container]).all(axis=1)
        )
        fits[self.home[container]] = False
        return fits

    def is_exposed(self, job: int) -> bool:
        """Whether a taz of the job shares its server with another taz."""
        return self._exposed[job] > 0

    def is_split(self, job: int) -> bool:
        """Whether the job is not wholly inside of what it wants to be in."""
        wish = self._counts_as[job]
        if wish == Communication.CLUSTER:
            return False
        return len(self._servers[job] if wish == Communication.NODE else self._racks[job]) > 1

    def servers_of(self, job: int) -> Counter[int]:
        """Containers of a job by server."""
        return self._servers[job]

    def racks_of(self, job: int) -> Counter[int]:
        """Containers of a job by rack."""
        return self._racks[job]

    def comfort(self, servers: Iterable[int]) -> dict[int, Comfort]:
        """Tell how those on these servers fare, by container. O(containers x N)."""
        cluster = self.cluster
        found: dict[int, Comfort] = {}
        for server in servers:
            held = self.on[server]
            if not held:
                continue
            job = cluster.job[held]
            own: Floats = cluster.size[held, None] * cluster.caused[job]
            felt = pressure(own.sum(axis=0) - own, np.full(len(held), cluster.units[server]))
            alone = cluster.size[held] * cluster.speed[job, cluster.platform[server]]
            kept = kept_share(felt, cluster.tolerated[job])
            found.update(
                zip(held, map(Comfort, (alone * kept).tolist(), kept.tolist()), strict=True)
            )
        return found

    def _watts(self, server: int) -> float:
        if not self.on[server]:
            return 0.0
        return self._idle[server] + self._span[server] * self._units[server]

    def _cost_of_job(self, job: int) -> float:
        return self._cost[job] if self.is_split(job) else 0.0

    def _stand(self, server: int, sign: int) -> None:
        """Count in (1), or out (-1), what one server adds to the worth of its jobs."""
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
        self._earn(self._job[first], sign * (top - next_top))
        if self.tazes[server] > 1:
            for container in held:
                if self._is_taz[container]:
                    self._expose(self._job[container], sign)

    def _earn(self, job: int, credit: float) -> None:
        self._credit[job] += credit
        if self._exposed[job] == 0:
            self.value -= self._worth * credit

    def _expose(self, job: int, sign: int) -> None:
        was = self._exposed[job]
        self._exposed[job] = was + sign
        if was == 0:
            self.value += self._worth * self._credit[job]
        elif was + sign == 0:
            self.value -= self._worth * self._credit[job]


def _shift(counts: Counter[int], source: int, to: int) -> None:
    counts[source] -= 1
    if not counts[source]:
        del counts[source]
    counts[to] += 1
