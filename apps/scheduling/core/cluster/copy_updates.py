"""Updates of the arrays of a cluster copy in numpy; ``copy_kernels`` has them compiled.

U units, S servers, N = 10 sources, W the largest number of busy units of one server.
"""

from typing import Final, NamedTuple, Protocol

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts, Singles
from apps.scheduling.core import loss

_BLOCK: Final = 2048  # servers that are summed at once, to limit the memory


class CopyArrays(NamedTuple):
    """Arrays of a copy, changed in place.

    unit_free (U,), unit_caused, unit_tolerated (U, N), unit_vector (U, 3), unit_sequence (U,) : by
        unit; the last is the change-log number of its last change
    server_caused, server_exposure (S, N), server_free (S, 3) : sums over the units of a server
    server_tolerance (S, N) : minimum over its busy units
    limit : (S, 3) capacity, oversubscription included
    unit_server (U,), first_unit (S,), server_units (S,) : of the topology
    changed (S,), changes (1,) : number of the last change of each server, and of all
    """

    unit_free: Bools
    unit_caused: Singles
    unit_tolerated: Singles
    unit_vector: Floats
    unit_sequence: Ints
    server_caused: Singles
    server_exposure: Singles
    server_tolerance: Singles
    server_free: Floats
    limit: Floats
    unit_server: Shorts
    first_unit: Shorts
    server_units: Shorts
    changed: Ints
    changes: Ints


class Claims(NamedTuple):
    """Units of c claims, p in all, in the order of the claims.

    first : (c + 1,) first unit of each claim, and the number of units
    unit : (p,) indices
    scores : (c, 2, N) caused and tolerated
    vectors : (p, 3) resources of each unit
    sequence : (c,) change-log number of each claim
    """

    first: Ints
    unit: Ints
    scores: Floats
    vectors: Floats
    sequence: Ints


class UpdateUnits(Protocol):
    """Updates of units: those of this module, or the compiled ones of ``copy_kernels``."""

    def claim_units(
        self, state: CopyArrays, units: Ints, scores: Floats, vectors: Floats, sequence: int
    ) -> None:
        """Claim units whose last change is not newer."""
        ...

    def claim_all(self, state: CopyArrays, claims: Claims) -> None:
        """Claim the units of many jobs, one after the other."""
        ...

    def release_units(self, state: CopyArrays, units: Ints, sequence: int) -> None:
        """Release units whose last change is not newer."""
        ...

    def sum_servers(self, state: CopyArrays, units: Ints) -> None:
        """Recompute the sums of the servers of units."""
        ...


def updates(*, is_compiled: bool) -> UpdateUnits:
    """Return the updates in numpy, or the compiled ones."""
    if not is_compiled:
        return _InNumpy()
    # only processes that decide import numba
    from apps.scheduling.core.cluster import copy_kernels  # noqa: PLC0415

    return copy_kernels


def claim_units(
    state: CopyArrays, units: Ints, scores: Floats, vectors: Floats, sequence: int
) -> None:
    """Claim units, unless their last change is newer; (2, N) scores, (k, 3) vectors."""
    new = state.unit_sequence[units] <= sequence
    units, vectors = units[new], vectors[new]
    state.unit_free[units] = False
    state.unit_caused[units], state.unit_tolerated[units] = scores
    state.unit_vector[units] = vectors
    state.unit_sequence[units] = sequence
    sum_servers(state, units)


def claim_all(state: CopyArrays, claims: Claims) -> None:
    """Claim the units of many jobs, one after the other."""
    for c, sequence in enumerate(claims.sequence.tolist()):
        units = slice(int(claims.first[c]), int(claims.first[c + 1]))
        claim_units(state, claims.unit[units], claims.scores[c], claims.vectors[units], sequence)


def release_units(state: CopyArrays, units: Ints, sequence: int) -> None:
    """Release units, unless their last change is newer."""
    units = units[state.unit_sequence[units] <= sequence]
    state.unit_free[units] = True
    state.unit_caused[units] = 0.0
    state.unit_tolerated[units] = loss.UNKNOWN
    state.unit_vector[units] = 0.0
    state.unit_sequence[units] = sequence
    sum_servers(state, units)


def sum_servers(state: CopyArrays, units: Ints) -> None:
    """Recompute the sums of changed servers: incremental updates would accumulate errors."""
    servers = np.unique(state.unit_server[units])
    for first in range(0, servers.size, _BLOCK):
        _sum_block(state, servers[first : first + _BLOCK])


def _sum_block(state: CopyArrays, servers: Shorts) -> None:
    state.changed[servers] = state.changes[0] + np.arange(1, servers.size + 1)
    state.changes[0] += servers.size
    units, is_busy = _busy_units(state, servers)
    caused = np.where(is_busy[..., None], state.unit_caused[units], np.float32(0.0))
    tolerated = np.where(is_busy[..., None], state.unit_tolerated[units], np.float32(loss.UNKNOWN))
    size = state.server_units[servers]
    state.server_caused[servers] = caused.sum(axis=1)
    state.server_exposure[servers] = loss.exposure(caused, tolerated, size)
    state.server_tolerance[servers] = loss.tolerance(caused, tolerated, is_busy, size)
    used = np.where(is_busy[..., None], state.unit_vector[units], 0.0).sum(axis=1)
    state.server_free[servers] = state.limit[servers] - used


def _busy_units(state: CopyArrays, servers: Shorts) -> tuple[Ints, Bools]:
    """Return (S, W) busy units of servers in their order, and which of the places have one.

    W is the largest number of busy units of one server.
    """
    first, size = state.first_unit[servers], state.server_units[servers]
    place = np.arange(int(size.max(initial=0)))
    units = np.where(place < size[:, None], first[:, None] + place, first[:, None])
    is_busy = ~state.unit_free[units] & (place < size[:, None])
    count = is_busy.sum(axis=1)
    width = int(count.max(initial=0))
    rows = np.nonzero(is_busy)
    busy = np.zeros((servers.size, width), dtype=np.int64)
    filled = np.arange(width) < count[:, None]
    busy[filled] = units[rows]
    return busy, filled


class _InNumpy:
    """The updates of this module."""

    claim_units = staticmethod(claim_units)
    claim_all = staticmethod(claim_all)
    release_units = staticmethod(release_units)
    sum_servers = staticmethod(sum_servers)
