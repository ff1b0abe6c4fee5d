"""The reason why a request could not be placed."""

import numpy as np

from apps.scheduling.core.batch_state import BatchState
from apps.scheduling.core.capacity import fits, unit_vectors
from apps.scheduling.core.filters import Eligibility
from apps.scheduling.core.types import RefusalReason, Refused, Request, Within

DETAILS = {
    RefusalReason.NO_MATCHING_SERVER: "no server has the requested platform, labels and size",
    RefusalReason.SERVERS_CLOSED: "all matching servers are drained, cordoned or down",
    RefusalReason.NO_FREE_UNIT: "all units of the matching servers are busy",
    RefusalReason.CAPACITY_SHORT: "units are free, but without enough memory, network or storage",
    RefusalReason.LOCALITY_SHORT: "no single server or rack has room for all units",
    RefusalReason.SPREAD_SHORT: "too few servers or racks have a free unit",
    RefusalReason.NOT_ENOUGH_FREE_UNITS: "the job needs all its units at once, and fewer are free",
}


def refused(
    state: BatchState, request: Request, eligibility: Eligibility, *, examined: int, seed: int
) -> Refused:
    """Return the refusal of a request. O(S)."""
    reason = _reason(state, request, eligibility)
    return Refused(
        job=request.job,
        reason=reason,
        dropped=eligibility.dropped,
        examined=examined,
        eligible=eligibility.units,
        detail=DETAILS[reason],
        seed=seed,
        sequence=state.snapshot.sequence,
    )


def _reason(state: BatchState, request: Request, eligibility: Eligibility) -> RefusalReason:
    topology = state.snapshot.topology
    platforms = state.facts.allowed(request.platforms)[topology.server_platform]
    servers = np.arange(topology.server_id.size, dtype=np.int32)
    shape = fits(unit_vectors(topology, servers, request), topology.server_capacity)
    matching = platforms & state.facts.labelled(request.labels) & shape
    usable = matching & state.snapshot.server_open
    if not _could_ever(state, request, matching):
        return RefusalReason.NO_MATCHING_SERVER
    if not usable.any():
        return RefusalReason.SERVERS_CLOSED
    if not state.free_count[usable].any():
        return RefusalReason.NO_FREE_UNIT
    if eligibility.units == 0:
        short = "locality" in eligibility.dropped
        return RefusalReason.LOCALITY_SHORT if short else RefusalReason.CAPACITY_SHORT
    if eligibility.units < request.units:
        return RefusalReason.NOT_ENOUGH_FREE_UNITS
    return RefusalReason.SPREAD_SHORT if request.spread else RefusalReason.CAPACITY_SHORT


def _could_ever(state: BatchState, request: Request, matching: np.ndarray) -> bool:
    """Return whether the matching servers could hold the job if all were idle and open."""
    topology = state.snapshot.topology
    sizes = np.where(matching, topology.server_units, 0)
    by_rack = np.bincount(topology.server_rack, weights=sizes, minlength=len(topology.rack_name))
    if request.locality == Within.SERVER:
        return int(sizes.max(initial=0)) >= request.units
    if request.locality == Within.RACK:
        return float(by_rack.max(initial=0.0)) >= request.units
    if not request.gang:
        return bool(matching.any())
    if request.spread == Within.SERVER:
        return int(matching.sum()) >= request.units
    if request.spread == Within.RACK:
        return int((by_rack > 0).sum()) >= request.units
    return int(sizes.sum()) >= request.units
