"""Quasar's greedy scheduler: allocation and assignment in one step (Q4).

Servers are ranked by decreasing quality, the speed of their platform times the performance that
interference leaves to the job and to the jobs there. The allocation takes the units of the best
server one by one (scale up), then those of the next (scale out), until the predicted rate meets
the target. So it has the fewest units of the best servers that suffice.

Source: Quasar §3.3. O(S log S + m). A job without a target gets the units that it requests.
"""

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints, Shorts
from apps.scheduling.core import chance, samplers, scorers
from apps.scheduling.core.batch_state import BatchState
from apps.scheduling.core.cluster.places import first_of_each, place_of
from apps.scheduling.core.expected import performance as expected
from apps.scheduling.core.filters import Eligibility
from apps.scheduling.core.policies import AssembledPolicy, ScoredSample, unconstrained
from apps.scheduling.core.scorers import Scores
from apps.scheduling.core.sizing.goals import Curves, Goal
from apps.scheduling.core.types import MAX_CANDIDATES, Placed, Refused, Request, Within

STEPS: Final = 1 << 30  # of a quality of 1, in the integer keys


class Allocation(NamedTuple):
    """Units by server, best server first.

    is_met : whether they meet the target
    rate : work per second of all of them
    """

    parts: list[tuple[int, int]]
    is_met: bool
    rate: float


def quality(state: BatchState, request: Request, units: Ints, seed: int) -> Scores:
    """Score units by the quality of their server; those of one server stay together."""
    servers = state.snapshot.topology.unit_server[units]
    value = _quality(state, request, servers)
    zero = np.zeros(units.size, dtype=np.int64)
    core = state.snapshot.topology.unit_core[units].astype(np.int64)
    coin = chance.server_coins(seed, servers.astype(np.int64), core)
    steps = np.round(value * STEPS).astype(np.int64)
    key = np.stack((steps, zero, zero, coin), axis=1)
    return replace(scorers.coin(state, request, units, seed), key=key, closeness=value)


def _quality(state: BatchState, request: Request, servers: Shorts) -> Floats:
    speed, own, neighbours, _ = expected.expectations(state, request, servers).T
    value: Floats = speed * own * neighbours
    return value


class Quasar(AssembledPolicy):
    """Quasar's greedy allocation and assignment."""

    def __init__(self) -> None:
        super().__init__(
            "quasar", 2, sample=samplers.leading, near=samplers.everything,
            score=quality, is_full=True,
        )  # fmt: skip

    def _decide_sized(self, state: BatchState, request: Request, seed: int) -> Placed | Refused:
        if request.goal is None:
            return super()._decide_sized(state, request, seed)
        # sized to one unit, a job may still get several, which keep its locality and spread
        return self._decide(state, request, seed)

    def _decide(self, state: BatchState, request: Request, seed: int) -> Placed | Refused:
        goal = request.goal
        if goal is None:
            return super()._decide(state, request, seed)
        free = replace(
            request, units=goal.max_units, gang=False, locality=None, platforms=goal.allowed
        )
        eligibility = self._filter(state, free)
        found = self._allocate(state, request, eligibility, seed)
        if found is None or not found.is_met:
            # what sizing gives is as close to the target as resources that may be free allow
            return super()._decide(state, unconstrained(request), seed)
        return self._outcome(state, request, eligibility, found, seed)

    def _allocate(
        self, state: BatchState, request: Request, eligibility: Eligibility, seed: int
    ) -> Allocation | None:
        """Return the first place with enough units: anywhere, one server, or one rack."""
        servers, goal = np.flatnonzero(eligibility.servers).astype(np.int32), request.goal
        if not servers.size or goal is None:
            return None
        ranked = servers[
            np.lexsort(
                (chance.coins(seed, servers.astype(np.int64)), -_quality(state, request, servers))
            )
        ]
        best = None
        for place in _places(state, request, goal, eligibility, ranked):
            found = allocate(state, request, goal, eligibility, place)
            if found.is_met:
                return found
            best = found if best is None or found.rate > best.rate else best
        return best

    def _outcome(
        self,
        state: BatchState,
        request: Request,
        eligibility: Eligibility,
        found: Allocation,
        seed: int,
    ) -> Placed:
        units = _free_units(state, found.parts)
        others = samplers.leading(state, replace(request, units=1), eligibility, 0, seed)
        shown = np.concatenate((units, np.setdiff1d(others, units)))
        scores = scorers.ranked(quality(state, request, shown, seed))
        picked = np.flatnonzero(np.isin(scores.units, units))
        first = np.concatenate((picked, np.setdiff1d(np.arange(shown.size), picked)))
        listed = _take(scores, np.sort(first[: max(MAX_CANDIDATES, picked.size)]))
        scored = ScoredSample(
            eligibility,
            replace(listed, examined=eligibility.units),
            np.flatnonzero(np.isin(listed.units, units)),
        )
        outcome = self._placed(state, replace(request, units=units.size), scored, seed=seed)
        return replace(outcome, wanted=int(units.size))


