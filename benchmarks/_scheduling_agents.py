"""Agents that decide at the same moment: placements that they lose, and what they choose.

A closed loop on an emulated cluster of the `paper` world with true profiles, at a constant load:
for each placement that is committed a random job ends, and one that is lost is decided again.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from apps.emulation.core.draws import ANALYTICS, BATCH, SINGLE_NODE
from apps.scheduling.core.cluster.in_memory_store import Committed, MemoryCluster
from apps.scheduling.core.registry import agent_parameters, make
from apps.scheduling.core.types import Placed, Policy, Request
from apps.testbed.core.demo_cluster import demo_cluster, exact_request

SEED: Final = 2015
APPLICATIONS: Final = 60
LOAD: Final = 0.7
DECISIONS: Final = 16  # of an agent, in a round
FILLED: Final = 256  # jobs that are placed together before the first round
ROUNDS: Final = 120  # of which the last third counts


class Contention(NamedTuple):
    """Share of placements lost, and mean predicted performance of those committed."""

    lost: float
    performance: float


def contention(policy: str, *, servers: int, agents: int, alone: bool = False) -> Contention:
    """Let agents decide on the same state in each round, and then commit in turn.

    Parameters
    ----------
    alone : one agent makes the decisions of all of them, each knowing those before
    """
    world = demo_cluster(servers, SEED)
    kinds = (ANALYTICS, SINGLE_NODE, BATCH)
    asked = [
        exact_request(
            world.world.application_truth(
                SEED, f"app{i}", kinds[i % len(kinds)], world.machines.platforms
            ),
            f"app{i}",
        )
        for i in range(APPLICATIONS)
    ]
    places = [{"agents": agents, "share": share} for share in range(agents)]
    deciders = [make(policy, agent_parameters(policy, place)) for place in places]
    size = DECISIONS
    if alone:
        deciders, size = [make(policy)], DECISIONS * agents
    loop = _Loop(MemoryCluster(world.topology, is_compiled=True, keeps_log=False), asked)
    for number in range(ROUNDS):
        loop.round(deciders, size, counts=number >= ROUNDS * 2 // 3)
    return Contention(loop.lost / loop.tried, float(np.mean(loop.performance)))


class _Loop:
    """The cluster, the jobs that run on it, and what was counted."""

    def __init__(self, store: MemoryCluster, asked: Sequence[Request]) -> None:
        self._store, self._asked = store, asked
        self._rng = np.random.default_rng(4)
        self._held: list[int] = []
        self._again: dict[int, list[Request]] = {}
        self.lost = self.tried = 0
        self.performance: list[float] = []
        free = self._rng.permutation(store.topology.unit_id.size)
        filler = make("random")
        while len(self._held) < LOAD * free.size:
            self._commit(0, self._proposals(filler, self._new(FILLED)), counts=False)
        self._again.clear()

    def round(self, deciders: Sequence[Policy], size: int, *, counts: bool) -> None:
        """Let every agent decide on the state as it is, then commit."""
        proposed = []
        for number, decider in enumerate(deciders):
            waiting = self._again.pop(number, [])
            jobs = [*waiting, *self._new(size - len(waiting))]
            proposed.append(self._proposals(decider, jobs))
        for number, pairs in enumerate(proposed):
            committed = self._commit(number, pairs, counts=counts)
            for _ in range(committed):
                self._end_one()

    def _new(self, count: int) -> list[Request]:
        return [self._asked[i] for i in self._rng.integers(0, APPLICATIONS, count).tolist()]

    def _proposals(self, decider: Policy, jobs: list[Request]) -> list[tuple[Placed, Request]]:
        outcomes = decider.place(self._store.view(), jobs, self._rng)
        pairs = zip(outcomes, jobs, strict=True)
        return [(o, job) for o, job in pairs if isinstance(o, Placed)]

    def _commit(self, agent: int, pairs: Sequence[tuple[Placed, Request]], *, counts: bool) -> int:
        done = self._store.commit_batch(pairs)
        won = 0
        for (placed, job), each in zip(pairs, done, strict=True):
            self.tried += counts
            if not isinstance(each, Committed):
                self.lost += counts
                self._again.setdefault(agent, []).append(job)
                continue
            won += 1
            self._held.append(each.allocation)
            predicted = placed.candidates[0].expectation
            if counts and predicted is not None:
                self.performance.append(predicted.speed * predicted.own)
        return won

    def _end_one(self) -> None:
        at = int(self._rng.integers(len(self._held)))
        self._held[at], self._held[-1] = self._held[-1], self._held[at]
        self._store.release(self._held.pop())
