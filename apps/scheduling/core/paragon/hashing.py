"""Paragon's statistical selection: servers drawn by hashes of their scores (P6).

Each source j has its own hash h_j, a variation of SHA-1 with 14 bits. A server has the value
h_j(t) for what it tolerates in j. A job that causes c probes at b = h_j(c), then at h_j(b), and so
on: each probe finds the server whose value is the next one at or after b, around the ring.
"""

from functools import lru_cache
from hashlib import sha1
from typing import Final

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Floats, Ints, Singles
from apps.scheduling.core import chance, samplers
from apps.scheduling.core.batch_state import BatchState
from apps.scheduling.core.filters import Eligibility
from apps.scheduling.core.tarcil import encoding
from apps.scheduling.core.types import Request

BITS: Final = 14
PROBES: Final = 4  # per unit to draw, before the rest are drawn uniformly


@lru_cache(maxsize=1 << 16)
def hashed(source: int, value: int) -> int:
    """Return h_j of a value, 0 .. 2^14 - 1."""
    digest = sha1(b"%d:%d" % (source, value), usedforsecurity=False).digest()
    return int.from_bytes(digest[:2], "big") >> (16 - BITS)


@lru_cache(maxsize=N_SOURCES)
def _table(source: int) -> Ints:
    """(100,) h_j of every score."""
    return np.array([hashed(source, score) for score in range(100)], dtype=np.int64)


class Ring:
    """Servers in the order of the hash of their tolerance to one source.

    Servers with the same value are equally likely.
    """

    def __init__(self, source: int, tolerance: Floats | Singles) -> None:
        values = _table(source)[encoding.digits(np.asarray(tolerance, dtype=np.float64))]
        self._order = np.argsort(values, kind="stable")
        self._values = values[self._order]

    def at(self, probe: int, draw: int) -> int:
        """Return the position of a server with the first value at or after a probe.

        ``draw`` is a 64-bit random number that chooses among equals.
        """
        first = int(np.searchsorted(self._values, probe)) % self._values.size
        last = int(np.searchsorted(self._values, self._values[first], side="right"))
        return int(self._order[first + chance.below(draw, last - first)])


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
    rings = [Ring(j, state.server_tolerance[servers, j]) for j in range(N_SOURCES)]
    probes = encoding.digits(request.caused).tolist()
    taken: dict[int, int] = {}
    for turn in range(PROBES * count):
        source = turn % N_SOURCES
        probes[source] = hashed(source, probes[source])
        server = int(servers[rings[source].at(probes[source], chance.word(seed, turn))])
        if taken.get(server, 0) < state.free_count[server]:
            taken[server] = taken.get(server, 0) + 1
        if sum(taken.values()) == count:
            break
    return _filled(state, request, eligibility, (_units(state, taken), count), seed)


def _units(state: BatchState, taken: dict[int, int]) -> Ints:
    """Return the first free units of servers, as many as counted, ascending."""
    first, size = state.facts.first_unit, state.facts.server_units
    found = [
        first[s] + np.flatnonzero(state.unit_free[first[s] : first[s] + size[s]])[:count]
        for s, count in sorted(taken.items())
    ]
    return np.concatenate(found).astype(np.int64)


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
