"""Conflict resolution between placements that claim the same units.

Pure: the commit to PostgreSQL, after locking the rows, and the commit in memory share it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from apps.scheduling.core.cluster.capacity import SLACK

FREE: Final = -1  # owner of a unit without an allocation, in arrays
Vector = tuple[float, float, float]  # memory bytes, network bits/s, storage bytes
KeptUnit = tuple[int, Vector]  # unit id


@dataclass(frozen=True, slots=True)
class Claim:
    """Units and capacity that one placement claims.

    Attributes
    ----------
    job : id of the job
    units : unit ids, best first
    servers : server id of each unit
    vectors : resources that each unit takes from its server
    whole : all units or none (gangs, and jobs with a locality constraint)
    barred : unit ids that it must not win, as they are reserved for another job
    kept : by server id, the units of reservations for which it leaves capacity, and how much
    """

    job: str
    units: Sequence[int]
    servers: Sequence[int]
    vectors: Sequence[Vector]
    whole: bool
    barred: frozenset[int] = frozenset()
    kept: Mapping[int, Sequence[KeptUnit]] = field(default_factory=dict)


def resolve_conflicts(
    claims: Sequence[Claim],
    unit_owner: Mapping[int, object],
    server_free: Mapping[int, Vector],
) -> list[tuple[int, ...]]:
    """Return the positions of the units that each claim wins, in its order; empty = none.

    Claims are served in the given order, so the caller sorts them by priority. A whole claim that
    lacks a unit wins nothing, and its units stay available to later claims.

    Parameters
    ----------
    claims : in order of precedence
    unit_owner : unit id -> its holder, None = free; missing units cannot be won (their server is
        closed or removed)
    server_free : server id -> free capacity, oversubscription included

    Source: optimistic concurrency with incremental transactions, Tarcil §5.1, T8 and T9. O(claimed
    units).
    """
    claimed: dict[int, Vector] = {}
    left: dict[int, Vector] = {}
    winners = []
    for claim in claims:
        here: dict[int, Vector] = {}
        used: dict[int, Vector] = {}
        positions = []
        for position, (unit, server, vector) in enumerate(
            zip(claim.units, claim.servers, claim.vectors, strict=True)
        ):
            is_free = unit_owner.get(unit, unit) is None and unit not in claim.barred
            if not is_free or unit in claimed or unit in here or server not in server_free:
                continue
            free = used.get(server) or left.get(server) or server_free[server]
            if _fits(vector, _without_kept(free, claim.kept.get(server, ()), claimed)):
                here[unit] = vector
                used[server] = _subtract(free, vector)
                positions.append(position)
        if claim.whole and len(positions) < len(claim.units):
            positions = []
        else:
            claimed |= here
            left |= used
        winners.append(tuple(positions))
    return winners


def _without_kept(free: Vector, kept: Sequence[KeptUnit], claimed: Mapping[int, Vector]) -> Vector:
    """Return what is free apart from what kept units will take; claimed ones have a part of it."""
    for unit, amount in kept:
        less = _subtract(amount, claimed.get(unit, (0.0, 0.0, 0.0)))
        free = _subtract(free, (max(0.0, less[0]), max(0.0, less[1]), max(0.0, less[2])))
    return free


def _fits(vector: Vector, free: Vector) -> bool:
    return all(v * (1.0 - SLACK) <= f for v, f in zip(vector, free, strict=True))


def _subtract(free: Vector, vector: Vector) -> Vector:
    return (free[0] - vector[0], free[1] - vector[1], free[2] - vector[2])
