"""How long units take to move from one server to another, and how a migration can go.

Live migration copies the memory of a container while it works, again and again what has changed
meanwhile, and stops it for the rest (pre-copy). All of it once over the network is the least it
can take; we let the container stand still for as long, which is the most it can lose.

Source: Clark et al., Live Migration of Virtual Machines (NSDI 2005), §3.1; the share of the
network is ours.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

LEAST_S: Final = 1.0
NETWORK_SHARE: Final = 0.5  # the rest stays with what runs on the two servers


class MoveOutcome(StrEnum):
    """What a backend can report of a migration."""

    STARTED = "started"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


def move_s(memory_bytes: float, from_bps: float, to_bps: float) -> float:
    """Cluster seconds for which units stand still while they move.

    Parameters
    ----------
    memory_bytes : of all the units that move
    from_bps, to_bps : network of the two servers, bits/s, > 0

    Raises
    ------
    ValueError : a server has no network, or the memory is negative.
    """
    if not (memory_bytes >= 0.0 and from_bps > 0.0 and to_bps > 0.0):
        raise ValueError(
            f"memory must be >= 0 and both networks > 0, got {memory_bytes}, {from_bps}, {to_bps}"
        )
    return max(LEAST_S, 8.0 * memory_bytes / (NETWORK_SHARE * min(from_bps, to_bps)))


def moved_parts(
    parts: Iterable[tuple[int, int]], *, units: int, from_server: int, to_server: int
) -> tuple[tuple[int, int], ...]:
    """Return the (server, units) parts of a job after a move, each server once, by server.

    Raises
    ------
    ValueError : the job has not so many units on that server.
    """
    held = dict(parts)
    left = held.get(from_server, 0) - units
    if units < 1 or left < 0:
        raise ValueError(f"server {from_server} holds {held.get(from_server, 0)}, not {units}")
    held[from_server] = left
    held[to_server] = held.get(to_server, 0) + units
    return tuple(sorted((server, count) for server, count in held.items() if count))
