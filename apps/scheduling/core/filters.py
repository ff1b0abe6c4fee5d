"""Filters: which units could run a job, and why the others could not.

Filters run before sampling, because the draw must be uniform among the eligible units (T3). They
test servers instead of units: S tests, not U.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Shorts, Snapshot
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.cluster.capacity import max_that_fit, requested_per_unit
from apps.scheduling.core.cluster.places import place_of
from apps.scheduling.core.types import Request, Within

FILTERS: Final = ("busy", "closed", "platform", "labels", "excluded", "capacity", "locality")


@dataclass(frozen=True, slots=True, eq=False)
class Eligibility:
    """Result of the filters for one request.

    Attributes
    ----------
    servers : (S,) True if the job may use the free units
    room : (S,) int32 number of its units that fit, given free units and capacity
    units : number of eligible units
    dropped : number of units rejected, by filter in the order of FILTERS, zeros omitted
    """

    servers: Bools
    room: Shorts
    units: int
    dropped: dict[str, int]


def eligible(state: BatchState, request: Request) -> Eligibility:
    """Apply every filter in turn; a unit counts for the first that rejects it. O(S)."""
    topology = state.snapshot.topology
    fitting = room(state, request)
    min_room = request.units if request.locality == Within.SERVER else 1
    tests = {
        **by_constraints(request, state.snapshot, state.facts),
        "capacity": fitting > 0,
        "locality": fitting >= min_room,
    }
    left = state.free_count > 0
    dropped = {"busy": int(topology.unit_id.size - state.free_count.sum())}
    for name, passes in tests.items():
        dropped[name] = int(state.free_count[left & ~passes].sum())
        left = left & passes
    if request.locality not in {None, Within.SERVER}:
        near = _roomy(state, request, np.where(left, fitting, 0))
        dropped["locality"] += int(state.free_count[left & ~near].sum())
        left = left & near
    counts = {name: n for name, n in dropped.items() if n}
    return Eligibility(left, fitting, int(state.free_count[left].sum()), counts)


def by_constraints(request: Request, snapshot: Snapshot, facts: TopologyFacts) -> dict[str, Bools]:
    """(S,) True for the servers that pass each filter, whatever is free on them; in order."""
    return {
        "closed": snapshot.server_open,
        "platform": facts.allowed(request.platforms)[snapshot.topology.server_platform],
        "labels": facts.labelled(request.labels),
        "excluded": ~facts.barred(request),
    }


def room(state: BatchState, request: Request) -> Shorts:
    """(S,) int32 number of units of the request that fit on each server."""
    return np.minimum(free_with_capacity(state, request), np.int32(request.units))


def free_with_capacity(state: BatchState, request: Request) -> Shorts:
    """(S,) int32 free units with the memory, network and storage that the request takes of each.

    Also beyond the units that it requests.
    """
    requested = requested_per_unit(request)
    vectors = np.where(requested > 0, requested, state.facts.share)
    fitting = max_that_fit(vectors, state.server_free, int(state.free_count.max(initial=0)))
    return np.minimum(state.free_count, fitting)


def _roomy(state: BatchState, request: Request, fitting: Shorts) -> Bools:
    """(S,) True for servers whose rack or switch has room for all units."""
    place = place_of(state.snapshot.topology, request.locality)
    near: Bools = np.bincount(place, weights=fitting)[place] >= request.units
    return near
