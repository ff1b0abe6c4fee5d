"""Paragon's statistical selection: servers drawn by hashes of their scores (P6).

Each source j has its own hash h_j, a variation of SHA-1 with 14 bits. A server has the value
h_j(t) for what it tolerates in j, and the servers of a source form a ring in the order of these
values. A job that causes c probes at b = h_j(c), then at h_j(b), and so on.

The seed of the decision is part of the hashes of probes, and a probe selects a place on a ring on
which every free unit has the same length. Without the seed, all jobs of an application would have
the same candidates; with the gaps between the values, of only 100 scores, as lengths, some servers
would be drawn much more often than others. Either makes a^R wrong, the paper's guarantee.
"""

from functools import lru_cache
from hashlib import sha1
from typing import Final

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Floats, Ints, Shorts, Singles
from apps.scheduling.core import chance, samplers
from apps.scheduling.core.batch_state import BatchState
from apps.scheduling.core.filters import Eligibility
from apps.scheduling.core.tarcil import encoding
from apps.scheduling.core.types import Request

BITS: Final = 14
PROBES: Final = 4  # per unit to draw, before the rest are drawn uniformly


def hashed(source: int, value: int, salt: int = 0) -> int:
    """Return h_j of a value, 0 .. 2^14 - 1; another function for each salt."""
    digest = sha1(b"%d:%d:%d" % (source, value, salt), usedforsecurity=False).digest()
    return int.from_bytes(digest[:2], "big") >> (16 - BITS)


@lru_cache(maxsize=N_SOURCES)
def _table(source: int) -> Ints:
    """(100,) h_j of every score."""
    return np.array([hashed(source, score) for score in range(100)], dtype=np.int64)


class Ring:
    """Free units of servers in the order of the hash of their tolerance to one source.

    Parameters
    ----------
    tolerance : (n,) of each server to the source
    free : (n,) its free units, at least one
    """

    def __init__(self, source: int, tolerance: Floats | Singles, free: Shorts) -> None:
        values = _table(source)[encoding.digits(np.asarray(tolerance, dtype=np.float64))]
        self._order = np.argsort(values, kind="stable")
        self._ends = np.cumsum(free[self._order], dtype=np.int64)

    def at(self, probe: int, draw: int) -> tuple[int, int]:
        """Return the server (position) at a probe, and which of its free units.

        ``draw`` is a 64-bit random number that divides the 14 bits of a probe further.
        """
        place = chance.below(probe << 64 - BITS | draw >> BITS, int(self._ends[-1]))
        turn = int(np.searchsorted(self._ends, place, side="right"))
        return int(self._order[turn]), int(self._ends[turn]) - 1 - place


def by_hash(
    state: BatchState, request: Request, eligibility: Eligibility, count: int, seed: int
) -> Ints:
    """Draw ``count`` eligible units of servers found by hashes, ascending; all if few are left.

    The probes use the sources in turn. Rings are built from the state at each decision, which
    costs O(S log S); the paper keeps them and needs constant time.
    """
    if count * samplers.CROWDED > eligibility.units:
        drawn = samplers.uniform(state, request, eligibility, count, seed)
        return np.sort(drawn)
    servers = np.flatnonzero(eligibility.servers)
    free = state.free_count[servers]
    rings = [Ring(j, state.server_tolerance[servers, j], free) for j in range(N_SOURCES)]
    probes = encoding.digits(request.caused).tolist()
    taken: set[tuple[int, int]] = set()
    for turn in range(PROBES * count):
        source, draw = turn % N_SOURCES, chance.word(seed, turn)
        probes[source] = hashed(source, probes[source], salt=draw)
        taken.add(rings[source].at(probes[source], draw))
        if len(taken) == count:
            break
    units = np.sort([_unit(state, int(servers[at]), nth) for at, nth in taken])
    return _filled(state, request, eligibility, (units, count), seed)


def _unit(state: BatchState, server: int, nth: int) -> int:
    """Return the nth free unit of a server, from 0."""
    first, size = state.facts.first_unit[server], state.facts.server_units[server]
    return int(first + np.flatnonzero(state.unit_free[first : first + size])[nth])


def _filled(
    state: BatchState,
    request: Request,
    eligibility: Eligibility,
    drawn: tuple[Ints, int],
    seed: int,
) -> Ints:
    """Add units drawn uniformly until there are enough."""
    units, count = drawn
    if units.size == count:
        return units
    more = samplers.uniform(state, request, eligibility, 2 * count, seed)
    rest = more[~np.isin(more, units)][: count - units.size]
    return np.sort(np.concatenate((units, rest)))
