"""The reason why a request could not be placed."""

import numpy as np

from apps.inventory.core.snapshot import Bools, Shorts, Topology
from apps.scheduling.core.batch_state import BatchState
from apps.scheduling.core.cluster.capacity import SLACK, equal_share, unit_vectors, units_when_idle
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
RESOURCES = ("memory", "network", "storage")


def refused(
    state: BatchState, request: Request, eligibility: Eligibility, *, examined: int, seed: int
) -> Refused:
    """Return the refusal of a request. O(S)."""
    topology = state.snapshot.topology
    sizes = _sizes(state, request)
    held = _most_units(topology, request, sizes)
    if held < request.units:
        reason = RefusalReason.NO_MATCHING_SERVER
    else:
        reason = _reason(state, request, eligibility, sizes > 0)
    detail = DETAILS[reason]
    if 0 < held < request.units:
        detail = _too_wide(request, _available(topology, request, sizes, held))
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


def _sizes(state: BatchState, request: Request) -> Shorts:
    """(S,) units of the job that each server holds if idle; 0 of another platform or label."""
    topology = state.snapshot.topology
    platforms = state.facts.allowed(request.platforms)[topology.server_platform]
    matching = platforms & state.facts.labelled(request.labels)
    return np.where(matching, units_when_idle(topology, request), 0)


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


def _most_units(topology: Topology, request: Request, sizes: Shorts) -> int:
    """Return the units that servers of these sizes (S,) could give the job if all were open."""
    matching = sizes > 0
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


def _one_of_each(places: Shorts, matching: Bools) -> Shorts:
    """(S,) 1 for the first matching server of each place, else 0."""
    servers = np.flatnonzero(matching)
    counts = np.zeros(places.size, dtype=np.int32)
    counts[servers[first_of_each(places[servers])]] = 1
    return counts


def _available(topology: Topology, request: Request, sizes: Shorts, held: int) -> str:
    """Say how many units of the job there are, and of what there is too little for more."""
    if _most_units(topology, request, np.where(sizes > 0, topology.server_units, 0)) == held:
        return str(held)
    servers = np.arange(sizes.size, dtype=np.int32)
    exceeded = unit_vectors(topology, servers, request) > equal_share(topology) * (1.0 + SLACK)
    scarce = [RESOURCES[i] for i in np.flatnonzero(exceeded[sizes > 0].any(axis=0))]
    return f"{' and '.join(scarce)} for {held}"


def _too_wide(request: Request, available: str) -> str:
    """Say what limits the units of a job that is larger than what is ``available``."""
    if request.locality is not None:
        place = f"the largest matching {request.locality.value} has {available}"
        each = "" if request.spread is None else f", with a {request.spread.value} each"
        return f"all {request.units} units must share one {request.locality.value}{each}: {place}"
    if request.spread is not None:
        return (
            f"each of the {request.units} units needs a {request.spread.value} of its own,"
            f" and only {available} match"
        )
    return (
        f"the job needs {request.units} units at once, and the matching servers have {available}"
    )
