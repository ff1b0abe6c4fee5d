"""Decisions of a policy around the reservations of gangs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Shorts, Snapshot, Topology
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.cluster.capacity import unit_vectors
from apps.scheduling.core.cluster.conflicts import Vector
from apps.scheduling.core.policy_errors import outcomes_of
from apps.scheduling.core.reservations.gangs import (
    NOTHING,
    Room,
    explained,
    without_room,
    without_units,
)
from apps.scheduling.core.types import Placed, Policy, Refused, Request


class Binding(NamedTuple):
    """Jobs of a batch, by position, for which units of reservations are not free.

    Attributes
    ----------
    units : ids
    room : ids of units, and the memory bytes, network bits/s and storage bytes kept for each
    """

    positions: tuple[int, ...]
    units: tuple[int, ...]
    room: tuple[tuple[int, float, float, float], ...] = ()

    def held(self, topology: Topology) -> Bools:
        """(U,) True for the units."""
        held: Bools = np.isin(topology.unit_id, self.units)
        return held

    def seen_in(self, snapshot: Snapshot, taken: Mapping[int, Vector]) -> Snapshot:
        """Return the snapshot that the jobs see: without the units and the room.

        Parameters
        ----------
        taken : as `taken_of`, by earlier jobs of the batch: units that these have keep less
        """
        rows = np.array(self.room).reshape(-1, 4)
        units = rows[:, 0].astype(np.int64)
        less = np.array([taken.get(unit, NOTHING) for unit in units.tolist()]).reshape(-1, 3)
        room = Room(units, np.maximum(rows[:, 1:] - less, 0.0))
        return without_units(without_room(snapshot, room), self.held(snapshot.topology))


def taken_of(topology: Topology, units: Shorts, request: Request) -> dict[int, Vector]:
    """Return memory, network and storage of each unit (ids) that a request has got (indices)."""
    vectors = unit_vectors(topology, topology.unit_server[units], request).tolist()
    return {
        unit: (memory, network, storage)
        for unit, (memory, network, storage) in zip(
            topology.unit_id[units].tolist(), vectors, strict=True
        )
    }


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
    state, taken = BatchState.of(snapshot, facts, writable=True), dict[int, Vector]()
    for group in bindings:
        held, before = group.held(snapshot.topology), snapshot_of(state)
        seen = group.seen_in(before, taken)
        bound = [requests[place] for place in group.positions]
        for request, place, outcome in zip(
            bound, group.positions, outcomes_of(policy, seen, bound, rng), strict=True
        ):
            outcomes[place] = outcome
            if isinstance(outcome, Placed):
                state.allocate(outcome.units, request)
                taken |= taken_of(snapshot.topology, outcome.units, request)
            else:
                outcomes[place] = explained(outcome, request, before, facts, held)
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
