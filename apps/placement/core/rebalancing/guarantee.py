"""Whether jobs stay fast enough when containers migrate."""

from collections.abc import Iterable, Sequence

import numpy as np

from apps.placement.core.rebalancing.cluster import (
    ATTAINMENT_MARGIN,
    EXPECTED_SHARE,
    MIN_SPEED_RATIO,
    RunningCluster,
    job_speed,
)
from apps.placement.core.rebalancing.state import PlacementState
from apps.placement.core.solver.migrations import ContainerMigration


class SpeedGuarantee:
    """Compares the speeds of jobs in a placement state with those before any migration.

    Attributes
    ----------
    min_share : (c,) smallest share of its isolated speed that each container may keep
    """

    def __init__(
        self, cluster: RunningCluster, state: PlacementState, containers_of: Sequence[list[int]]
    ) -> None:
        self._cluster, self._state, self._containers_of = cluster, state, containers_of
        self._initial_speed = job_speed(cluster, cluster.assignment)
        self._isolated_speed = job_speed(cluster, cluster.assignment, is_alone=True)
        self._speed = self._initial_speed.copy()
        slowdowns = state.predicted_slowdowns(range(cluster.units.size))
        retained = [slowdowns[c].retained_share for c in range(cluster.job.size)]
        self.min_share = np.minimum(EXPECTED_SHARE, MIN_SPEED_RATIO * np.array(retained))

    def keeps_speed(self, servers: Iterable[int]) -> bool:
        """Whether all containers there keep the expected share of speed, or their initial one."""
        slowdowns = self._state.predicted_slowdowns(servers)
        return all(
            slowdown.retained_share >= self.min_share[container]
            for container, slowdown in slowdowns.items()
        )

    def meets_expectations(self, migrations: list[ContainerMigration]) -> bool:
        """Whether every affected job stays fast enough; see `cluster.meets_expectations`.

        A job that earlier bundles slowed down may also keep its present speed.
        """
        if not self.keeps_speed({migration.target for migration in migrations}):
            return False
        affected = self._affected_speeds(migrations)
        jobs = np.array(list(affected), dtype=np.int64)
        speed = np.array(list(affected.values()))
        ratio = speed / np.maximum(self._initial_speed[jobs], 1e-300)
        is_met = (
            (speed >= EXPECTED_SHARE * self._isolated_speed[jobs])
            | (ratio >= MIN_SPEED_RATIO)
            | (speed >= self._speed[jobs])
            | (self._cluster.attainment[jobs] * ratio >= ATTAINMENT_MARGIN)
        )
        return bool(is_met.all())

    def record(self, migrations: Iterable[ContainerMigration]) -> None:
        """Store the present speeds of the jobs that applied migrations affect."""
        for job, speed in self._affected_speeds(migrations).items():
            self._speed[job] = speed

    def _affected_speeds(self, migrations: Iterable[ContainerMigration]) -> dict[int, float]:
        """Predicted speed of each job with a container on a source or target server."""
        state = self._state
        servers = {server for m in migrations for server in (m.source, m.target)}
        jobs = sorted({int(self._cluster.job[c]) for server in servers for c in state.on[server]})
        slowdowns = state.predicted_slowdowns(
            {state.assignment[c] for job in jobs for c in self._containers_of[job]}
        )
        return {job: sum(slowdowns[c].speed for c in self._containers_of[job]) for job in jobs}
