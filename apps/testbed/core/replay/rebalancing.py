"""The rebalancing loop of production in a replay: plans by the weights of a preference set.

Every interval, monitor readings become container classes, the running jobs become the planning
problem of production (`placement.core.rebalancing`), and its search proposes bundles. Limits and
the cost of a migration are the defaults of production's loop. What differs: the search has a fixed
number of steps instead of wall time, so that a replay repeats; attainment of targets is unknown,
so that no job may become slower because it exceeds its target; and migrations take the expected
time. c containers: a container is the part of a job on one server. Source: ClavisMO §4.1, C7.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, NamedTuple

import numpy as np

from apps.emulation.core.events import Machines
from apps.execution.core.migration import migration_s
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.monitoring.classes import (
    LOUD_SHARE,
    REFIT_S,
    ContainerClasses,
    LocalityLimits,
    Metric,
    communication,
    intensities,
)
from apps.placement.core.monitoring.metrics import (
    container_metrics,
    fit_thresholds,
    self_interference_loss,
)
from apps.placement.core.problem.instance import Communication
from apps.placement.core.rebalancing.bundles import Bundle
from apps.placement.core.rebalancing.cluster import RunningCluster
from apps.placement.core.rebalancing.planner import RebalancingResult, improve
from apps.scheduling.core.cluster.capacity import unit_vectors
from apps.testbed.core.replay.demand import Demand
from apps.testbed.core.replay.migrating import ClusterView, Migration

HOUR_S: Final = 3600.0
STEP_S: Final = 2e-3  # time of one step of a search: 1,000 steps in `LoopLimits.solve_s`
MAX_SEARCHES: Final = 2  # the second without containers that would return

Container = tuple[int, int]  # job and server


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """Settings of production's loop (`placement.models.RebalancingLoop`), with its defaults."""

    solve_s: float = 2.0
    moves_per_plan: int = 40
    moves_per_minute: int = 20
    moves_per_job: int = 2
    youngest_s: float = 300.0
    least_gain: float = 0.0005
    migration: float = 0.05


class _Containers(NamedTuple):
    """The running containers: jobs by number, and their monitor readings.

    Attributes
    ----------
    jobs : (j,) numbers of the jobs
    job, server, size : (c,) index into ``jobs``, server, units
    progress : (j,) completed share; NaN without an end
    per_unit : (j, 3) metrics of one unit
    traffic_bps : (j,) of one unit
    """

    jobs: list[int]
    job: Ints
    server: Ints
    size: Ints
    progress: Floats
    per_unit: Floats
    traffic_bps: Floats

    @property
    def keys(self) -> list[Container]:
        """(c,) job and server of each container."""
        jobs = (self.jobs[each] for each in self.job.tolist())
        return list(zip(jobs, self.server.tolist(), strict=True))


