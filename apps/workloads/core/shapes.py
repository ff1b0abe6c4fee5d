"""Request shapes: waiting jobs whose requests are equal are evaluated together."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# A deadline comes closer while a job waits, so its size grows with its age. Jobs of one shape
# were submitted within this share of their completion time, or within this number of seconds.
AGE_SHARE: Final = 0.05
MIN_AGE_S: Final = 10.0


class WaitsFor(StrEnum):
    """The change of the cluster that may let a refused job start."""

    SERVERS = "servers"  # no server matches, even if idle: servers must be added
    OPENING = "opening"  # every matching server is drained, cordoned or down
    UNITS = "units"  # matching servers are busy


@dataclass(frozen=True, slots=True)
class Needs:
    """What a refused job needs at least; a server that has it may hold the job.

    Attributes
    ----------
    units : free units in the cluster, or on the server if ``on_one_server``
    platforms : names of the allowed platforms; None = all
    labels : "key=value" labels of the server
    unit_memory_bytes, unit_network_bps, unit_storage_bytes : of each unit; 0 = an equal share
    """

    waits_for: WaitsFor
    units: int = 1
    on_one_server: bool = False
    platforms: tuple[str, ...] | None = None
    labels: tuple[str, ...] = ()
    unit_memory_bytes: int = 0
    unit_network_bps: int = 0
    unit_storage_bytes: int = 0


@dataclass(frozen=True, slots=True)
class FreedServers:
    """Capacity that was freed on servers of one platform and one set of labels.

    Attributes
    ----------
    units, memory_bytes, network_bps, storage_bytes : free on the server that has most of it
    wakes : refused jobs that the change may let start
    sequence : change-log number of the last change
    """

    platform: str
    labels: tuple[str, ...]
    units: int
    memory_bytes: int
    network_bps: int
    storage_bytes: int
    wakes: tuple[WaitsFor, ...]
    sequence: int


@dataclass(frozen=True, slots=True)
class Freed:
    """Capacity freed since a shape may have been evaluated last.

    Attributes
    ----------
    units : free units of all open servers
    """

    units: int
    servers: Sequence[FreedServers]
