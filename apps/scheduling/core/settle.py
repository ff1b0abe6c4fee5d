"""Who wins when several placements want the same units: the rule of every commit.

Pure, so that the PostgreSQL commit (after it locked the rows) and the one in memory cannot
disagree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apps.scheduling.core.capacity import SLACK

Vector = tuple[float, float, float]  # memory bytes, network bits/s, storage bytes


@dataclass(frozen=True, slots=True)
class Claim:
    """What one placement wants to take.

    Attributes
    ----------
    job : id of the job
    units : unit ids, best first
    servers : server id of each unit
    vectors : what each unit takes from its server
    whole : all units or none (gangs, and jobs whose units must be near each other)
    """

    job: str
    units: Sequence[int]
    servers: Sequence[int]
    vectors: Sequence[Vector]
    whole: bool


def settle(
    claims: Sequence[Claim],
    unit_owner: Mapping[int, object],
    server_free: Mapping[int, Vector],
) -> list[tuple[int, ...]]:
    """Positions of the units that each claim wins, in its own order; empty = it lost.

    Claims are served in the order given, so the caller sorts by priority first. A claim that must
    be whole and lacks one unit takes nothing, and what it let go is there for the next claim.

    Parameters
    ----------
    claims : wishes, earlier ones first
    unit_owner : unit id -> who holds it now, None = free; a unit that is absent cannot be won (its
        server is gone or closed)
    server_free : server id -> what is free there, oversubscription included

    Source: optimistic concurrency with incremental transactions, Tarcil §5.1, T8 and T9. O(units
    claimed).
    """
    taken: set[int] = set()
    left: dict[int, Vector] = {}
    won = []
    for claim in claims:
        here: set[int] = set()
        used: dict[int, Vector] = {}
        winners = []
        for position, (unit, server, vector) in enumerate(
            zip(claim.units, claim.servers, claim.vectors, strict=True)
        ):
            is_free = unit in unit_owner and unit_owner[unit] is None
            if not is_free or unit in taken or unit in here or server not in server_free:
                continue
            free = used.get(server) or left.get(server) or server_free[server]
            if _fits(vector, free):
                here.add(unit)
                used[server] = _less(free, vector)
                winners.append(position)
        if claim.whole and len(winners) < len(claim.units):
            winners = []
        else:
            taken |= here
            left |= used
        won.append(tuple(winners))
    return won


def _fits(vector: Vector, free: Vector) -> bool:
    return all(v * (1.0 - SLACK) <= f for v, f in zip(vector, free, strict=True))


def _less(free: Vector, vector: Vector) -> Vector:
    return (free[0] - vector[0], free[1] - vector[1], free[2] - vector[2])
