"""Why nothing could be placed: the one reason that outranks the others."""

import numpy as np

from apps.scheduling.core.board import Board
from apps.scheduling.core.capacity import fits, unit_vectors
from apps.scheduling.core.filters import Eligibility
from apps.scheduling.core.types import RefusalReason, Refused, Request, Within

WHAT_TO_DO = {
    RefusalReason.NO_MATCHING_SERVER: "no server has the platform, labels and size asked for",
    RefusalReason.SERVERS_CLOSED: "every server that matches is drained, cordoned or silent",
    RefusalReason.NO_FREE_UNIT: "every unit of the servers that match is busy",
    RefusalReason.CAPACITY_SHORT: "units are free, but no memory, network or storage with them",
    RefusalReason.LOCALITY_SHORT: "no single server or rack has room for all units",
    RefusalReason.SPREAD_SHORT: "too few different servers or racks have a free unit",
    RefusalReason.NOT_ENOUGH_FREE_UNITS: "the job takes all its units at once, and fewer are free",
}


def refused(
    board: Board, request: Request, eligibility: Eligibility, *, examined: int, seed: int
) -> Refused:
    """Answer a request that got nothing. O(S)."""
    reason = _reason(board, request, eligibility)
    return Refused(
        job=request.job,
        reason=reason,
        dropped=eligibility.dropped,
        examined=examined,
        eligible=eligibility.units,
        detail=WHAT_TO_DO[reason],
        seed=seed,
        sequence=board.snapshot.sequence,
    )


def _reason(board: Board, request: Request, eligibility: Eligibility) -> RefusalReason:
    topology = board.snapshot.topology
    platforms = board.facts.allowed(request.platforms)[topology.server_platform]
    servers = np.arange(topology.server_id.size, dtype=np.int32)
    shape = fits(unit_vectors(topology, servers, request), topology.server_capacity)
    matching = platforms & board.facts.labelled(request.labels) & shape
    usable = matching & board.snapshot.server_open
    if not _could_ever(board, request, matching):
        return RefusalReason.NO_MATCHING_SERVER
    if not usable.any():
        return RefusalReason.SERVERS_CLOSED
    if not board.free_count[usable].any():
        return RefusalReason.NO_FREE_UNIT
    if eligibility.units == 0:
        short = "locality" in eligibility.dropped
        return RefusalReason.LOCALITY_SHORT if short else RefusalReason.CAPACITY_SHORT
    if eligibility.units < request.units:
        return RefusalReason.NOT_ENOUGH_FREE_UNITS
    return RefusalReason.SPREAD_SHORT if request.spread else RefusalReason.CAPACITY_SHORT


def _could_ever(board: Board, request: Request, matching: np.ndarray) -> bool:
    """Whether the matching servers could hold the job if they were all idle and open."""
    topology = board.snapshot.topology
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
