"""A cluster with commits in memory, for the testbed and tests.

The rules are those of the commit to PostgreSQL: a unit has at most one allocation, the use of a
server stays within its capacity times the allowed oversubscription, and gangs win all units or
none while other jobs may win some.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apps.inventory.core.snapshot import Floats, Shorts, Snapshot, Topology
from apps.scheduling.core.capacity import requested_per_unit, unit_vectors
from apps.scheduling.core.cluster_copy import Change, ChangeKind, ClusterCopy
from apps.scheduling.core.conflicts import Claim, resolve_conflicts
from apps.scheduling.core.types import Placed, Request


@dataclass(frozen=True, slots=True, eq=False)
class Committed:
    """Units allocated: all of the placement's, or fewer if the job is not a gang."""

    allocation: int
    job: str
    units: Shorts  # (k,) indices won, best first
    lost: Shorts  # (l,) indices already taken
    sequence: int


@dataclass(frozen=True, slots=True, eq=False)
class Conflict:
    """No unit was allocated; decide again on a new snapshot."""

    job: str
    lost: Shorts  # (l,) indices that could not be taken
    sequence: int


class UnknownAllocationError(ValueError):
    """The allocation does not exist or was released before."""


class MemoryCluster:
    """A cluster that keeps its allocations in memory.

    Parameters
    ----------
    topology : the cluster
    oversubscription : allowed ratio of use to capacity, one number or (S,); 1 = none
    is_compiled : as of ``ClusterCopy``
    """

    def __init__(
        self,
        topology: Topology,
        *,
        oversubscription: float | Floats = 1.0,
        is_compiled: bool = False,
    ) -> None:
        self._state = ClusterCopy(
            topology, oversubscription=oversubscription, is_compiled=is_compiled
        )
        self._owner: dict[int, int | None] = dict.fromkeys(range(topology.unit_id.size))
        self._allocations: dict[int, Shorts] = {}
        self._next = 1
        self.log: list[Change] = []

    @property
    def topology(self) -> Topology:
        """The cluster's servers and units."""
        return self._state.topology

    def snapshot(self) -> Snapshot:
        """Return an immutable copy of the state."""
        return self._state.frozen()

    def view(self) -> Snapshot:
        """Return views of the state, valid until the next commit or release."""
        return self._state.snapshot()

    def commit(self, placed: Placed, request: Request) -> Committed | Conflict:
        """Allocate the units of one placement."""
        return self.commit_batch([(placed, request)])[0]

    def commit_batch(
        self, placements: Sequence[tuple[Placed, Request]]
    ) -> list[Committed | Conflict]:
        """Allocate the units of placements; earlier ones win conflicts."""
        state = self._state.snapshot()
        claims = [self._claim(placed, request) for placed, request in placements]
        servers = {server for claim in claims for server in claim.servers}
        free = {s: tuple(state.server_free[s]) for s in servers if state.server_open[s]}
        winners = resolve_conflicts(claims, self._owner, free)
        return [
            self._allocate(placed, request, positions)
            for (placed, request), positions in zip(placements, winners, strict=True)
        ]

    def release(self, allocation: int) -> None:
        """Release all units of an allocation.

        Raises
        ------
        UnknownAllocationError : the allocation does not exist or was released.
        """
        if allocation not in self._allocations:
            raise UnknownAllocationError(f"no allocation {allocation}")
        units = self._allocations.pop(allocation)
        self._owner.update(dict.fromkeys(units.tolist()))
        self._log(ChangeKind.RELEASE, units=self.topology.unit_id[units].tolist())

    def set_open(self, servers: Sequence[int], *, is_open: bool) -> None:
        """Open or close servers (indices) for new jobs; running jobs stay."""
        kind = ChangeKind.OPEN if is_open else ChangeKind.CLOSE
        self._log(kind, servers=self.topology.server_id[list(servers)].tolist())

    def owner(self, unit: int) -> int | None:
        """Allocation that holds a unit (an index), None when free."""
        return self._owner[unit]

    def _claim(self, placed: Placed, request: Request) -> Claim:
        servers = self.topology.unit_server[placed.units]
        vectors = unit_vectors(self.topology, servers, request)
        return Claim(
            job=placed.job,
            units=placed.units.tolist(),
            servers=servers.tolist(),
            vectors=[(v[0], v[1], v[2]) for v in vectors.tolist()],
            whole=request.gang or request.locality is not None,
        )

    def _allocate(
        self, placed: Placed, request: Request, positions: tuple[int, ...]
    ) -> Committed | Conflict:
        chosen = list(positions)
        is_whole = len(chosen) == placed.units.size
        lost = placed.units[:0] if is_whole else np.delete(placed.units, chosen)
        if not chosen:
            return Conflict(placed.job, lost, self._state.sequence)
        units = placed.units if is_whole else placed.units[chosen]
        allocation, self._next = self._next, self._next + 1
        self._allocations[allocation] = units
        self._owner.update(dict.fromkeys(units.tolist(), allocation))
        self._log(
            ChangeKind.CLAIM,
            units=self.topology.unit_id[units].tolist(),
            caused=np.asarray(request.caused),
            tolerated=np.asarray(request.tolerated),
            vector=requested_per_unit(request),
        )
        return Committed(allocation, placed.job, units, lost, self._state.sequence)

    def _log(self, kind: ChangeKind, **fields: object) -> None:
        change = Change(self._state.sequence + 1, kind, **fields)  # type: ignore[arg-type]
        self._state.apply([change])
        self.log.append(change)
