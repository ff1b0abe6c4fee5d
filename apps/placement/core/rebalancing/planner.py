"""Rebalancing of the running cluster: which containers should migrate where, in which order.

Starting from the current placement, the search builds bundles of migrations: empty a server,
separate a job's tazes from other tazes, gather a job, move one container to a better server. It
applies a bundle if F decreases by more than the cost of its migrations, if every migration fits in
order, and if every job is predicted to stay fast enough. Bundles with the highest gain per
migration come first. A plan can therefore be stopped at any point, and any bundle can be left out.

The bound ignores that containers are indivisible, the cost and feasibility of migrations, and the
speed of jobs; see `bound`. Source: ClavisMO §3.2, C6, C7; the bundles are ours.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from apps.inventory.core.snapshot import Ints
from apps.placement.core.rebalancing.bound import bound, gap
from apps.placement.core.rebalancing.bundles import (
    DIGITS,
    Bundle,
    BundleBuilder,
    BundleCandidate,
)
from apps.placement.core.rebalancing.cluster import RunningCluster, objective_value
from apps.placement.core.rebalancing.obstacles import Obstacle

PROGRESS_S: Final = 0.3  # interval of progress reports
# Max time to evaluate all candidates once. A longer sweep orders the bundles better, but leaves
# less time to apply them: 1 s lowers F by 7 to 29 % less within 2 s, but by 3 % more within 10 s
# on 3,000 servers (clusters of `./dev bench replacing`).
SWEEP_S: Final = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class RebalancingResult:
    """Bundles of migrations and the value of the placement they lead to.

    Attributes
    ----------
    bundles : in execution order
    assignment : (c,) server of each container afterwards
    before, after : F
    bound : lower bound of F over all placements of these containers
    gap : (after − bound)/(after + beta)
    is_complete : no further bundle pays; False if a limit ended the search
    obstacles : candidates refused in the last pass, by reason
    """

    bundles: tuple[Bundle, ...]
    assignment: Ints
    before: float
    after: float
    bound: float
    gap: float
    seconds: float
    is_complete: bool
    obstacles: Mapping[Obstacle, int] = field(default_factory=dict)

    @property
    def migration_count(self) -> int:
        """Number of migrations."""
        return sum(len(bundle.migrations) for bundle in self.bundles)


def improve(  # noqa: PLR0913 - all but three have defaults
    cluster: RunningCluster,
    weights: Mapping[str, float],
    *,
    clock: Callable[[], float],
    limit_s: float = 2.0,
    max_migrations: int = 1_000_000,
    migration_cost: float = 0.0,
    should_stop: Callable[[], bool] = lambda: False,
    on_progress: Callable[[RebalancingResult], None] = lambda _: None,
) -> RebalancingResult:
    """Find migrations that lower F, those with the highest gain per migration first.

    Parameters
    ----------
    weights : of P, D and C
    clock : returns seconds
    max_migrations : over all bundles
    migration_cost : cost of migrating every container once, in F
    on_progress : receives the intermediate result every `PROGRESS_S`
    """
    search = _GreedySearch(
        cluster, dict(weights), clock=clock, limit_s=limit_s, migration_cost=migration_cost
    )
    search.run(max_migrations, should_stop, on_progress)
    return search.result(is_complete=search.is_complete)


class _GreedySearch:
    """Greedy descent that re-evaluates a bundle before applying it."""

    def __init__(
        self,
        cluster: RunningCluster,
        weights: dict[str, float],
        *,
        clock: Callable[[], float],
        limit_s: float,
        migration_cost: float,
    ) -> None:
        self._cluster, self._weights, self._clock = cluster, weights, clock
        self._limit_s = limit_s
        self._began_at = self._reported_at = clock()
        self._builder = BundleBuilder(cluster, weights, migration_cost / max(cluster.job.size, 1))
        self._applied: list[Bundle] = []
        self._bound = bound(cluster, weights)
        self._before = objective_value(cluster, cluster.assignment, weights)
        self._obstacles = Counter[Obstacle]()
        self.is_complete = False

    def run(
        self,
        max_migrations: int,
        should_stop: Callable[[], bool],
        on_progress: Callable[[RebalancingResult], None],
    ) -> None:
        """Apply bundles until none pays or a limit is reached."""
        builder, until = self._builder, self._began_at + self._limit_s

        def is_within_limits() -> bool:
            return not should_stop() and self._clock() < until

        # A container moves at most once, so bundles come before single migrations.
        for candidates in (
            builder.bundle_candidates(),
            builder.single_candidates(),
            builder.bundle_candidates(),
        ):
            self._obstacles.clear()
            max_migrations -= self._apply_best(
                list(candidates), max_migrations, is_within_limits, on_progress
            )
        self.is_complete = is_within_limits() and max_migrations > 0

    def _apply_best(
        self,
        candidates: list[BundleCandidate],
        max_migrations: int,
        is_within_limits: Callable[[], bool],
        on_progress: Callable[[RebalancingResult], None],
    ) -> int:
        """Apply the bundle with the highest gain per migration until none pays.

        A bundle is evaluated again before it is applied, because other bundles were applied in
        the meantime. Returns the number of migrations.
        """
        left_s = self._began_at + self._limit_s - self._clock()
        sweep_until = self._clock() + min(left_s / 2.0, SWEEP_S)
        unevaluated = iter(candidates)
        # (-gain per migration, tie, candidate, number of bundles applied when it was evaluated)
        heap: list[tuple[float, int, BundleCandidate, int]] = []
        ties, migrations = count(), 0
        while is_within_limits():
            # Evaluate every candidate once first, unless that would use up the time.
            is_sweeping = not heap or self._clock() < sweep_until
            candidate = next(unevaluated, None) if is_sweeping else None
            version = -1
            if candidate is None:
                if not heap:
                    break
                _, _, candidate, version = heapq.heappop(heap)
            bundle = self._builder.evaluate(candidate, max_migrations - migrations)
            if bundle is None:
                if self._builder.obstacle is not None:
                    self._obstacles[self._builder.obstacle] += 1
                continue
            rate = round(bundle.gain / len(bundle.migrations), DIGITS)
            is_old = version != len(self._applied) and heap and rate < -heap[0][0]
            if version < 0 or is_old:
                heapq.heappush(heap, (-rate, next(ties), candidate, len(self._applied)))
                continue
            self._builder.apply(bundle)
            self._applied.append(bundle)
            migrations += len(bundle.migrations)
            for new in self._builder.candidates_after(bundle):
                heapq.heappush(heap, (-rate, next(ties), new, -1))
            if self._clock() - self._reported_at > PROGRESS_S:
                self._reported_at = self._clock()
                on_progress(self.result(is_complete=False))
        return migrations

    def result(self, *, is_complete: bool) -> RebalancingResult:
        """Return the result of the bundles applied so far."""
        assignment = self._builder.assignment
        after = objective_value(self._cluster, assignment, self._weights)
        return RebalancingResult(
            bundles=tuple(self._applied),
            assignment=assignment,
            before=self._before,
            after=after,
            bound=self._bound,
            gap=gap(after, self._bound, self._weights),
            seconds=self._clock() - self._began_at,
            is_complete=is_complete,
            obstacles=dict(self._obstacles),
        )
