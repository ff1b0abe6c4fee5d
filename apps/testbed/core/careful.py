"""Placing with care, by the solver: Expert and Berth.

n nodes, j jobs. They see what `placers` says policies see. Source: ClavisMO §4.2 (Expert), C7, C9.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Ints
from apps.placement.core.arriving import place_arriving
from apps.placement.core.instance import NOWHERE, Instance
from apps.placement.core.live import Cluster
from apps.placement.core.moving import in_order, relabelled
from apps.placement.core.objectives import evaluate
from apps.placement.core.replacing import improve
from apps.placement.core.search import Search
from apps.placement.core.solver import solve
from apps.testbed.core.placers import Seen, State, Step
from apps.testbed.core.watching import Belief, Watch

Weights = Mapping[str, float]

SHORT_S: Final = 300.0  # jobs that are shorter are left where they are (§4.1)
MOST_MOVES: Final = 100  # a minute
LEAST_LEFT_S: Final = 600.0  # a job that ends sooner is not moved
DAY_S: Final = 86_400.0
_TICK_S: Final = 1e-3  # of a search's time for each look at its clock, so that runs repeat
_SEARCH_S: Final = 1.0
_BRIEF_S: Final = 0.2  # of a cluster of more than so many slots
_LARGE: Final = 2_000
_SMALL: Final = 64  # slots of a cluster up to which its problem is also solved anew
_SPARE: Final = 16  # empty nodes of a rack that a search looks at


class Careful:
    """Expert and Berth: arrivals where F grows least; Berth moves what runs, every minute.

    Intensities are those of the classes, 1 of tazes and 0 of turtles, so that D is the number of
    protected tazes.
    """

    def __init__(
        self, name: str, watch: Watch, weights: Weights, *, stall_s: float, moves: bool
    ) -> None:
        self.name, self._weights, self._moves = name, dict(weights), moves
        self.watch: Watch | None = watch if moves else None
        self._beliefs = watch
        self._stall_cost_s = self._weights.get("D", 0.0) * stall_s
        self._settled: list[tuple[int, ...]] = []

    def place(self, state: State, jobs: Sequence[Seen]) -> list[list[int]]:
        """Place arriving jobs, all that come in at once together."""
        known = [*state.running.values(), *jobs]
        beliefs = self._beliefs_of(known)
        ends = np.cumsum([job.watched.size for job in jobs])
        nodes = _nodes_to_look_at(
            state, int(ends[-1]), is_by_rack=any(b.wish for b in beliefs[-len(jobs) :])
        )
        instance = instance_of(state, known, beliefs, nodes)
        placed = place_arriving(
            instance,
            self._weighed(state, nodes),
            clock=_ticking(),
            limit_s=_SEARCH_S if self._is_small(state) else 0.0,
        )
        fresh = nodes[placed[placed.size - ends[-1] :]]
        return [chosen.tolist() for chosen in np.split(fresh, ends[:-1])]

    def rearrange(self, state: State) -> list[Step]:
        """Move what pays for its moves."""
        jobs = list(state.running.values())
        beliefs = self._beliefs_of(jobs)
        known = [
            (*job.home, belief.is_taz, belief.wish, is_movable(state, job, belief))
            for job, belief in zip(jobs, beliefs, strict=True)
        ]
        if not self._moves or not jobs or known == self._settled:
            return []
        found = self._by_bundles(state, jobs, beliefs)
        if self._is_small(state):
            found = min(found, self._anew(state, jobs, beliefs), key=lambda plan: plan.value)
        self._settled = [] if found.steps else known
        return found.steps

    @staticmethod
    def _is_small(state: State) -> bool:
        return int(state.site.slots.sum()) <= _SMALL

    def _weighed(self, state: State, nodes: Ints) -> dict[str, float]:
        """Weights on some of the nodes that are those given on all of them."""
        share = state.site.peak_watts[nodes].sum() / state.site.peak_watts.sum()
        return {**self._weights, "P": self._weights.get("P", 0.0) * float(share)}

    def _migration(self, state: State, jobs: Sequence[Seen], beliefs: Sequence[Belief]) -> float:
        """Return what moving every container once would cost, in F.

        All containers of a job earn nothing while one of them moves, for their stall out of what
        is left of its run.
        """
        lost = [
            job.watched.size / min(belief.left_s, DAY_S)
            for job, belief in zip(jobs, beliefs, strict=True)
            if is_movable(state, job, belief)
            for _ in job.home
        ]
        return self._stall_cost_s * float(np.mean(lost)) if lost else 0.0

    def _beliefs_of(self, jobs: Sequence[Seen]) -> list[Belief]:
        return [self._beliefs.of(job.watched) for job in jobs]

    def _by_bundles(
        self, state: State, jobs: Sequence[Seen], beliefs: Sequence[Belief]
    ) -> "_Plan":
        """Improve from where everything is, as the running cluster's plans do."""
        nodes = _nodes_to_look_at(state, _SPARE, is_by_rack=True)
        cluster = cluster_of(state, jobs, beliefs, nodes)
        migration = self._migration(state, jobs, beliefs)
        found = improve(
            cluster,
            self._weighed(state, nodes),
            clock=_ticking(),
            limit_s=_BRIEF_S if state.site.slots.sum() > _LARGE else _SEARCH_S,
            most_moves=MOST_MOVES,
            migration=migration,
        )
        steps = [
            Step(
                jobs[cluster.job[step.container]].watched.key,
                int(nodes[step.source]),
                int(nodes[step.to]),
            )
            for bundle in found.bundles
            for step in bundle.steps
        ]
        return _Plan(found.after + migration * len(steps) / cluster.job.size, steps)

    def _anew(self, state: State, jobs: Sequence[Seen], beliefs: Sequence[Belief]) -> "_Plan":
        """Solve from scratch, and go there by as few moves as there can be."""
        nodes = np.flatnonzero(state.slots > 0)
        instance = instance_of(state, jobs, beliefs, nodes)
        search = Search(instance, self._weights, clock=_ticking(), limit_s=_SEARCH_S)
        steps = in_order(instance, relabelled(instance, solve(search).assignment))
        after = instance.current.copy()
        for step in steps:
            after[step.container] = step.to
        value = evaluate(instance, after, self._weights).F
        charge = self._migration(state, jobs, beliefs) * len(steps) / instance.job.size
        fixed = [not is_movable(state, *each) for each in zip(jobs, beliefs, strict=True)]
        if any(fixed[instance.job[step.container]] for step in steps):
            return _Plan(np.inf, [])
        keys = [jobs[job].watched.key for job in instance.job.tolist()]
        moved = [
            Step(keys[step.container], int(nodes[step.source]), int(nodes[step.to]))
            for step in steps
        ]
        return _Plan(value + charge, moved)


