"""Duration and outcome of migrations from one server to another.

A backend without live migration stops the job and starts it on the new server. The job then
repeats its work, as no backend of this kind knows a checkpoint.

Live migration (pre-copy) copies the memory of a running container, then repeatedly the pages that
have changed, and pauses the container for the last ones. One copy of all its memory over the
network is the minimum duration; we pause the container for that long, the worst case.

Source: Clark et al., Live Migration of Virtual Machines (NSDI 2005), §3.1; the share of the
network is ours.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MIN_S: Final = 1.0
NETWORK_SHARE: Final = 0.5  # the rest is left to the jobs on the two servers

TO_RESTART: Final = "stopped to restart on another server"  # message of a launch
STOP_S: Final = 6.0  # in which a backend stops a job: SIGKILL follows after 5


class MigrationOutcome(StrEnum):
    """State of a migration that a backend can report."""

    STARTED = "started"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class MigrationOrder:
    """Units of a launch that a backend must migrate from one server to another."""

    migration: int
    launch: int
    from_server: int
    to_server: int
    units: int


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """The outcome of a migration and its cluster time; `message` is the reason of a failure."""

    migration: int
    at_s: float
    outcome: MigrationOutcome
    message: str = ""


def migration_s(memory_bytes: float, from_bps: float, to_bps: float) -> float:
    """Cluster seconds for which units pause during their migration.

    Parameters
    ----------
    memory_bytes : of all migrated units
    from_bps, to_bps : network of the two servers, bits/s, > 0

    Raises
    ------
    ValueError : negative memory, or a network of 0.
    """
    if not (memory_bytes >= 0.0 and from_bps > 0.0 and to_bps > 0.0):
        raise ValueError(
            f"memory must be >= 0 and both networks > 0, got {memory_bytes}, {from_bps}, {to_bps}"
        )
    return max(MIN_S, 8.0 * memory_bytes / (NETWORK_SHARE * min(from_bps, to_bps)))


def lost_s(
    now_s: float, started_s: float, suspended_for_s: float, suspended_s: float | None = None
) -> float:
    """Cluster seconds of work that a running job loses if it is stopped now.

    Parameters
    ----------
    started_s : of its launch
    suspended_for_s : in which it did not work
    suspended_s : since when it is suspended again; None = it works
    """
    until_s = now_s if suspended_s is None else min(now_s, suspended_s)
    return max(0.0, until_s - started_s - suspended_for_s)


def restart_s(lost: float) -> float:
    """Cluster seconds by which a restart delays a job: its stop, and the work to repeat."""
    return STOP_S + lost


def parts_after_migration(
    parts: Iterable[tuple[int, int]], *, units: int, from_server: int, to_server: int
) -> tuple[tuple[int, int], ...]:
    """Return the (server, units) parts of a job after a migration, ordered by server.

    Raises
    ------
    ValueError : the job has fewer units on ``from_server``.
    """
    by_server = dict(parts)
    present = by_server.get(from_server, 0)
    if not 1 <= units <= present:
        raise ValueError(f"server {from_server} holds {present} units of the job, not {units}")
    by_server[from_server] = present - units
    by_server[to_server] = by_server.get(to_server, 0) + units
    return tuple(sorted((server, count) for server, count in by_server.items() if count))
