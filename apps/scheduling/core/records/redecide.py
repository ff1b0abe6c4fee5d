"""A stored decision made again with something changed, and what it predicts for everybody.

U units, S servers, N = 10 sources.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Shorts, Snapshot
from apps.scheduling.core import loss
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.cluster.conflicts import Vector
from apps.scheduling.core.expected import performance as expected
from apps.scheduling.core.policies import AssembledPolicy
from apps.scheduling.core.policy_errors import outcomes_of
from apps.scheduling.core.reservations.backfill import Binding, snapshot_of, taken_of
from apps.scheduling.core.reservations.gangs import explained
from apps.scheduling.core.types import Placed, Policy, Refused, Request


class Prediction(NamedTuple):
    """Prediction for chosen units, by the same formulas for every policy (`core.expected`).

    Attributes
    ----------
    performance : mean over the units of platform speed times what interference leaves
    speed : mean speed of their platforms, relative to the highest-end one
    own : mean performance that interference leaves to the job
    neighbours : product of what the jobs on the servers keep
    """

    performance: float
    speed: float
    own: float
    neighbours: float


class Neighbour(NamedTuple):
    """Units that another job holds on one server."""

    server: int  # index
    units: int
    caused: Floats
    tolerated: Floats | None


class Reserved(NamedTuple):
    """Units of the reservations that bind a job, by which its refusal is explained.

    Attributes
    ----------
    held : (U,) True for them
    snapshot : after the jobs of earlier bindings; the units may be free in it
    """

    held: Bools
    snapshot: Snapshot


@dataclass(frozen=True)
class Moment:
    """The cluster just before one decision of a batch.

    Attributes
    ----------
    snapshot : without the units and the room of the reservations that bind the job
    earlier : units and requests of the jobs that were placed before, with the same reservations
    reserved : None = there was no reservation
    """

    snapshot: Snapshot
    facts: TopologyFacts
    earlier: Sequence[tuple[Shorts, Request]]
    reserved: Reserved | None = None

    def decide(self, policy: Policy, request: Request, *, seed: int) -> Placed | Refused:
        """Decide on a request by any policy; the original one gives the original outcome.

        A policy of another package decides on the request alone, after the earlier jobs. Its
        generator is seeded with the seed of the decision, so what it draws differs from what it
        drew in its batch: of those policies, only one that draws nothing gives the same outcome.

        Raises
        ------
        PolicyFailedError : as `outcomes_of`.
        """
        if isinstance(policy, AssembledPolicy):
            outcome = policy.replay(self.snapshot, request, seed=seed, earlier=self.earlier)
        else:
            rng = np.random.default_rng(seed)
            outcome = outcomes_of(policy, snapshot_of(self.state), [request], rng)[0]
        if self.reserved is None or isinstance(outcome, Placed):
            return outcome
        held, snapshot = self.reserved
        return explained(outcome, request, snapshot, self.facts, held)

    @cached_property
    def state(self) -> BatchState:
        """The arrays after the earlier jobs."""
        state = BatchState.of(self.snapshot, self.facts, writable=True)
        for units, other in self.earlier:
            state.allocate(units, other)
        return state

    def prediction(self, request: Request, units: Shorts) -> Prediction:
        """Predict the performance of a job, and what its neighbours keep."""
        servers = self.snapshot.topology.unit_server[units]
        speed, own, neighbours, _ = expected.expectations(self.state, request, servers).T
        return Prediction(
            float((speed * own).mean()),
            float(speed.mean()),
            float(own.mean()),
            float(neighbours.prod()),
        )

    def losses(
        self, request: Request, units: Shorts, neighbours: Sequence[Neighbour]
    ) -> list[float]:
        """Return the share of performance that each neighbour loses by the job's units."""
        topology = self.snapshot.topology
        added = np.bincount(topology.unit_server[units], minlength=topology.server_id.size)
        return [self._loss(request, int(added[each.server]), each) for each in neighbours]

    def _loss(self, request: Request, added: int, neighbour: Neighbour) -> float:
        others = max(int(self.facts.server_units[neighbour.server]) - 1, 1)
        if neighbour.tolerated is None or not added:
            return 0.0
        total = self.state.server_caused[neighbour.server].astype(np.float64)
        before = np.clip((total - neighbour.caused) / others, 0.0, 100.0)
        after = np.clip(before + added * request.caused / others, 0.0, 100.0)
        lost = loss.log_performance(after, neighbour.tolerated) - loss.log_performance(
            before, neighbour.tolerated
        )
        return float(-np.expm1(lost.sum()))


def moment_of(
    snapshot: Snapshot,
    requests: Sequence[Request],
    outcomes: Sequence[Placed | Refused],
    position: int,
    *,
    facts: TopologyFacts,
    bindings: Sequence[Binding] = (),
) -> Moment:
    """Return the cluster just before the decision at a position of a batch."""
    if not bindings:
        earlier = _placed(outcomes, range(position))
        return Moment(snapshot, facts, [(units, requests[i]) for i, units in earlier])
    state, taken = BatchState.of(snapshot, facts, writable=True), dict[int, Vector]()
    for group in bindings:
        if position in group.positions:
            before = group.positions[: group.positions.index(position)]
            unreserved = snapshot_of(state)
            reserved = Reserved(group.held(snapshot.topology), unreserved)
            seen = group.seen_in(unreserved, taken)
            earlier = _placed(outcomes, before)
            return Moment(seen, facts, [(units, requests[i]) for i, units in earlier], reserved)
        for i, units in _placed(outcomes, group.positions):
            state.allocate(units, requests[i])
            taken |= taken_of(snapshot.topology, units, requests[i])
    raise ValueError(f"the batch has no position {position}")


def _placed(
    outcomes: Sequence[Placed | Refused], positions: Sequence[int]
) -> list[tuple[int, Shorts]]:
    found = ((i, outcomes[i]) for i in positions)
    return [(i, outcome.units) for i, outcome in found if isinstance(outcome, Placed)]
