"""Decisions of a policy around the reservations of gangs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Snapshot
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.policy_errors import outcomes_of
from apps.scheduling.core.reservations.gangs import explained, without_units
from apps.scheduling.core.types import Placed, Policy, Refused, Request


class Binding(NamedTuple):
    """Jobs of a batch, by position, for which the units (ids) of reservations are not free."""

    positions: tuple[int, ...]
    units: tuple[int, ...]


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
    for places, units in bindings:
        held: Bools = np.isin(snapshot.topology.unit_id, units)
        seen = without_units(snapshot_of(state), held)
        bound = [requests[place] for place in places]
        for request, place, outcome in zip(
            bound, places, outcomes_of(policy, seen, bound, rng), strict=True
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
