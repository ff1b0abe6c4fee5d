"""The running cluster as a placement problem whose containers have sizes.

n servers, c containers, j jobs, P platforms, N sources of interference. A container is what one
allocation holds: k units of one server. It moves as a whole, to where k units are free and memory,
network and storage with them. Power, diversified intensity and communication are those of
`objectives` (ClavisMO §3.1, C2) with units in the place of slots; for containers of one unit they
are the same numbers.

What a placement does to the speed of jobs is predicted from profiles: a unit works at the speed of
its platform, and keeps of it what the pressure of its neighbours leaves. Source of the pressure:
Tarcil Eq. 3. Profiles know one point of that curve for each source, the pressure at which 95 % are
kept (Paragon §2.2). The curve through it is ours: little is lost while a resource is not
exhausted, so the loss grows with the cube up to that point; beyond it by 1.5 % a point. On a
cluster of 70 to 80 % load containers then keep 0.87 to 0.9 of their speed on average, a little
less than is measured there (docs/policies.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.instance import Communication, Instance
from apps.placement.core.objectives import credit, exposed, split

QOS_LOSS: Final = 0.05  # at the tolerated pressure
KNEE: Final = 3.0  # power by which the loss grows up to there
STEEP: Final = 0.015  # lost for each point of pressure beyond it
LEAST_KEPT: Final = 0.1
SLOWER: Final = 0.98  # share of its speed that anybody may be left with
PROMISED: Final = 0.9  # share of isolation that sizing counts on (`scheduling.core.sizing`)
MARGIN: Final = 1.1  # of attainment, where a job can do with less
OBJECTIVES: Final = ("P", "D", "C")


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """What runs where, and what is known of it.

    Attributes
    ----------
    at_s, sequence : cluster time and change-log number it was read at
    server_id, server_name : (n,)
    rack, platform : (n,) indices into ``rack_name`` and ``platform_name``
    units : (n,) units of each server, >= 1
    idle_watts, peak_watts : (n,)
    is_open : (n,) takes new containers
    held_units : (n,) held now, by whomever
    room : (n, 3) memory bytes, network bits/s and storage bytes nobody holds
    allocation_id : (c,)
    job : (c,) index into ``job_id``
    home : (c,) server it runs on
    size : (c,) units it holds, >= 1
    demand : (c, 3) of memory, network and storage it holds
    intensity : (c,) of shared resources, 0-1
    is_taz : (c,)
    is_movable : (c,)
    job_id, job_name : of each job
    wish : (j,) `Communication` as it talks
    is_allowed : (j, n) servers its request allows
    attainment : (j,) performance over target, NaN where it has none or none was measured
    speed : (j, P) of a unit of each platform, relative
    caused, tolerated : (j, N) scores, 0-100; tolerated at the pessimistic end
    rates : (n,) what a watt costs, by objective that charges watts (money, carbon)
    """

    at_s: float
    sequence: int
    server_id: Ints
    server_name: tuple[str, ...]
    rack: Ints
    rack_name: tuple[str, ...]
    platform: Ints
    platform_name: tuple[str, ...]
    units: Ints
    idle_watts: Floats
    peak_watts: Floats
    is_open: Bools
    held_units: Ints
    room: Floats
    allocation_id: Ints
    job: Ints
    home: Ints
    size: Ints
    demand: Floats
    intensity: Floats
    is_taz: Bools
    is_movable: Bools
    job_id: tuple[str, ...]
    job_name: tuple[str, ...]
    wish: Ints
    is_allowed: Bools
    attainment: Floats
    speed: Floats
    caused: Floats
    tolerated: Floats
    rates: Mapping[str, Floats] = field(default_factory=dict)

    def containers(self) -> Ints:
        """(j,) containers of each job."""
        return np.bincount(self.job, minlength=len(self.job_id)).astype(np.int64)

    def counts_as(self) -> Ints:
        """(j,) what each job wants to stay inside of, as far as anything can hold its units."""
        total = np.bincount(self.job, weights=self.size, minlength=len(self.job_id))
        racks = np.bincount(self.rack, weights=self.units, minlength=len(self.rack_name))
        wish = self.wish.copy()
        wish[(wish == Communication.NODE) & (total > self.units.max(initial=0))] = (
            Communication.RACK
        )
        wish[(wish == Communication.RACK) & (total > racks.max(initial=0.0))] = (
            Communication.CLUSTER
        )
        return wish

    def watt_costs(self, weights: Mapping[str, float]) -> Floats:
        """(n,) what a watt adds to F on each server: for power, and whatever else charges it."""
        cost: Floats = np.full(self.units.size, weights.get("P", 0.0) / self.scales()[0])
        for name, rate in self.rates.items():
            most = float(rate @ self.peak_watts)
            if weights.get(name, 0.0) > 0.0 and most > 0.0:
                cost = cost + weights[name] * rate / most
        return cost

    def scales(self) -> tuple[float, float, float]:
        """Return what divides P, D and C; infinite where there is nothing to divide."""
        sensitive = self.containers()[self.counts_as() != Communication.CLUSTER].sum()
        found = (self.peak_watts.sum(), self.intensity.sum(), sensitive)
        p, d, c = (float(value) if value > 0 else np.inf for value in found)
        return p, d, c


@dataclass(frozen=True, slots=True)
class Measures:
    """What a placement of a running cluster is worth.

    Attributes
    ----------
    watts : of the servers that hold a container, by the units they lend
    diversity, crossing : D, and containers of jobs that are not where they talk least over slow
        links (C)
    servers_on : that hold a container
    """

    watts: float
    diversity: float
    crossing: float
    servers_on: int

    def normalised(self, cluster: Cluster) -> dict[str, float]:
        """P, D, C in [0, 1]."""
        raw = (self.watts, self.diversity, self.crossing)
        pairs = zip(OBJECTIVES, raw, cluster.scales(), strict=True)
        return {name: value / scale for name, value, scale in pairs}


def measure(cluster: Cluster, home: Ints) -> Measures:
    """Judge a placement; O(n + c log c).

    Parameters
    ----------
    home : (c,) server of each container
    """
    watts = server_watts(cluster, home)
    kept = ~exposed_jobs(cluster, home)[cluster.job]
    return Measures(
        watts=float(watts.sum()),
        diversity=float(credit(cluster.intensity, home)[kept].sum()),
        crossing=float(cluster.containers()[split_jobs(cluster, home)].sum()),
        servers_on=int(np.unique(home).size),
    )


def server_watts(cluster: Cluster, home: Ints) -> Floats:
    """(n,) watts of each server by the units it lends; 0 where it holds nothing."""
    used = np.bincount(home, weights=cluster.size, minlength=cluster.units.size)
    span = cluster.peak_watts - cluster.idle_watts
    watts: Floats = np.where(used > 0, cluster.idle_watts + span * used / cluster.units, 0.0)
    return watts


def value(cluster: Cluster, home: Ints, weights: Mapping[str, float]) -> float:
    """F of a placement: what is minimised."""
    found = measure(cluster, home).normalised(cluster)
    charged = float(cluster.watt_costs(weights) @ server_watts(cluster, home))
    return charged - weights.get("D", 0.0) * found["D"] + weights.get("C", 0.0) * found["C"]


def exposed_jobs(cluster: Cluster, home: Ints) -> Bools:
    """(j,) a taz of the job shares its server with another taz: all its credit is lost."""
    return exposed(cluster.is_taz, cluster.job, home, len(cluster.job_id))


def split_jobs(cluster: Cluster, home: Ints) -> Bools:
    """(j,) the job is not wholly inside of the server or rack it wants to be in."""
    return split(cluster.counts_as(), cluster.job, home, cluster.rack)


def job_speed(cluster: Cluster, home: Ints, *, is_alone: bool = False) -> Floats:
    """(j,) predicted work per second of each job, relative; O(c x N).

    Parameters
    ----------
    is_alone : as if nothing else ran
    """
    work = cluster.size * cluster.speed[cluster.job, cluster.platform[home]]
    if not is_alone:
        own = cluster.size[:, None] * cluster.caused[cluster.job]
        total = np.zeros((cluster.units.size, own.shape[1]))
        np.add.at(total, home, own)
        felt = pressure(total[home] - own, cluster.units[home])
        work = work * kept_share(felt, cluster.tolerated[cluster.job])
    return np.bincount(cluster.job, work, len(cluster.job_id)).astype(np.float64)


def keeps_promise(cluster: Cluster, speed: Floats, jobs: Ints | None = None) -> Bools:
    """Whether jobs are left with what sizing counted on, or meet their targets by a margin.

    Attainment says little by itself: a service that answers all its queries has 1, however near
    to its limit it is.

    Parameters
    ----------
    speed : predicted, of ``jobs``
    jobs : indices; None = all
    """
    chosen = np.arange(len(cluster.job_id)) if jobs is None else jobs
    alone = job_speed(cluster, cluster.home, is_alone=True)[chosen]
    ratio = speed / np.maximum(job_speed(cluster, cluster.home)[chosen], 1e-300)
    keeps: Bools = (
        (speed >= PROMISED * alone)
        | (ratio >= SLOWER)
        | (cluster.attainment[chosen] * ratio >= MARGIN)
    )
    return keeps


def pressure(others: Floats, units: Ints) -> Floats:
    """(..., N) what a container feels: the mean score of the units beside its own (Tarcil Eq. 3).

    Parameters
    ----------
    others : (..., N) sum of the scores of its neighbours' units
    units : (...) of the server
    """
    felt: Floats = np.clip(others / np.maximum(units - 1, 1)[..., None], 0.0, 100.0)
    return felt


def kept_share(felt: Floats, tolerated: Floats) -> Floats:
    """(...) share of its speed that a container keeps under pressure, as predicted.

    Parameters
    ----------
    felt, tolerated : (..., N) pressure, and that at which 95 % are kept
    """
    within = QOS_LOSS * np.minimum(felt / np.maximum(tolerated, 1.0), 1.0) ** KNEE
    beyond = STEEP * np.maximum(felt - tolerated, 0.0)
    left = np.maximum(1.0 - within - beyond, LEAST_KEPT)
    kept: Floats = np.maximum(np.prod(left, axis=-1), LEAST_KEPT)
    return kept


def to_instance(cluster: Cluster) -> Instance:
    """Return the problem with equal slots that a front is searched on.

    A server gets as many slots as it could hold containers of the sizes it holds now, an empty one
    as many as of the mean size: so that power is nearly what it is.
    """
    held = np.bincount(cluster.home, minlength=cluster.units.size)
    used = np.bincount(cluster.home, weights=cluster.size, minlength=cluster.units.size)
    mean = float(cluster.size.mean()) if cluster.size.size else 1.0
    each = np.where(held > 0, used / np.maximum(held, 1), mean)
    slots: Ints = np.maximum(np.rint(cluster.units / each).astype(np.int64), np.maximum(held, 1))
    return Instance(
        node_ids=cluster.server_name,
        rack_ids=cluster.rack_name,
        rack=cluster.rack.copy(),
        slots=slots,
        idle_watts=cluster.idle_watts.copy(),
        peak_watts=cluster.peak_watts.copy(),
        container_ids=tuple(map(str, cluster.allocation_id.tolist())),
        job_ids=cluster.job_id,
        job=cluster.job.copy(),
        intensity=cluster.intensity.copy(),
        is_taz=cluster.is_taz.copy(),
        wish=cluster.wish.copy(),
        current=cluster.home.copy(),
    )


def as_json(cluster: Cluster, home: Ints, weights: Mapping[str, float]) -> dict[str, Any]:
    """JSON of what a placement is worth, and how many targets it is predicted to meet."""
    found = measure(cluster, home)
    measured = ~np.isnan(cluster.attainment)
    met = measured & (cluster.attainment >= 1.0) & keeps_promise(cluster, job_speed(cluster, home))
    return {
        "watts": found.watts,
        "diversity": found.diversity,
        "crossing": found.crossing,
        "servers_on": found.servers_on,
        "normalised": found.normalised(cluster),
        "charged": {
            name: float(rate @ server_watts(cluster, home)) for name, rate in cluster.rates.items()
        },
        "F": value(cluster, home, weights),
        "targets_met": int(met.sum()),
        "targets_measured": int(measured.sum()),
    }
