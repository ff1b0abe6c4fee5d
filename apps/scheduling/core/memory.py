"""The commit port in memory: the testbed's and the tests' master copy of the cluster.

Its rules are those of the PostgreSQL commit: a unit has at most one allocation, a server never
gives more than its capacity times the allowed oversubscription, gangs win whole, others keep what
they won.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apps.inventory.core.snapshot import Floats, Shorts, Snapshot, Topology
from apps.scheduling.core.capacity import unit_vectors, wanted
from apps.scheduling.core.localcopy import Change, ChangeKind, LocalCopy
from apps.scheduling.core.settle import Claim, settle
from apps.scheduling.core.types import Placed, Request


@dataclass(frozen=True, slots=True, eq=False)
class Committed:
    """Units taken: all of the placement's, or fewer when the job takes what it gets."""

    allocation: int
    job: str
    units: Shorts  # (k,) indices won, best first
    lost: Shorts  # (l,) indices somebody else had taken
    sequence: int


@dataclass(frozen=True, slots=True, eq=False)
class Conflict:
    """Nothing was taken; decide again on a fresh snapshot."""

    job: str
    lost: Shorts  # (l,) indices that could not be taken
    sequence: int


class UnknownAllocationError(ValueError):
    """The allocation does not exist or was released before."""


class MemoryCluster:
    """A cluster that keeps its own truth about who holds what.

    Parameters
    ----------
    topology : the cluster
    oversubscription : allowed sum over capacity, one number or (S,); 1 = none
    """

    def __init__(self, topology: Topology, *, oversubscription: float | Floats = 1.0) -> None:
        self._state = LocalCopy(topology, oversubscription=oversubscription)
        self._owner: dict[int, int | None] = dict.fromkeys(range(topology.unit_id.size))
        self._allocations: dict[int, Shorts] = {}
        self._next = 1
        self.log: list[Change] = []

    @property
    def topology(self) -> Topology:
        """The cluster's servers and units."""
        return self._state.topology

    def snapshot(self) -> Snapshot:
        """Copy the state now; later commits leave it as it is."""
        return self._state.frozen()

    def view(self) -> Snapshot:
        """Show the state without copying: valid until the next commit or release."""
        return self._state.snapshot()

    def commit(self, placed: Placed, request: Request) -> Committed | Conflict:
        """Take the units of one placement."""
        return self.commit_batch([(placed, request)])[0]

    def commit_batch(
        self, placements: Sequence[tuple[Placed, Request]]
    ) -> list[Committed | Conflict]:
        """Take the units of many placements; earlier ones win."""
        state = self._state.snapshot()
        claims = [self._claim(placed, request) for placed, request in placements]
        servers = {server for claim in claims for server in claim.servers}
        free = {s: tuple(state.server_free[s]) for s in servers if state.server_open[s]}
        won = settle(claims, self._owner, free)
        return [
            self._take(placed, request, winners)
            for (placed, request), winners in zip(placements, won, strict=True)
        ]

    def release(self, allocation: int) -> None:
        """Give back all units of an allocation.

        Raises
        ------
        UnknownAllocationError : there is no such allocation (any more).
        """
        if allocation not in self._allocations:
            raise UnknownAllocationError(f"no allocation {allocation}")
        units = self._allocations.pop(allocation)
        for unit in units:
            self._owner[int(unit)] = None
        self._note(ChangeKind.RELEASE, units=self.topology.unit_id[units].tolist())

    def set_open(self, servers: Sequence[int], *, is_open: bool) -> None:
        """Open or close servers (indices) for new work; what runs there stays."""
        kind = ChangeKind.OPEN if is_open else ChangeKind.CLOSE
        self._note(kind, servers=self.topology.server_id[list(servers)].tolist())

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

    def _take(
        self, placed: Placed, request: Request, winners: tuple[int, ...]
    ) -> Committed | Conflict:
        lost = np.delete(placed.units, winners)
        if not winners:
            return Conflict(placed.job, lost, self._state.sequence)
        units = placed.units[list(winners)]
        allocation, self._next = self._next, self._next + 1
        self._allocations[allocation] = units
        for unit in units:
            self._owner[int(unit)] = allocation
        self._note(
            ChangeKind.CLAIM,
            units=self.topology.unit_id[units].tolist(),
            caused=np.asarray(request.caused),
            vector=wanted(request),
        )
        return Committed(allocation, placed.job, units, lost, self._state.sequence)

    def _note(self, kind: ChangeKind, **what: object) -> None:
        change = Change(self._state.sequence + 1, kind, **what)  # type: ignore[arg-type]
        self._state.apply([change])
        self.log.append(change)