class Rebalancer:
    """The planner of one run."""

    def __init__(
        self,
        demand: Demand,
        machines: Machines,
        weights: Mapping[str, float],
        *,
        interval_s: float,
        limits: LoopLimits | None = None,
    ) -> None:
        self._limits = limits or LoopLimits()
        self.interval_s = interval_s
        self.decision_s = self._limits.solve_s
        self.per_minute = self._limits.moves_per_minute
        self._demand, self._machines, self._weights = demand, machines, dict(weights)
        self._classes: dict[Container, tuple[float, bool, float]] = {}  # intensity, taz, read
        self._communication: dict[int, int] = {}
        self._thresholds: dict[tuple[int, Metric], float] = {}
        self._fitted_s = -np.inf
        self._planned: dict[int, list[float]] = {}  # times of plans, by job
        self._left: dict[Container, float] = {}  # when a job left a server
        self._fruitless: tuple[object, ...] = ()

    def plan(self, view: ClusterView, now: float) -> Sequence[Migration] | None:
        """Return the migrations of a plan; None while those of an earlier one are open."""
        containers = _read(view)
        classes = self._classify(containers, now)
        job_class = self._communicate(containers)
        if view.has_pending:
            return None
        cluster = self._cluster(view, containers, classes, job_class, now)
        state = self._state(containers, classes, job_class, cluster.is_movable)
        if state == self._fruitless or not cluster.is_movable.any():
            return None
        bundles = self._search(cluster, containers, now)
        if not bundles:
            self._fruitless = state
            return None
        return self._migrations(cluster, containers, bundles, now)

    def started(self, migration: Migration) -> None:
        """Note nothing: the next plan reads where the containers are."""

    def _classify(self, containers: _Containers, now: float) -> ContainerClasses:
        """Update the classes of the containers; a migrated one keeps those of its job."""
        units = self._machines.units[containers.server]
        metrics = container_metrics(containers.per_unit[containers.job], containers.size, units)
        if now - self._fitted_s >= REFIT_S:
            self._fit(containers, metrics, now)
        platform = self._machines.platform[containers.server].tolist()
        limits = np.array(
            [[self._thresholds.get((each, m), np.inf) for m in Metric] for each in platform]
        ).reshape(-1, len(Metric))
        known = {job: classes for (job, _), classes in self._classes.items()}
        new = (float("nan"), False, -np.inf)
        before = [self._classes.get(key, known.get(key[0], new)) for key in containers.keys]
        after = ContainerClasses(
            np.array([each[0] for each in before]), np.array([each[1] for each in before], bool)
        ).after(intensities(metrics, limits), now - np.array([each[2] for each in before]))
        rows = zip(after.intensity.tolist(), after.is_taz.tolist(), strict=True)
        pairs = zip(containers.keys, rows, strict=True)
        self._classes = {key: (*row, now) for key, row in pairs}
        return after

    def _fit(self, containers: _Containers, metrics: Floats, now: float) -> None:
        """Fit the thresholds of the platforms to the profiles of what runs there."""
        lost = self_interference_loss(
            containers.size,
            self._machines.units[containers.server],
            self._scores(containers, "caused")[containers.job],
            self._scores(containers, "tolerated")[containers.job],
        )
        fitted = fit_thresholds(metrics, lost, self._machines.platform[containers.server])
        self._thresholds |= {key: threshold.value for key, threshold in fitted.items()}
        self._fitted_s = now

    def _scores(self, containers: _Containers, name: str) -> Floats:
        """(j, N) scores of the profiles."""
        profiles = [self._demand.profile(job) for job in containers.jobs]
        return np.array([getattr(profile, name).value for profile in profiles])

    def _communicate(self, containers: _Containers) -> Ints:
        """(j,) communication class of each job; one with one container does not communicate."""
        j = len(containers.jobs)
        units = np.bincount(containers.job, containers.size, j).astype(np.int64)
        parts = np.bincount(containers.job, minlength=j)
        machines = self._machines
        racks = np.bincount(machines.rack, weights=machines.units)
        limit = LOUD_SHARE * float(np.median(machines.network_bps)) / 8.0
        classes = communication(
            np.array([self._communication.get(job, 0) for job in containers.jobs]),
            containers.traffic_bps / 8.0 * units / parts,
            units,
            LocalityLimits(int(machines.units.max()), int(racks.max()), limit),
        )
        self._communication = dict(zip(containers.jobs, classes.tolist(), strict=True))
        return np.where(parts > 1, classes, int(Communication.CLUSTER))

    def _cluster(
        self,
        view: ClusterView,
        containers: _Containers,
        classes: ContainerClasses,
        job_class: Ints,
        now: float,
    ) -> RunningCluster:
        """Return the planning problem."""
        topology, state, machines = view.cluster.topology, view.cluster.view(), self._machines
        n, j = machines.units.size, len(containers.jobs)
        free = np.add.reduceat(state.unit_free, topology.server_first_unit, dtype=np.int64)
        names = [str(job) for job in containers.jobs]
        profiles = [self._demand.profile(job) for job in containers.jobs]
        is_movable = self._movable(view, containers, now)[containers.job]
        return RunningCluster(
            at_s=now,
            sequence=view.cluster.sequence,
            server_id=topology.server_id,
            server_name=topology.server_name,
            rack=machines.rack.astype(np.int64),
            rack_name=topology.rack_name,
            platform=machines.platform.astype(np.int64),
            platform_name=topology.platform_name,
            units=machines.units,
            idle_watts=machines.idle_watts,
            peak_watts=machines.peak_watts,
            is_open=state.server_open,
            held_units=machines.units - free,
            room=np.maximum(state.server_free, 0.0),
            allocation_id=np.arange(containers.job.size),
            job=containers.job,
            assignment=containers.server,
            size=containers.size,
            demand=_demands(view, containers),
            intensity=np.nan_to_num(classes.intensity, nan=0.0),
            is_taz=classes.is_taz,
            is_movable=is_movable,
            job_id=tuple(names),
            job_name=tuple(names),
            communication=job_class,
            is_allowed=np.ones((j, n), dtype=np.bool_),
            attainment=np.full(j, np.nan),
            speed=np.array([profile.platform_speed.value for profile in profiles]),
            caused=self._scores(containers, "caused"),
            tolerated=np.array([profile.assumed_tolerance for profile in profiles]),
        )

    def _movable(self, view: ClusterView, containers: _Containers, now: float) -> Bools:
        """(j,) jobs that are neither young, nor about to end, nor migrated often."""
        since_s = np.array([view.running[job].since_s for job in containers.jobs])
        ran_s, done = now - since_s, containers.progress
        with np.errstate(divide="ignore", invalid="ignore"):
            left_s = np.where(done > 0.0, ran_s * (1.0 - done) / done, np.inf)
        ends_s = np.array([self._demand.ends_after_s(job) for job in containers.jobs])
        plans = np.array(
            [
                sum(at > now - HOUR_S for at in self._planned.get(job, ()))
                for job in containers.jobs
            ]
        )
        youngest_s = self._limits.youngest_s
        movable: Bools = (
            (ran_s >= youngest_s)
            & (np.minimum(left_s, ends_s - ran_s) >= youngest_s)
            & (plans < self._limits.moves_per_job)
        )
        return movable

    @staticmethod
    def _state(
        containers: _Containers, classes: ContainerClasses, job_class: Ints, is_movable: Bools
    ) -> tuple[object, ...]:
        """Return what a search depends on, besides intensities and the room of the cluster."""
        columns = (classes.is_taz, job_class, is_movable)
        return (tuple(containers.keys), *(column.tobytes() for column in columns))

    def _search(
        self, cluster: RunningCluster, containers: _Containers, now: float
    ) -> Sequence[Bundle]:
        """Return bundles that gain enough; none returns a container within the hour."""
        for _ in range(MAX_SEARCHES):
            found = self._improve(cluster)
            if found.before - found.after < self._limits.least_gain:
                return ()
            back = [
                step.container
                for bundle in found.bundles
                for step in bundle.migrations
                if now - self._left_s(containers, step.container, step.target) < HOUR_S
            ]
            if not back:
                return found.bundles
            movable = cluster.is_movable.copy()
            movable[back] = False
            cluster = replace(cluster, is_movable=movable)
        return ()

    def _improve(self, cluster: RunningCluster) -> RebalancingResult:
        steps = count()
        return improve(
            cluster,
            self._weights,
            clock=lambda: next(steps) * STEP_S,
            limit_s=self._limits.solve_s,
            max_migrations=self._limits.moves_per_plan,
            migration_cost=self._limits.migration,
        )

    def _left_s(self, containers: _Containers, container: int, server: int) -> float:
        job = containers.jobs[int(containers.job[container])]
        return self._left.get((job, server), -np.inf)

    def _migrations(
        self,
        cluster: RunningCluster,
        containers: _Containers,
        bundles: Sequence[Bundle],
        now: float,
    ) -> list[Migration]:
        """Return the migrations of bundles, and note them against their return."""
        network, found = self._machines.network_bps, []
        for step in (step for bundle in bundles for step in bundle.migrations):
            job = containers.jobs[int(containers.job[step.container])]
            memory = self._demand.truth(job).demand.memory_bytes
            units = int(cluster.size[step.container])
            seconds = migration_s(
                memory * units, float(network[step.source]), float(network[step.target])
            )
            found.append(Migration(job, step.source, step.target, units, seconds))
            self._left[job, step.source] = now
        for job in {each.job for each in found}:
            self._planned.setdefault(job, []).append(now)
        return found


def _read(view: ClusterView) -> _Containers:
    """Read the monitors of all running jobs."""
    jobs = list(view.running)
    readings = view.engine.jobs(jobs)
    parts = [
        (place, server, units)
        for place, job in enumerate(jobs)
        for server, (_, units) in sorted(view.running[job].parts.items())
    ]
    job, server, size = np.array(parts, dtype=np.int64).reshape(-1, 3).T
    return _Containers(
        jobs,
        job,
        server,
        size,
        progress=readings.progress,
        per_unit=np.stack(
            [readings.memory_rate, readings.network_wait, readings.disk_wait], axis=1
        ),
        traffic_bps=readings.traffic_bps,
    )


def _demands(view: ClusterView, containers: _Containers) -> Floats:
    """(c, 3) memory, network and storage that each container holds."""
    topology = view.cluster.topology
    rows = [
        size * unit_vectors(topology, np.array([server]), view.running[job].request)[0]
        for (job, server), size in zip(containers.keys, containers.size.tolist(), strict=True)
    ]
    return np.array(rows).reshape(-1, 3)
