"""Bundles of migrations around a server or a job: built, evaluated and applied to a state.

Source: ClavisMO §3.2, C6; the kinds of bundles are ours.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Ints
from apps.placement.core.problem.instance import Communication
from apps.placement.core.rebalancing.cluster import (
    MIN_SPEED_RATIO,
    RunningCluster,
    pressure,
    retained_share,
)
from apps.placement.core.rebalancing.guarantee import SpeedGuarantee
from apps.placement.core.rebalancing.obstacles import Obstacle
from apps.placement.core.rebalancing.state import PlacementState
from apps.placement.core.solver.migrations import ContainerMigration

MAX_TARGETS: Final = 4  # acceptable targets of a container that are compared
MAX_CHECKED: Final = 16  # targets checked to find them
LOW_PRESSURE: Final = 50.0
MIN_GAIN: Final = 1e-9
DIGITS: Final = 12  # after the point, to which F is compared; further ones are rounding errors


class BundlePurpose(StrEnum):
    """Reason for a bundle."""

    EMPTY = "empty"
    PROTECT = "protect"
    GATHER = "gather"
    IMPROVE = "improve"


@dataclass(frozen=True, slots=True)
class Bundle:
    """Migrations that are only useful together, in execution order.

    Attributes
    ----------
    subject : index of the server emptied, or of the job protected, gathered or improved
    gain : decrease of F without the cost of the migrations, > 0
    """

    purpose: BundlePurpose
    subject: int
    migrations: tuple[ContainerMigration, ...]
    gain: float


class BundleCandidate(NamedTuple):
    """Purpose of a possible bundle and the index of its server, job or (IMPROVE) container."""

    purpose: BundlePurpose
    subject: int


class BundleBuilder:
    """Builds bundles on a placement state and checks the speed guarantees of all jobs.

    Parameters
    ----------
    price : cost of one migration, in F

    Attributes
    ----------
    obstacle : why the last candidate was refused; None if it became a bundle, or has nothing to
        migrate
    """

    def __init__(self, cluster: RunningCluster, weights: dict[str, float], price: float) -> None:
        self._cluster, self._price = cluster, price
        self.obstacle: Obstacle | None = None
        self._state = PlacementState(cluster, weights)
        self._is_fixed = ~cluster.is_movable
        self._containers_of: list[list[int]] = [[] for _ in cluster.job_id]
        for container, job in enumerate(cluster.job.tolist()):
            self._containers_of[job].append(container)
        self._counts_as: list[int] = cluster.counts_as().tolist()
        self._guarantee = SpeedGuarantee(cluster, self._state, self._containers_of)

    @property
    def assignment(self) -> Ints:
        """(c,) server of each container after the applied bundles."""
        return np.array(self._state.assignment, dtype=np.int64)

    # ---- candidates ----

    def bundle_candidates(self) -> Iterator[BundleCandidate]:
        """Yield candidates for bundles, servers with the most idle watts per container first."""
        state, cluster = self._state, self._cluster
        jobs = range(len(cluster.job_id))
        on = np.flatnonzero(state.filled)
        watts = cluster.idle_watts[on] / state.filled[on]
        queues = [
            [(BundlePurpose.EMPTY, int(s)) for s in on[np.argsort(-watts, kind="stable")]],
            [(BundlePurpose.GATHER, job) for job in jobs if state.is_split(job)],
            [(BundlePurpose.PROTECT, job) for job in jobs if state.is_exposed(job)],
        ]
        for round_ in zip_longest(*queues):
            yield from (BundleCandidate(*pair) for pair in round_ if pair is not None)

    def single_candidates(self) -> Iterator[BundleCandidate]:
        """Yield movable containers by descending intensity."""
        order = np.argsort(-self._cluster.intensity, kind="stable")
        for container in order:
            if not self._is_fixed[container]:
                yield BundleCandidate(BundlePurpose.IMPROVE, int(container))

    def candidates_after(self, bundle: Bundle) -> Iterable[BundleCandidate]:
        """Yield the source servers of an applied bundle that are not empty yet."""
        for migration in bundle.migrations:
            if self._state.filled[migration.source]:
                yield BundleCandidate(BundlePurpose.EMPTY, migration.source)

    # ---- bundles ----

    def evaluate(self, candidate: BundleCandidate, limit: int) -> Bundle | None:
        """Build the bundle of a candidate; return None if it does not pay.

        The state is the same afterwards.
        """
        state = self._state
        before, self.obstacle = state.value, None
        migrations = self._try_candidate(candidate, limit)
        if not migrations:
            state.value = before  # discards the rounding errors of undone migrations
            return None
        gain = before - state.value
        if gain <= self._price * len(migrations) + MIN_GAIN:
            self.obstacle = Obstacle.COST
        elif not self._guarantee.meets_expectations(migrations):
            self.obstacle = Obstacle.SLOWER
        else:
            self.obstacle = None
        self._undo(migrations)
        state.value = before
        if self.obstacle is not None:
            return None
        return Bundle(candidate.purpose, self._subject(candidate), tuple(migrations), gain)

    def _subject(self, candidate: BundleCandidate) -> int:
        if candidate.purpose is BundlePurpose.IMPROVE:
            return int(self._cluster.job[candidate.subject])
        return candidate.subject

    def _try_candidate(self, candidate: BundleCandidate, limit: int) -> list[ContainerMigration]:
        """Apply the migrations of a candidate to the state; none if not all are possible."""
        subject = candidate.subject
        match candidate.purpose:
            case BundlePurpose.EMPTY:
                containers = self._largest_first(self._state.on[subject])
                return self._move_each(containers, limit, only_on=True)
            case BundlePurpose.GATHER:
                return self._gather(subject, limit)
            case BundlePurpose.PROTECT:
                return self._protect(subject, limit)
            case BundlePurpose.IMPROVE:
                return self._move_each([subject], limit)

    def _largest_first(self, containers: Iterable[int]) -> list[int]:
        return sorted(containers, key=lambda c: -int(self._cluster.size[c]))

    def _move_each(
        self, containers: list[int], limit: int, *, only_on: bool = False
    ) -> list[ContainerMigration]:
        """Move each container to its best target; none if one has no target."""
        if not containers or self._refuses(containers, limit):
            return []
        migrations: list[ContainerMigration] = []
        for container in containers:
            target = self._best_target(container, only_on=only_on)
            if target is None:
                self._undo(migrations)
                return []
            migrations.append(self._migrate(container, target))
        return migrations

    def _refuses(self, containers: list[int], limit: int) -> bool:
        """Whether a container is fixed or there are too many; sets the obstacle."""
        fixed = [c for c in containers if self._is_fixed[c]]
        if fixed:
            is_pinned = not self._cluster.is_movable[fixed].all()
            self.obstacle = Obstacle.PINNED if is_pinned else Obstacle.MOVED
        elif len(containers) > limit:
            self.obstacle = Obstacle.LIMIT
        else:
            return False
        return True

    def _migrate(self, container: int, target: int) -> ContainerMigration:
        migration = ContainerMigration(container, self._state.assignment[container], target)
        self._state.move(container, target)
        return migration

    def _protect(self, job: int, limit: int) -> list[ContainerMigration]:
        """Separate each exposed taz of a job from other tazes, by moving it or the others."""
        state, cluster = self._state, self._cluster
        migrations: list[ContainerMigration] = []
        for container in self._containers_of[job]:
            server = state.assignment[container]
            if not cluster.is_taz[container] or state.tazes[server] < 2:
                continue
            others = [c for c in state.on[server] if cluster.is_taz[c] and c != container]
            movers = [container] if not self._is_fixed[container] else others
            if self._refuses(movers, limit - len(migrations)):
                self._undo(migrations)
                return []
            for mover in movers:
                added = self._isolate(mover, {m.container for m in migrations})
                if not added or len(migrations) + len(added) > limit:
                    self.obstacle = Obstacle.LIMIT if added else self.obstacle
                    self._undo([*migrations, *added])
                    return []
                migrations += added
        return migrations

    def _isolate(self, container: int, moved: set[int]) -> list[ContainerMigration]:
        """Move a container to a server without a taz, after evicting a turtle if necessary.

        Parameters
        ----------
        moved : containers that this bundle has moved already
        """
        state = self._state
        if (target := self._best_target(container, no_taz=True)) is not None:
            return [self._migrate(container, target)]
        for server in self._eviction_targets(container):
            for turtle in sorted(state.on[server], key=lambda c: int(self._cluster.size[c])):
                if self._is_fixed[turtle] or turtle in moved:
                    continue
                target = self._best_target(turtle, only_on=True)
                if target is None:
                    continue
                migrations = [self._migrate(turtle, target)]
                if self._is_suitable(container)[server]:
                    migrations.append(self._migrate(container, server))
                    if self._guarantee.keeps_speed([server]):
                        return migrations
                self._undo(migrations)
        return []

    def _eviction_targets(self, container: int) -> list[int]:
        """Find servers without a taz that might fit the container after evicting a turtle."""
        state, cluster = self._state, self._cluster
        job = cluster.job[container]
        speed = cluster.speed[job]
        current_speed = speed[cluster.platform[state.assignment[container]]]
        is_candidate = (
            cluster.is_open
            & cluster.is_allowed[job]
            & (state.tazes == 0)
            & (state.filled > 0)
            & (speed[cluster.platform] >= current_speed * MIN_SPEED_RATIO)
            & (cluster.units >= cluster.size[container])
        )
        servers = np.flatnonzero(is_candidate)
        order = np.argsort(-state.free[servers], kind="stable")
        return [int(s) for s in servers[order[:MAX_TARGETS]]]

    def _gather(self, job: int, limit: int) -> list[ContainerMigration]:
        """Move a job to the server (or rack) with most of its containers that has room."""
        state, cluster = self._state, self._cluster
        by_rack = self._counts_as[job] == Communication.RACK
        places = state.racks_of(job) if by_rack else state.servers_of(job)
        for place, _ in places.most_common(MAX_TARGETS):
            outside = [
                c
                for c in self._containers_of[job]
                if (int(cluster.rack[state.assignment[c]]) if by_rack else state.assignment[c])
                != place
            ]
            if self._refuses(outside, limit):
                continue
            migrations: list[ContainerMigration] = []
            for container in self._largest_first(outside):
                if by_rack:
                    target = self._best_target(container, rack=place)
                else:
                    target = place if self._is_suitable(container)[place] else None
                    self.obstacle = Obstacle.NO_ROOM if target is None else self.obstacle
                if target is None:
                    break
                migrations.append(self._migrate(container, target))
            if len(migrations) == len(outside):
                return migrations
            self._undo(migrations)
        return []

    # ---- targets ----

    def _is_suitable(self, container: int) -> Bools:
        """(n,) servers with room and a platform at least as fast as the current one."""
        state, cluster = self._state, self._cluster
        speed = cluster.speed[cluster.job[container]]
        current_speed = speed[cluster.platform[state.assignment[container]]]
        return state.fits(container) & (speed[cluster.platform] >= current_speed * MIN_SPEED_RATIO)

    def _best_target(
        self,
        container: int,
        *,
        only_on: bool = False,
        no_taz: bool = False,
        rack: int | None = None,
    ) -> int | None:
        """Find the target with the lowest F among the first acceptable ones; None if none fits.

        Parameters
        ----------
        only_on : only servers that hold a container
        no_taz : only servers without a taz
        """
        state, cluster = self._state, self._cluster
        is_candidate = self._is_suitable(container)
        if only_on:
            is_candidate &= state.filled > 0
        if no_taz:
            is_candidate &= state.tazes == 0
        if rack is not None:
            is_candidate &= cluster.rack == rack
        servers = np.flatnonzero(is_candidate)
        if not servers.size:
            self.obstacle = Obstacle.NO_ROOM
            return None
        best, lowest, compared = None, np.inf, 0
        for target in self._ranked_targets(container, servers):
            source, before = state.assignment[container], state.value
            state.move(container, target)
            if self._guarantee.keeps_speed([target]):
                compared += 1
                value = round(state.value, DIGITS)
                if value < lowest:
                    best, lowest = target, value
            state.move(container, source)
            state.value = before
            if compared == MAX_TARGETS:
                break
        self.obstacle = Obstacle.SLOWER if best is None else self.obstacle
        return best

    def _ranked_targets(self, container: int, servers: Ints) -> list[int]:
        """Rank by: no second taz, switched on, same rack, low pressure, fewest free units.

        Servers on which the container itself would become too slow are dropped.
        """
        state, cluster = self._state, self._cluster
        job = int(cluster.job[container])
        felt = pressure(state.caused[servers], cluster.units[servers])
        share = retained_share(felt, cluster.tolerated[job])
        is_fast = share >= self._guarantee.min_share[container]
        servers, felt = servers[is_fast], felt[is_fast]
        is_near = np.isin(cluster.rack[servers], list(state.racks_of(job)))
        has_clash = (state.tazes[servers] > 0) & bool(cluster.is_taz[container])
        is_off = state.filled[servers] == 0
        is_loud = felt.max(axis=1, initial=0.0) > LOW_PRESSURE
        order = np.lexsort((state.free[servers], is_loud, ~is_near, is_off, has_clash))
        return [int(s) for s in servers[order[:MAX_CHECKED]]]

    # ---- changes of the state ----

    def apply(self, bundle: Bundle) -> None:
        """Apply a bundle; its containers are fixed afterwards."""
        for migration in bundle.migrations:
            self._state.move(migration.container, migration.target)
            self._is_fixed[migration.container] = True
        self._guarantee.record(bundle.migrations)

    def _undo(self, migrations: Iterable[ContainerMigration]) -> None:
        for migration in reversed(list(migrations)):
            self._state.move(migration.container, migration.source)
