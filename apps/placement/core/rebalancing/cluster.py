"""The running cluster as a placement problem whose containers have sizes.

n servers, c containers, j jobs, P platforms, N sources of interference. A container is one
allocation: k units of one server. It migrates as a whole, to a server with k free units and enough
memory, network and storage. Power, diversified intensity and communication are those of
`objectives` (ClavisMO §3.1, C2) with units instead of slots; for containers of one unit the values
are equal.

The speed of jobs is predicted from profiles: the speed of the platform, reduced by the pressure of
the neighbours. Source of the pressure: Tarcil Eq. 3. A profile has one point of the speed curve of
each source, the pressure at which a container keeps 95 % (Paragon §2.3). The rest of the curve is
ours: a resource that is not exhausted costs little, so the loss grows with the cube up to that
point, and by 1.5 % per point beyond it. At 70 to 80 % load, containers are predicted to keep 0.87
to 0.9 of their speed on average, slightly less than measured (docs/policies.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.problem.instance import Communication, Instance, effective_communication
from apps.placement.core.problem.objectives import OBJECTIVES, credit, exposed, split

QOS_LOSS: Final = 0.05  # at the tolerated pressure
LOSS_EXPONENT: Final = 3.0  # of the loss up to the tolerated pressure
LOSS_PER_POINT: Final = 0.015  # of pressure beyond the tolerated one
MIN_RETAINED: Final = 0.1
MIN_SPEED_RATIO: Final = 0.98  # of the speed after a migration to the speed before
EXPECTED_SHARE: Final = 0.9  # of the isolated speed, assumed by `scheduling.core.sizing.minimum`
ATTAINMENT_MARGIN: Final = 1.1  # attainment above which a job may become slower


@dataclass(frozen=True, slots=True, eq=False)
class RunningCluster:
    """The running containers, their jobs and servers, and their profiles.

    Attributes
    ----------
    at_s, sequence : cluster time and change-log number of the read
    server_id, server_name : (n,)
    rack, platform : (n,) indices into ``rack_name`` and ``platform_name``
    units : (n,) units of each server, >= 1
    idle_watts, peak_watts : (n,)
    is_open : (n,) accepts new containers
    held_units : (n,) in use by any job
    room : (n, 3) free memory bytes, network bits/s and storage bytes
    allocation_id : (c,)
    job : (c,) index into ``job_id``
    assignment : (c,) server of each container
    size : (c,) units of each container, >= 1
    demand : (c, 3) memory, network and storage of each container
    intensity : (c,) of shared resources, 0-1
    is_taz : (c,)
    is_movable : (c,)
    job_id, job_name : (j,)
    communication : (j,) `Communication` class by measured traffic
    is_allowed : (j, n) servers that the request allows
    attainment : (j,) performance over target; NaN without a target or a measurement
    speed : (j, P) relative speed of a unit of each platform
    caused, tolerated : (j, N) scores, 0-100; tolerated is the lower end of its interval
    rates : (n,) cost of a watt, by objective that charges power (money, carbon)
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
    assignment: Ints
    size: Ints
    demand: Floats
    intensity: Floats
    is_taz: Bools
    is_movable: Bools
    job_id: tuple[str, ...]
    job_name: tuple[str, ...]
    communication: Ints
    is_allowed: Bools
    attainment: Floats
    speed: Floats
    caused: Floats
    tolerated: Floats
    rates: Mapping[str, Floats] = field(default_factory=dict)

    def containers(self) -> Ints:
        """(j,) number of containers of each job."""
        return np.bincount(self.job, minlength=len(self.job_id)).astype(np.int64)

    def counts_as(self) -> Ints:
        """(j,) `Communication` of each job, relaxed if no server (or rack) can hold its units."""
        total = np.bincount(self.job, self.size, len(self.job_id)).astype(np.int64)
        racks = np.bincount(self.rack, weights=self.units, minlength=len(self.rack_name))
        max_node, max_rack = int(self.units.max(initial=0)), int(racks.max(initial=0.0))
        return effective_communication(self.communication, total, max_node, max_rack)

    def watt_costs(self, weights: Mapping[str, float]) -> Floats:
        """(n,) increase of F per watt of each server, over all objectives that charge power."""
        cost: Floats = np.full(self.units.size, weights.get("P", 0.0) / self.scales()[0])
        for name, rate in self.rates.items():
            max_cost = float(rate @ self.peak_watts)
            if weights.get(name, 0.0) > 0.0 and max_cost > 0.0:
                cost = cost + weights[name] * rate / max_cost
        return cost

    def scales(self) -> tuple[float, float, float]:
        """Normalisation constants of P, D and C (their maximum); infinite if it is 0."""
        sensitive = self.containers()[self.counts_as() != Communication.CLUSTER].sum()
        maxima = (self.peak_watts.sum(), self.intensity.sum(), sensitive)
        p, d, c = (float(value) if value > 0 else np.inf for value in maxima)
        return p, d, c


