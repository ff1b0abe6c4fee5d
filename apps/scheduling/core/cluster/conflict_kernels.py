"""Compiled conflict resolution over arrays; ``conflicts.resolve_conflicts`` is the oracle.

Imported by processes that decide, never by the web process. c claims with p units in all.
"""

from typing import NamedTuple

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts
from apps.scheduling.core.cluster.capacity import SLACK
from apps.scheduling.core.cluster.conflicts import FREE

_KEEP = 1.0 - SLACK


class Owners(NamedTuple):
    """Units and servers of a cluster.

    owner : (U,) allocation that holds each unit, `FREE` if none
    unit_server : (U,)
    is_open : (S,)
    share : (S, 3) equal share of one unit
    left : (S, 3) free capacity; changed by the claims that win
    """

    owner: Ints
    unit_server: Shorts
    is_open: Bools
    share: Floats
    left: Floats


class ClaimTable(NamedTuple):
    """Claims in order of precedence.

    first : (c + 1,) first unit of each claim, and the number of units
    unit : (p,) indices, best first
    requested : (c, 3) resources of each unit; 0 = an equal share
    whole : (c,) all units or none
    has_won : (p,) output: whether the claim of a unit wins it
    before : (p, 3) scratch: free capacity before each unit
    """

    first: Ints
    unit: Ints
    requested: Floats
    whole: Bools
    has_won: Bools
    before: Floats


@jit(makes_arrays=False)
def win_units(owners: Owners, claims: ClaimTable, number: int) -> None:
    """Give units to the claims that win them; allocations are numbered from `number` on. O(p)."""
    for c in range(claims.whole.size):
        won = 0
        begin, end = claims.first[c], claims.first[c + 1]
        for p in range(begin, end):
            unit = claims.unit[p]
            claims.has_won[p] = owners.owner[unit] == FREE and _take(owners, claims, c, p)
            if claims.has_won[p]:
                owners.owner[unit] = number
                won += 1
        if claims.whole[c] and won < end - begin:
            _give_back(owners, claims, c)
            won = 0
        number += won > 0


@jit(makes_arrays=False)
def _take(owners: Owners, claims: ClaimTable, c: int, p: int) -> bool:
    """Take the capacity of one unit from its server if it fits."""
    server = owners.unit_server[claims.unit[p]]
    if not owners.is_open[server]:
        return False
    for i in range(3):
        if _vector(owners, claims, c, server, i) * _KEEP > owners.left[server, i]:
            return False
    for i in range(3):
        claims.before[p, i] = owners.left[server, i]
        owners.left[server, i] -= _vector(owners, claims, c, server, i)
    return True


@jit(makes_arrays=False)
def _give_back(owners: Owners, claims: ClaimTable, c: int) -> None:
    """Undo what a claim took, last unit first: the capacity is the former one to the bit."""
    begin, end = claims.first[c], claims.first[c + 1]
    for p in range(end - 1, begin - 1, -1):
        if claims.has_won[p]:
            claims.has_won[p] = False
            owners.owner[claims.unit[p]] = FREE
            server = owners.unit_server[claims.unit[p]]
            for i in range(3):
                owners.left[server, i] = claims.before[p, i]


@jit(makes_arrays=False)
def _vector(owners: Owners, claims: ClaimTable, c: int, server: int, i: int) -> float:
    requested: float = claims.requested[c, i]
    return requested if requested > 0.0 else owners.share[server, i]