class _Plan(NamedTuple):
    """Moves, and F after them with what they cost."""

    value: float
    steps: list[Step]


def _ticking() -> Callable[[], float]:
    """Return a clock that goes on by a fixed time with every look at it, so that runs repeat."""
    ticks = count()
    return lambda: next(ticks) * _TICK_S


def is_movable(state: State, job: Seen, belief: Belief) -> bool:
    """Whether a job is long enough, and has enough left of its run, to be moved."""
    is_long = job.nominal_s >= SHORT_S or state.now - job.started_s >= SHORT_S
    return is_long and belief.left_s >= LEAST_LEFT_S


def _nodes_to_look_at(state: State, spare_nodes: int, *, is_by_rack: bool) -> Ints:
    """(m,) nodes that hold something, and so many empty ones: of each rack, or in all."""
    empty = np.flatnonzero(state.held == 0)
    rack = state.site.rack[empty] if is_by_rack else np.zeros_like(empty)
    order = np.argsort(rack, kind="stable")
    first = np.searchsorted(rack[order], rack[order])
    spare = empty[order[np.arange(empty.size) - first < spare_nodes]]
    in_use = np.flatnonzero((state.held > 0) & (state.slots > 0))
    return np.sort(np.concatenate([in_use, spare]))


def instance_of(
    state: State, jobs: Sequence[Seen], beliefs: Sequence[Belief], nodes: Ints
) -> Instance:
    """Return the problem on some nodes as believed; containers without a home run nowhere."""
    site, sizes = state.site, [job.watched.size for job in jobs]
    job = np.repeat(np.arange(len(jobs)), sizes)
    homes = [job.home or [NOWHERE] * job.watched.size for job in jobs]
    is_taz = np.array([belief.is_taz for belief in beliefs], dtype=np.bool_)[job]
    racks, rack = np.unique(site.rack[nodes], return_inverse=True)
    return Instance(
        node_ids=tuple(map(str, nodes.tolist())),
        rack_ids=tuple(map(str, racks.tolist())),
        rack=rack.reshape(-1).astype(np.int64),
        slots=state.slots[nodes],
        idle_watts=site.idle_watts[nodes],
        peak_watts=site.peak_watts[nodes],
        container_ids=tuple(map(str, range(job.size))),
        job_ids=tuple(job.watched.key for job in jobs),
        job=job,
        intensity=is_taz.astype(np.float64),
        is_taz=is_taz,
        wish=np.array([belief.wish for belief in beliefs], dtype=np.int64),
        current=_among(nodes, site.slots.size)[
            np.array([node for home in homes for node in home], dtype=np.int64)
        ],
    )


def _among(nodes: Ints, size: int) -> Ints:
    """(size + 1,) position of each node among some, `NOWHERE` for the others and the last."""
    at = np.full(size + 1, NOWHERE, dtype=np.int64)
    at[nodes] = np.arange(nodes.size)
    return at


def cluster_of(
    state: State, jobs: Sequence[Seen], beliefs: Sequence[Belief], nodes: Ints
) -> Cluster:
    """Return what runs on some nodes as the problem of re-placing it; one unit a container."""
    site, sizes = state.site, [len(job.home) for job in jobs]
    job = np.repeat(np.arange(len(jobs)), sizes)
    at = _among(nodes, site.slots.size)
    may_move = [is_movable(state, *each) for each in zip(jobs, beliefs, strict=True)]
    is_taz = np.array([belief.is_taz for belief in beliefs], dtype=np.bool_)[job]
    c, j, n = job.size, len(jobs), nodes.size
    return Cluster(
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
        home=at[np.array([node for each in jobs for node in each.home], dtype=np.int64)],
        size=np.ones(c, dtype=np.int64),
        demand=np.zeros((c, 3)),
        intensity=is_taz.astype(np.float64),
        is_taz=is_taz,
        is_movable=np.array(may_move, dtype=np.bool_)[job],
        job_id=tuple(each.watched.key for each in jobs),
        job_name=tuple(each.watched.program for each in jobs),
        wish=np.array([belief.wish for belief in beliefs], dtype=np.int64),
        is_allowed=np.ones((j, n), dtype=np.bool_),
        attainment=np.full(j, np.nan),
        speed=np.ones((j, 1)),
        # nothing is known of scores here: nobody is predicted to lose by a move
        caused=np.zeros((j, N_SOURCES)),
        tolerated=np.full((j, N_SOURCES), 100.0),
    )