@dataclass(frozen=True, slots=True)
class PlacementMetrics:
    """Objectives of one placement, not normalised.

    Attributes
    ----------
    watts : of the servers with a container, by their units in use
    diversity : D
    crossing : containers of jobs whose traffic crosses slow links (C)
    servers_on : servers with a container
    """

    watts: float
    diversity: float
    crossing: float
    servers_on: int

    def normalised(self, cluster: RunningCluster) -> dict[str, float]:
        """P, D, C in [0, 1]."""
        raw = (self.watts, self.diversity, self.crossing)
        pairs = zip(OBJECTIVES, raw, cluster.scales(), strict=True)
        return {name: value / scale for name, value, scale in pairs}


def measure(cluster: RunningCluster, assignment: Ints) -> PlacementMetrics:
    """Compute the metrics of a placement; O(n + c log c).

    Parameters
    ----------
    assignment : (c,) server of each container
    """
    watts = server_watts(cluster, assignment)
    is_credited = ~exposed_jobs(cluster, assignment)[cluster.job]
    return PlacementMetrics(
        watts=float(watts.sum()),
        diversity=float(credit(cluster.intensity, assignment)[is_credited].sum()),
        crossing=float(cluster.containers()[split_jobs(cluster, assignment)].sum()),
        servers_on=int(np.unique(assignment).size),
    )


def server_watts(cluster: RunningCluster, assignment: Ints) -> Floats:
    """(n,) watts of each server by its units in use; 0 if it has no container."""
    used = np.bincount(assignment, weights=cluster.size, minlength=cluster.units.size)
    span = cluster.peak_watts - cluster.idle_watts
    watts: Floats = np.where(used > 0, cluster.idle_watts + span * used / cluster.units, 0.0)
    return watts


def objective_value(
    cluster: RunningCluster, assignment: Ints, weights: Mapping[str, float]
) -> float:
    """F of a placement (minimised)."""
    metrics = measure(cluster, assignment).normalised(cluster)
    charged = float(cluster.watt_costs(weights) @ server_watts(cluster, assignment))
    return charged - weights.get("D", 0.0) * metrics["D"] + weights.get("C", 0.0) * metrics["C"]


def exposed_jobs(cluster: RunningCluster, assignment: Ints) -> Bools:
    """(j,) whether a taz of the job shares its server with another taz (its credit is lost)."""
    return exposed(cluster.is_taz, cluster.job, assignment, len(cluster.job_id))


def split_jobs(cluster: RunningCluster, assignment: Ints) -> Bools:
    """(j,) whether the job spans several of the servers or racks it should stay inside."""
    return split(cluster.counts_as(), cluster.job, assignment, cluster.rack)


