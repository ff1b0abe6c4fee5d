"""The reason why a request could not be placed."""

import numpy as np

from apps.inventory.core.snapshot import Bools, Ints, Shorts
from apps.scheduling.core.batch_state import BatchState
from apps.scheduling.core.cluster.capacity import fits, unit_vectors
from apps.scheduling.core.cluster.places import first_of_each, place_of
from apps.scheduling.core.filters import Eligibility
from apps.scheduling.core.types import RefusalReason, Refused, Request

DETAILS = {
    RefusalReason.NO_MATCHING_SERVER: "no server has the requested platform, labels and capacity",
    RefusalReason.SERVERS_CLOSED: "all matching servers are drained, cordoned or down",
    RefusalReason.NO_FREE_UNIT: "all units of the matching servers are busy",
    RefusalReason.CAPACITY_SHORT: "units are free, but without enough memory, network or storage",
    RefusalReason.LOCALITY_SHORT: "no single server, rack or switch has room for all units",
    RefusalReason.SPREAD_SHORT: "too few servers, racks or switches have a free unit",
    RefusalReason.NOT_ENOUGH_FREE_UNITS: "the job needs all its units at once, and fewer are free",
    RefusalReason.QUALITY_SHORT: (
        "on the best free unit the job would be slow or slow its neighbours down too much; it may"
        " still wait for a better one"
    ),
}
EXCLUDED = "all free units of the matching servers are on excluded servers"
OUTSIDE = f"{EXCLUDED} or outside the job's pool"


def refused(
    state: BatchState, request: Request, eligibility: Eligibility, *, examined: int, seed: int
) -> Refused:
    """Return the refusal of a request. O(S)."""
    matching = _matching(state, request)
    held = _most_units(state, request, matching)
    if held < request.units:
        reason = RefusalReason.NO_MATCHING_SERVER
    else:
        reason = _reason(state, request, eligibility, matching)
    detail = DETAILS[reason]
    if 0 < held < request.units:
        detail = _too_wide(request, held)
    elif reason is RefusalReason.NO_FREE_UNIT and "excluded" in eligibility.dropped:
        detail = EXCLUDED if request.pool is None else OUTSIDE
    return Refused(
        job=request.job,
        reason=reason,
        dropped=eligibility.dropped,
        examined=examined,
        eligible=eligibility.units,
        detail=detail,
        seed=seed,
        sequence=state.snapshot.sequence,
    )


def gains_little(
    state: BatchState, request: Request, eligibility: Eligibility, *, examined: int, seed: int
) -> Refused:
    """Return the refusal of a job that may wait, whose best unit gains too little."""
    return Refused(
        job=request.job,
        reason=RefusalReason.QUALITY_SHORT,
        dropped=eligibility.dropped,
        examined=examined,
        eligible=eligibility.units,
        detail=DETAILS[RefusalReason.QUALITY_SHORT],
        seed=seed,
        sequence=state.snapshot.sequence,
        waits_for_better=True,
    )


def _matching(state: BatchState, request: Request) -> Bools:
    """(S,) whether a server has the requested platform, labels and capacity of a unit."""
    topology = state.snapshot.topology
    platforms = state.facts.allowed(request.platforms)[topology.server_platform]
    servers = np.arange(topology.server_id.size, dtype=np.int32)
    shape = fits(unit_vectors(topology, servers, request), topology.server_capacity)
    return platforms & state.facts.labelled(request.labels) & shape


def _reason(
    state: BatchState, request: Request, eligibility: Eligibility, matching: Bools
) -> RefusalReason:
    usable = matching & state.snapshot.server_open
    if not usable.any():
        return RefusalReason.SERVERS_CLOSED
    usable = usable & ~state.facts.barred(request)
    if not state.free_count[usable].any():
        return RefusalReason.NO_FREE_UNIT
    if eligibility.units == 0:
        short = "locality" in eligibility.dropped
        return RefusalReason.LOCALITY_SHORT if short else RefusalReason.CAPACITY_SHORT
    if eligibility.units < request.units:
        return RefusalReason.NOT_ENOUGH_FREE_UNITS
    return RefusalReason.SPREAD_SHORT if request.spread else RefusalReason.CAPACITY_SHORT


def _most_units(state: BatchState, request: Request, matching: Bools) -> int:
    """Return the units that the matching servers could give the job if all were idle and open."""
    topology = state.snapshot.topology
    sizes = np.where(matching, topology.server_units, 0)
    if request.locality is not None:
        if request.spread is not None:
            sizes = _one_of_each(place_of(topology, request.spread), matching)
        by_place = np.bincount(place_of(topology, request.locality), weights=sizes)
        return int(by_place.max(initial=0.0))
    if not request.gang:
        return request.units if matching.any() else 0
    if request.spread is not None:
        return np.unique(place_of(topology, request.spread)[matching]).size
    return int(sizes.sum())


def _one_of_each(places: Shorts, matching: Bools) -> Ints:
    """(S,) 1 for the first matching server of each place, else 0."""
    servers = np.flatnonzero(matching)
    counts = np.zeros(places.size, dtype=np.int64)
    counts[servers[first_of_each(places[servers])]] = 1
    return counts


def _too_wide(request: Request, held: int) -> str:
    """Say what limits the units of a job that is larger than ``held``."""
    if request.locality is not None:
        place = f"the largest matching {request.locality.value} has {held}"
        each = "" if request.spread is None else f", with a {request.spread.value} each"
        return f"all {request.units} units must share one {request.locality.value}{each}: {place}"
    if request.spread is not None:
        return (
            f"each of the {request.units} units needs a {request.spread.value} of its own,"
            f" and only {held} match"
        )
    return f"the job needs {request.units} units at once, and the matching servers have {held}"
