"""Decisions of a policy around the reservations of gangs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Snapshot, Topology
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.policy_errors import outcomes_of
from apps.scheduling.core.reservations.gangs import explained, without_room, without_units
from apps.scheduling.core.types import Placed, Policy, Refused, Request


class Binding(NamedTuple):
    """Jobs of a batch, by position, for which units of reservations are not free.

    Attributes
    ----------
    units : ids
    room : server id, memory bytes, network bits/s and storage bytes kept for those units
    """

    positions: tuple[int, ...]
    units: tuple[int, ...]
    room: tuple[tuple[int, float, float, float], ...] = ()

    def held(self, topology: Topology) -> Bools:
        """(U,) True for the units."""
        held: Bools = np.isin(topology.unit_id, self.units)
        return held

    def seen_in(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot that the jobs see: without the units and the room."""
        seen = without_units(snapshot, self.held(snapshot.topology))
        return without_room(seen, {server: (m, n, d) for server, m, n, d in self.room})


def place_batch(
    policy: Policy,
    snapshot: Snapshot,
    requests: Sequence[Request],
    rng: np.random.Generator,
    *,
    facts: TopologyFacts,
    bindings: Sequence[Binding] = (),
) -> list[Placed | Refused]:
    """Return one outcome per request, in order.

    The jobs of a binding are one batch of the policy; those of later ones see their use.

    Parameters
    ----------
    bindings : each position once; empty = there is no reservation

    Raises
    ------
    PolicyFailedError : as `outcomes_of`.
    """
    if not bindings:
        return outcomes_of(policy, snapshot, requests, rng)
    outcomes: dict[int, Placed | Refused] = {}
    state = BatchState.of(snapshot, facts, writable=True)
    for group in bindings:
        held, seen = group.held(snapshot.topology), group.seen_in(snapshot_of(state))
        bound = [requests[place] for place in group.positions]
        for request, place, outcome in zip(
            bound, group.positions, outcomes_of(policy, seen, bound, rng), strict=True
        ):
            outcomes[place] = outcome
            if isinstance(outcome, Placed):
                state.allocate(outcome.units, request)
            else:
                outcomes[place] = explained(outcome, request, snapshot, facts, held)
    return [outcomes[place] for place in range(len(requests))]


def snapshot_of(state: BatchState) -> Snapshot:
    """Return a copy of the state: what the batch has allocated is in use."""
    return replace(
        state.snapshot,
        unit_free=state.unit_free.copy(),
        server_caused=state.server_caused.copy(),
        server_exposure=state.server_exposure.copy(),
        server_tolerance=state.server_tolerance.copy(),
        server_free=state.server_free.copy(),
        changed=None,
    )
