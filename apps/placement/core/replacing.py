"""Re-placing the running cluster: which containers should move where, and in what order.

From where everything is, bundles of moves that make sense only together are sought: a server is
emptied, a job's tazes are kept apart from others, a job is gathered, one container finds a better
place. A bundle is taken when it lowers F by more than its moves cost, the best per move first, and
only if every move fits when its turn comes and nobody is predicted to lose what it was promised.
So a plan can be stopped anywhere, and any bundle left out.

The bound relaxes that containers cannot be divided, that moves cost and need room, and what jobs
expect of their speed; see `live_bound`. Source: ClavisMO §3.3, C6, C7; the bundles are ours.
"""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final

from apps.inventory.core.snapshot import Ints
from apps.placement.core.bundles import Builder, Bundle, Seed
from apps.placement.core.live import Cluster, value
from apps.placement.core.live_bound import bound, gap

TELL_S: Final = 0.3  # between two answers to a watcher
SWEEP_S: Final = 1.0  # for a first look at everything


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What was found.

    Attributes
    ----------
    bundles : in the order they were taken, in which they fit
    home : (c,) servers afterwards
    before, after : F
    bound : no placement of these containers has an F below it
    gap : (after − bound)/(after + beta)
    is_settled : no further bundle pays for itself; else time or moves ran out
    """

    bundles: tuple[Bundle, ...]
    home: Ints
    before: float
    after: float
    bound: float
    gap: float
    seconds: float
    is_settled: bool

    @property
    def moves(self) -> int:
        """Containers that move."""
        return sum(len(bundle.steps) for bundle in self.bundles)


def improve(  # noqa: PLR0913 - all but three have defaults
    cluster: Cluster,
    weights: Mapping[str, float],
    *,
    clock: Callable[[], float],
    limit_s: float = 2.0,
    most_moves: int = 1_000_000,
    migration: float = 0.0,
    should_stop: Callable[[], bool] = lambda: False,
    watch: Callable[[Outcome], None] = lambda _: None,
) -> Outcome:
    """Find moves that lower F from the placement as it is, the best per move first.

    Parameters
    ----------
    weights : of P, D and C
    clock : gives seconds
    most_moves : over all bundles
    migration : what moving every container once would cost, in F
    watch : told of what was found so far, at most some times a second
    """
    search = _Search(cluster, dict(weights), clock=clock, limit_s=limit_s, migration=migration)
    search.run(most_moves, should_stop, watch)
    return search.outcome(is_settled=search.is_settled)


class _Search:
    """The greedy descent, with bundles tried anew when their turn comes."""

    def __init__(
        self,
        cluster: Cluster,
        weights: dict[str, float],
        *,
        clock: Callable[[], float],
        limit_s: float,
        migration: float,
    ) -> None:
        self._cluster, self._weights, self._clock = cluster, weights, clock
        self._limit_s = limit_s
        self._began = self._told = clock()
        self._builder = Builder(cluster, weights, migration / max(cluster.job.size, 1))
        self._taken: list[Bundle] = []
        self._bound = bound(cluster, weights)
        self._before = value(cluster, cluster.home, weights)
        self.is_settled = False

    def run(
        self,
        most_moves: int,
        should_stop: Callable[[], bool],
        watch: Callable[[Outcome], None],
    ) -> None:
        """Take bundles until none pays, or time or moves run out."""
        builder, until = self._builder, self._began + self._limit_s

        def goes_on() -> bool:
            return not should_stop() and self._clock() < until

        # one container that moves by itself can no longer move with others: bundles come first
        for seeds in (builder.bundles_around(), builder.singles(), builder.bundles_around()):
            most_moves -= self._descend(list(seeds), most_moves, goes_on, watch)
        self.is_settled = goes_on() and most_moves > 0

    def _descend(
        self,
        seeds: list[Seed],
        most_moves: int,
        goes_on: Callable[[], bool],
        watch: Callable[[Outcome], None],
    ) -> int:
        """Take what pays best per move until nothing does; says how many moves that took.

        A bundle is tried again when its turn comes, as others have been taken since.
        """
        left_s = self._began + self._limit_s - self._clock()
        first_until = self._clock() + min(left_s / 2.0, SWEEP_S)
        waiting = iter(seeds)
        # (-gain per move when it was tried, tie, seed, bundles taken by then)
        heap: list[tuple[float, int, Seed, int]] = []
        ties, taken = count(), 0
        while goes_on():
            # everything is tried once first, but not at the cost of an answer
            seed = next(waiting, None) if not heap or self._clock() < first_until else None
            tried = -1
            if seed is None:
                if not heap:
                    break
                _, _, seed, tried = heapq.heappop(heap)
            bundle = self._builder.tried(seed, most_moves - taken)
            if bundle is None:
                continue
            rate = bundle.gain / len(bundle.steps)
            is_stale = tried < 0 or (tried != len(self._taken) and heap and rate < -heap[0][0])
            if is_stale:
                heapq.heappush(heap, (-rate, next(ties), seed, len(self._taken)))
                continue
            self._builder.take(bundle)
            self._taken.append(bundle)
            taken += len(bundle.steps)
            for again in self._builder.woken(bundle):
                heapq.heappush(heap, (-rate, next(ties), again, -1))
            if self._clock() - self._told > TELL_S:
                self._told = self._clock()
                watch(self.outcome(is_settled=False))
        return taken

    def outcome(self, *, is_settled: bool) -> Outcome:
        """Return what was found so far."""
        home = self._builder.home
        after = value(self._cluster, home, self._weights)
        return Outcome(
            bundles=tuple(self._taken),
            home=home,
            before=self._before,
            after=after,
            bound=self._bound,
            gap=gap(after, self._bound, self._weights),
            seconds=self._clock() - self._began,
            is_settled=is_settled,
        )