def job_speed(cluster: RunningCluster, assignment: Ints, *, is_alone: bool = False) -> Floats:
    """(j,) predicted work per second of each job, relative; O(c x N).

    Parameters
    ----------
    is_alone : without interference
    """
    work = cluster.size * cluster.speed[cluster.job, cluster.platform[assignment]]
    if not is_alone:
        own = cluster.size[:, None] * cluster.caused[cluster.job]
        total = np.zeros((cluster.units.size, own.shape[1]))
        np.add.at(total, assignment, own)
        felt = pressure(total[assignment] - own, cluster.units[assignment])
        work = work * retained_share(felt, cluster.tolerated[cluster.job])
    return np.bincount(cluster.job, work, len(cluster.job_id)).astype(np.float64)


def meets_expectations(cluster: RunningCluster, speed: Floats, jobs: Ints | None = None) -> Bools:
    """Whether jobs keep the speed that sizing assumed, or exceed their targets by a margin.

    An attainment of 1 is not enough: a service that answers all its queries has 1, even just
    below saturation.

    Parameters
    ----------
    speed : predicted speed of ``jobs``
    jobs : indices; None for all jobs
    """
    chosen = np.arange(len(cluster.job_id)) if jobs is None else jobs
    alone = job_speed(cluster, cluster.assignment, is_alone=True)[chosen]
    ratio = speed / np.maximum(job_speed(cluster, cluster.assignment)[chosen], 1e-300)
    keeps: Bools = (
        (speed >= EXPECTED_SHARE * alone)
        | (ratio >= MIN_SPEED_RATIO)
        | (cluster.attainment[chosen] * ratio >= ATTAINMENT_MARGIN)
    )
    return keeps


def pressure(others: Floats, units: Ints) -> Floats:
    """(..., N) pressure on a container: mean score of the other units (Tarcil Eq. 3).

    Parameters
    ----------
    others : (..., N) sum of the scores of the neighbours' units
    units : (...) of the server
    """
    felt: Floats = np.clip(others / np.maximum(units - 1, 1)[..., None], 0.0, 100.0)
    return felt


def retained_share(felt: Floats, tolerated: Floats) -> Floats:
    """(...) predicted share of the isolated speed that a container keeps under pressure.

    Parameters
    ----------
    felt, tolerated : (..., N) pressure, and the pressure at which 95 % is kept
    """
    within = QOS_LOSS * np.minimum(felt / np.maximum(tolerated, 1.0), 1.0) ** LOSS_EXPONENT
    beyond = LOSS_PER_POINT * np.maximum(felt - tolerated, 0.0)
    left = np.maximum(1.0 - within - beyond, MIN_RETAINED)
    kept: Floats = np.maximum(np.prod(left, axis=-1), MIN_RETAINED)
    return kept


def to_instance(cluster: RunningCluster) -> Instance:
    """Convert to a problem with equal slots, for the search of a front.

    The slots of a server are its units divided by the mean size of its containers; an empty server
    uses the mean size of all containers. Power is then approximately preserved.
    """
    held = np.bincount(cluster.assignment, minlength=cluster.units.size)
    used = np.bincount(cluster.assignment, weights=cluster.size, minlength=cluster.units.size)
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
        communication=cluster.communication.copy(),
        current=cluster.assignment.copy(),
    )


def metrics_json(
    cluster: RunningCluster, assignment: Ints, weights: Mapping[str, float]
) -> dict[str, Any]:
    """JSON of the metrics of a placement and the number of targets predicted to be met."""
    metrics = measure(cluster, assignment)
    measured = ~np.isnan(cluster.attainment)
    met = (
        measured
        & (cluster.attainment >= 1.0)
        & meets_expectations(cluster, job_speed(cluster, assignment))
    )
    return {
        "watts": metrics.watts,
        "diversity": metrics.diversity,
        "crossing": metrics.crossing,
        "servers_on": metrics.servers_on,
        "normalised": metrics.normalised(cluster),
        "charged": {
            name: float(rate @ server_watts(cluster, assignment))
            for name, rate in cluster.rates.items()
        },
        "F": objective_value(cluster, assignment, weights),
        "targets_met": int(met.sum()),
        "targets_measured": int(measured.sum()),
    }