def allocate(
    state: BatchState, request: Request, goal: Goal, eligibility: Eligibility, ranked: Shorts
) -> Allocation:
    """Take units of servers in their order until the target is met.

    A server gives at most as many units as speed it up. Stops at `Goal.max_units` units.

    Parameters
    ----------
    ranked : servers, best first
    """
    curves = goal.curves(state.snapshot.topology.platform_name)
    alone = _rates_alone(state, request, curves, ranked)
    peak = int(np.argmax(curves.up)) + 1
    parts: list[tuple[int, int]] = []
    total, units, before, rate = 0.0, 0, 0.0, 0.0
    for server, speed in zip(ranked.tolist(), alone.tolist(), strict=True):
        room = min(int(eligibility.room[server]), peak, goal.max_units - units)
        if request.spread is not None:
            room = min(room, 1)
        for count in range(1, room + 1):
            units += 1
            total = before + speed * float(curves.up[count - 1])
            rate = total * float(curves.out[len(parts)])
            if goal.is_met(rate, units):
                return Allocation([*parts, (server, count)], is_met=True, rate=rate)
        if room > 0:
            parts.append((server, room))
            before = total
        if units >= goal.max_units:
            break
    return Allocation(parts, is_met=False, rate=rate)


def _rates_alone(state: BatchState, request: Request, curves: Curves, servers: Shorts) -> Floats:
    """(n,) work per second of one unit on each server."""
    own = expected.expectations(state, request, servers)[:, 1]
    rates: Floats = curves.base[state.snapshot.topology.server_platform[servers]]
    return rates * own


def _alone(
    state: BatchState, request: Request, goal: Goal, eligibility: Eligibility, ranked: Shorts
) -> list[Shorts]:
    """Return each server that could meet a target which those before it do not.

    A server with no more room than an earlier one, and no higher rate, cannot. O(S · room).
    """
    curves = goal.curves(state.snapshot.topology.platform_name)
    rates = _rates_alone(state, request, curves, ranked).tolist()
    rooms = eligibility.room[ranked].tolist()
    highest = np.full(max(rooms) + 1, -1.0)  # rate of an earlier server with that room or more
    chosen = []
    for position, (rate, room) in enumerate(zip(rates, rooms, strict=True)):
        if rate > highest[room]:
            highest[: room + 1] = np.maximum(highest[: room + 1], rate)
            chosen.append(ranked[position : position + 1])
    return chosen


def _places(
    state: BatchState, request: Request, goal: Goal, eligibility: Eligibility, ranked: Shorts
) -> list[Shorts]:
    """Return the servers that may be combined, in the order of the best of each group."""
    if request.locality is Within.SERVER:
        return _alone(state, request, goal, eligibility, ranked)
    if request.locality is None and request.spread in {None, Within.SERVER}:
        return [ranked]
    topology = state.snapshot.topology
    if request.spread is not None:
        ranked = ranked[first_of_each(place_of(topology, request.spread)[ranked])]
    groups = place_of(topology, request.locality)[ranked]
    return [ranked[groups == groups[i]] for i in first_of_each(groups)]


def _free_units(state: BatchState, parts: list[tuple[int, int]]) -> Ints:
    first, size = state.facts.first_unit, state.facts.server_units
    return np.concatenate(
        [
            first[s] + np.flatnonzero(state.unit_free[first[s] : first[s] + size[s]])[:count]
            for s, count in parts
        ]
    ).astype(np.int64)


def _take(scores: Scores, at: Ints) -> Scores:
    return replace(
        scores, units=scores.units[at], servers=scores.servers[at], key=scores.key[at],
        quality=scores.quality[at], closeness=scores.closeness[at], headroom=scores.headroom[at],
    )  # fmt: skip
