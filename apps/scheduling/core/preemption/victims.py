"""Victims of a preemption: the running jobs that make room for a waiting one.

Of all sets of victims that make room, the best one breaks the fewest promises, then loses the
least work, then has the fewest jobs. `choice` prunes the servers and candidates by bounds
over arrays; `search` searches the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np

from apps.inventory.core.snapshot import Bools, Ints
from apps.scheduling.core.cluster.capacity import SLACK


class Cost(NamedTuple):
    """Cost of a set of victims; compared in this order.

    Attributes
    ----------
    broken : promises that are broken
    lost : work lost, unit-seconds
    jobs : number of victims
    """

    broken: int = 0
    lost: int = 0
    jobs: int = 0


class Vector(NamedTuple):
    """Memory bytes, network bits/s and storage bytes."""

    memory_bytes: int = 0
    network_bps: int = 0
    storage_bytes: int = 0


NOTHING: Final = Vector()
MARGIN_S: Final = 600  # cluster seconds; running jobs report their work more often


@dataclass(frozen=True, slots=True)
class Part:
    """Units of a running job on a server that the waiting job may use.

    Attributes
    ----------
    units : that the waiting job may take over
    freed : resources that are free once the running job has stopped
    """

    server: int
    units: int
    freed: Vector = NOTHING


@dataclass(frozen=True, slots=True)
class Candidate:
    """A running job that may be preempted; ``lost`` in unit-seconds."""

    job: UUID
    priority: int
    lost: int
    breaks: bool
    parts: tuple[Part, ...]

    @property
    def cost(self) -> Cost:
        """Its part of the cost of a set."""
        return Cost(int(self.breaks), self.lost, 1)


@dataclass(frozen=True, slots=True)
class Room:
    """A server that the waiting job may use.

    Attributes
    ----------
    free_units : free, and not reserved for another job
    free, per_unit : free resources, and those that each unit of the waiting job takes
    group : servers of one group may hold the job together (locality)
    place : a spread job gets one unit of each place
    """

    free_units: int
    free: Vector = NOTHING
    per_unit: Vector = NOTHING
    group: int = 0
    place: int = 0

    def holds(self, units: int, freed: Sequence[int]) -> int:
        """Return how many units of the waiting job fit if jobs of ``units`` have stopped."""
        limit = self.free_units + units
        for free, more, needed in zip(self.free, freed, self.per_unit, strict=True):
            if needed > 0:
                limit = min(limit, int((free + more) * (1.0 + SLACK) / needed))
        return max(0, limit)

    @property
    def fits_now(self) -> int:
        """Units that fit before any job stops."""
        return self.holds(0, NOTHING)

    @property
    def blocked(self) -> int:
        """Free units that lack resources: the end of one job may make all of them usable."""
        return max(0, self.free_units) - self.fits_now


@dataclass(frozen=True, slots=True, eq=False)
class Rooms:
    """The S servers that the waiting job may use, as arrays; see `Room`.

    Attributes
    ----------
    server : (S,) ids, ascending
    free_units, group, place : (S,)
    free, per_unit : (S, 3) memory bytes, network bits/s and storage bytes
    """

    server: Ints
    free_units: Ints
    free: Ints
    per_unit: Ints
    group: Ints
    place: Ints

    def holds(self, servers: Ints, units: Ints, freed: Ints) -> Ints:
        """(k,) units of the waiting job that fit on servers; as `Room.holds`.

        Parameters
        ----------
        servers : (k,) indices
        units, freed : (k,) units and (k, 3) resources of the jobs that have stopped
        """
        needed = self.per_unit[servers]
        room = (self.free[servers] + freed) * (1.0 + SLACK)
        with np.errstate(divide="ignore", invalid="ignore"):
            by_resource = np.where(needed > 0, np.floor(room / needed), np.inf).min(axis=1)
        limit = np.minimum(by_resource, self.free_units[servers] + units)
        return np.maximum(limit, 0.0).astype(np.int64)

    def fits_now(self, servers: Ints) -> Ints:
        """(k,) units that fit on servers (indices) before any job stops."""
        return self.holds(servers, np.zeros_like(servers), np.zeros((1, 3), np.int64))

    def blocked(self, servers: Ints) -> Ints:
        """(k,) free units of servers (indices) that lack resources; as `Room.blocked`."""
        return np.maximum(0, self.free_units[servers]) - self.fits_now(servers)

    def room(self, index: int) -> Room:
        """Return one server."""
        return Room(
            free_units=int(self.free_units[index]),
            free=Vector(*self.free[index].tolist()),
            per_unit=Vector(*self.per_unit[index].tolist()),
            group=int(self.group[index]),
            place=int(self.place[index]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """C running jobs and their n parts, as arrays; see `Candidate` and `Part`.

    Attributes
    ----------
    job : (C,) UUIDs, 16 bytes each
    priority, lost : (C,)
    breaks : (C,)
    part_job : (n,) index of the job of each part
    part_server : (n,) ids of servers
    part_units : (n,)
    part_freed : (n, 3)
    """

    job: np.ndarray[tuple[int], np.dtype[np.void]]
    priority: Ints
    lost: Ints
    breaks: Bools
    part_job: Ints
    part_server: Ints
    part_units: Ints
    part_freed: Ints

    def job_id(self, index: int) -> UUID:
        """Return the id of a job."""
        return UUID(bytes=bytes(self.job[index]))


@dataclass(frozen=True, slots=True)
class Waiting:
    """The job that waits; ``is_spread`` = at most one unit in each place."""

    units: int
    priority: int
    is_spread: bool = False


@dataclass(frozen=True, slots=True)
class Victims:
    """Chosen victims.

    Attributes
    ----------
    jobs : ascending by cost; empty if there is room already
    cost : of all of them
    bound : no set of victims costs less; equal to the cost = the choice is proven to be the best
    units : units that the waiting job takes, by server
    short : units that are missing if a victim is kept, by job
    """

    jobs: tuple[UUID, ...]
    cost: Cost
    bound: Cost
    units: Mapping[int, int]
    short: Mapping[UUID, int]

    @property
    def is_best(self) -> bool:
        """Whether no other set of victims costs less."""
        return self.cost == self.bound


def plus(cost: Cost, more: Cost) -> Cost:
    """Return the sum of two costs."""
    return Cost(cost.broken + more.broken, cost.lost + more.lost, cost.jobs + more.jobs)


def is_clearly_less(cost: Cost, than: Cost, units: int) -> bool:
    """Return whether a choice of victims is so much better that it replaces a proposed one.

    It breaks fewer promises; or as many, and loses at most half of the work, and ten minutes less
    of each unit. Without this margin, proposals would change with each report of a running job.

    Parameters
    ----------
    units : that the waiting job takes
    """
    if cost.broken != than.broken:
        return cost.broken < than.broken
    return 2 * cost.lost <= than.lost and than.lost - cost.lost >= MARGIN_S * units
