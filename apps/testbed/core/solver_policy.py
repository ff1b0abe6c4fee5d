"""Policies that use the solver: Expert and Berth.

n nodes, j jobs. Policies see what `policies` describes. Source: ClavisMO §4.2 (Expert), C7, C9.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Ints
from apps.placement.core.problem.instance import NOWHERE, Instance
from apps.placement.core.problem.objectives import evaluate
from apps.placement.core.rebalancing.cluster import RunningCluster
from apps.placement.core.rebalancing.planner import improve
from apps.placement.core.solver.arrivals import place_arriving
from apps.placement.core.solver.migrations import ordered_migrations, relabel
from apps.placement.core.solver.registry import solve
from apps.placement.core.solver.run import SolverRun
from apps.testbed.core.monitor import JobEstimate, Monitor
from apps.testbed.core.policies import JobMigration, VisibleCluster, VisibleJob

Weights = Mapping[str, float]

SHORT_S: Final = 300.0  # shorter jobs are not migrated (§4.1)
MAX_MIGRATIONS: Final = 100  # per minute
MIN_LEFT_S: Final = 600.0  # jobs with less remaining run time are not migrated
DAY_S: Final = 86_400.0
_TICK_S: Final = 1e-3  # simulated time per reading of a search's clock; makes runs repeatable
_SEARCH_S: Final = 1.0
_BRIEF_S: Final = 0.2  # time limit for large clusters
_LARGE: Final = 2_000  # slots
_SMALL: Final = 64  # slots of a cluster that is also solved from scratch
_SPARE: Final = 16  # empty nodes of each rack that a search considers


class SolverPolicy:
    """Expert and Berth: place arrivals with the least increase of F; Berth also migrates.

    Tazes have intensity 1 and turtles 0, so that D is the number of protected tazes.
    """

    def __init__(
        self, name: str, monitor: Monitor, weights: Weights, *, stall_s: float, moves: bool
    ) -> None:
        self.name, self._weights, self._moves = name, dict(weights), moves
        self.monitor: Monitor | None = monitor if moves else None
        self._monitor = monitor
        self._stall_cost_s = self._weights.get("D", 0.0) * stall_s
        self._unchanged: list[tuple[int, ...]] = []

    def place(self, state: VisibleCluster, jobs: Sequence[VisibleJob]) -> list[list[int]]:
        """Place jobs that arrive at the same time together."""
        known = [*state.running.values(), *jobs]
        estimates = self._estimates_of(known)
        ends = np.cumsum([job.monitored.size for job in jobs])
        nodes = _considered_nodes(
            state, int(ends[-1]), is_by_rack=any(b.communication for b in estimates[-len(jobs) :])
        )
        instance = instance_of(state, known, estimates, nodes)
        placed = place_arriving(
            instance,
            self._scaled_weights(state, nodes),
            clock=_fixed_step_clock(),
            limit_s=_SEARCH_S if self._is_small(state) else 0.0,
        )
        fresh = nodes[placed[placed.size - ends[-1] :]]
        return [chosen.tolist() for chosen in np.split(fresh, ends[:-1])]

    def rearrange(self, state: VisibleCluster) -> list[JobMigration]:
        """Return migrations whose gain is above their cost."""
        jobs = list(state.running.values())
        estimates = self._estimates_of(jobs)
        known = [
            (*job.nodes, estimate.is_taz, estimate.communication, is_movable(state, job, estimate))
            for job, estimate in zip(jobs, estimates, strict=True)
        ]
        if not self._moves or not jobs or known == self._unchanged:
            return []
        found = self._by_bundles(state, jobs, estimates)
        if self._is_small(state):
            found = min(
                found, self._from_scratch(state, jobs, estimates), key=lambda plan: plan.value
            )
        self._unchanged = [] if found.steps else known
        return found.steps

    @staticmethod
    def _is_small(state: VisibleCluster) -> bool:
        return int(state.site.slots.sum()) <= _SMALL

    def _scaled_weights(self, state: VisibleCluster, nodes: Ints) -> dict[str, float]:
        """Scale the power weight to a subset of the nodes, so that F changes equally."""
        share = state.site.peak_watts[nodes].sum() / state.site.peak_watts.sum()
        return {**self._weights, "P": self._weights.get("P", 0.0) * float(share)}

    def _migration(
        self, state: VisibleCluster, jobs: Sequence[VisibleJob], estimates: Sequence[JobEstimate]
    ) -> float:
        """Return the cost of migrating every container once, in F.

        A migration stalls all containers of the job, so it costs the share of the stall in the
        remaining run time.
        """
        lost = [
            job.monitored.size / min(estimate.left_s, DAY_S)
            for job, estimate in zip(jobs, estimates, strict=True)
            if is_movable(state, job, estimate)
            for _ in job.nodes
        ]
        return self._stall_cost_s * float(np.mean(lost)) if lost else 0.0

    def _estimates_of(self, jobs: Sequence[VisibleJob]) -> list[JobEstimate]:
        return [self._monitor.of(job.monitored) for job in jobs]

    def _by_bundles(
        self, state: VisibleCluster, jobs: Sequence[VisibleJob], estimates: Sequence[JobEstimate]
    ) -> "_Plan":
        """Rebalance from the current placement, like the plans of the running cluster."""
        nodes = _considered_nodes(state, _SPARE, is_by_rack=True)
        cluster = cluster_of(state, jobs, estimates, nodes)
        migration = self._migration(state, jobs, estimates)
        found = improve(
            cluster,
            self._scaled_weights(state, nodes),
            clock=_fixed_step_clock(),
            limit_s=_BRIEF_S if state.site.slots.sum() > _LARGE else _SEARCH_S,
            max_migrations=MAX_MIGRATIONS,
            migration_cost=migration,
        )
        steps = [
            JobMigration(
                jobs[cluster.job[step.container]].monitored.key,
                int(nodes[step.source]),
                int(nodes[step.target]),
            )
            for bundle in found.bundles
            for step in bundle.migrations
        ]
        return _Plan(found.after + migration * len(steps) / cluster.job.size, steps)

    def _from_scratch(
        self, state: VisibleCluster, jobs: Sequence[VisibleJob], estimates: Sequence[JobEstimate]
    ) -> "_Plan":
        """Solve from scratch and migrate to the solution with few migrations."""
        nodes = np.flatnonzero(state.slots > 0)
        instance = instance_of(state, jobs, estimates, nodes)
        search = SolverRun(
            instance,
            self._weights,
            clock=_fixed_step_clock(),
            limit_s=_SEARCH_S,
            max_restarts=0,
        )
        steps = ordered_migrations(instance, relabel(instance, solve(search).assignment))
        after = instance.current.copy()
        for step in steps:
            after[step.container] = step.target
        value = evaluate(instance, after, self._weights).F
        charge = self._migration(state, jobs, estimates) * len(steps) / instance.job.size
        fixed = [not is_movable(state, *each) for each in zip(jobs, estimates, strict=True)]
        if any(fixed[instance.job[step.container]] for step in steps):
            return _Plan(np.inf, [])
        keys = [jobs[job].monitored.key for job in instance.job.tolist()]
        moved = [
            JobMigration(keys[step.container], int(nodes[step.source]), int(nodes[step.target]))
            for step in steps
        ]
        return _Plan(value + charge, moved)


class _Plan(NamedTuple):
    """Migrations, and F after them including their cost."""

    value: float
    steps: list[JobMigration]


def _fixed_step_clock() -> Callable[[], float]:
    """Return a clock that advances by a fixed time per reading, so that runs are repeatable."""
    ticks = count()
    return lambda: next(ticks) * _TICK_S


def is_movable(state: VisibleCluster, job: VisibleJob, estimate: JobEstimate) -> bool:
    """Whether a job is long enough, and has enough remaining run time, to be migrated."""
    is_long = job.nominal_s >= SHORT_S or state.now - job.started_s >= SHORT_S
    return is_long and estimate.left_s >= MIN_LEFT_S


def _considered_nodes(state: VisibleCluster, spare_nodes: int, *, is_by_rack: bool) -> Ints:
    """(m,) nodes in use, and a number of empty ones per rack or in total."""
    empty = np.flatnonzero(state.held == 0)
    rack = state.site.rack[empty] if is_by_rack else np.zeros_like(empty)
    order = np.argsort(rack, kind="stable")
    first = np.searchsorted(rack[order], rack[order])
    spare = empty[order[np.arange(empty.size) - first < spare_nodes]]
    in_use = np.flatnonzero((state.held > 0) & (state.slots > 0))
    return np.sort(np.concatenate([in_use, spare]))


def instance_of(
    state: VisibleCluster,
    jobs: Sequence[VisibleJob],
    estimates: Sequence[JobEstimate],
    nodes: Ints,
) -> Instance:
    """Return the placement problem on some nodes, with estimated classes."""
    site, sizes = state.site, [job.monitored.size for job in jobs]
    job = np.repeat(np.arange(len(jobs)), sizes)
    placements = [job.nodes or [NOWHERE] * job.monitored.size for job in jobs]
    is_taz = np.array([estimate.is_taz for estimate in estimates], dtype=np.bool_)[job]
    racks, rack = np.unique(site.rack[nodes], return_inverse=True)
    return Instance(
        node_ids=tuple(map(str, nodes.tolist())),
        rack_ids=tuple(map(str, racks.tolist())),
        rack=rack.reshape(-1).astype(np.int64),
        slots=state.slots[nodes],
        idle_watts=site.idle_watts[nodes],
        peak_watts=site.peak_watts[nodes],
        container_ids=tuple(map(str, range(job.size))),
        job_ids=tuple(job.monitored.key for job in jobs),
        job=job,
        intensity=is_taz.astype(np.float64),
        is_taz=is_taz,
        communication=np.array([estimate.communication for estimate in estimates], dtype=np.int64),
        current=_positions(nodes, site.slots.size)[
            np.array([node for nodes in placements for node in nodes], dtype=np.int64)
        ],
    )


def _positions(nodes: Ints, size: int) -> Ints:
    """(size + 1,) position of each node in ``nodes``; `NOWHERE` for others and the last entry."""
    at = np.full(size + 1, NOWHERE, dtype=np.int64)
    at[nodes] = np.arange(nodes.size)
    return at


def cluster_of(
    state: VisibleCluster,
    jobs: Sequence[VisibleJob],
    estimates: Sequence[JobEstimate],
    nodes: Ints,
) -> RunningCluster:
    """Return the rebalancing problem on some nodes; every container has one unit."""
    site, sizes = state.site, [len(job.nodes) for job in jobs]
    job = np.repeat(np.arange(len(jobs)), sizes)
    at = _positions(nodes, site.slots.size)
    is_movable_job = [is_movable(state, *each) for each in zip(jobs, estimates, strict=True)]
    is_taz = np.array([estimate.is_taz for estimate in estimates], dtype=np.bool_)[job]
    c, j, n = job.size, len(jobs), nodes.size
    return RunningCluster(
        at_s=state.now,
        sequence=0,
        server_id=nodes,
        server_name=tuple(map(str, nodes.tolist())),
        rack=site.rack[nodes],
        rack_name=tuple(map(str, range(int(site.rack.max()) + 1))),
        platform=np.zeros(n, dtype=np.int64),
        platform_name=("",),
        units=site.slots[nodes],
        idle_watts=site.idle_watts[nodes],
        peak_watts=site.peak_watts[nodes],
        is_open=np.ones(n, dtype=np.bool_),
        held_units=state.held[nodes],
        room=np.zeros((n, 3)),
        allocation_id=np.arange(c),
        job=job,
        assignment=at[np.array([node for each in jobs for node in each.nodes], dtype=np.int64)],
        size=np.ones(c, dtype=np.int64),
        demand=np.zeros((c, 3)),
        intensity=is_taz.astype(np.float64),
        is_taz=is_taz,
        is_movable=np.array(is_movable_job, dtype=np.bool_)[job],
        job_id=tuple(each.monitored.key for each in jobs),
        job_name=tuple(each.monitored.program for each in jobs),
        communication=np.array([estimate.communication for estimate in estimates], dtype=np.int64),
        is_allowed=np.ones((j, n), dtype=np.bool_),
        attainment=np.full(j, np.nan),
        speed=np.ones((j, 1)),
        # Scores are unknown here, so that no job is predicted to become slower.
        caused=np.zeros((j, N_SOURCES)),
        tolerated=np.full((j, N_SOURCES), 100.0),
    )
