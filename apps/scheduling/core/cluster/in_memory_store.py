"""A cluster with commits in memory, for the testbed and tests.

The rules are those of the commit to PostgreSQL: a unit has at most one allocation, the use of a
server stays within its capacity times the allowed oversubscription, and gangs win all units or
none while other jobs may win some.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

import numpy as np

from apps.common.core.arrays import as_readonly
from apps.inventory.core.snapshot import Floats, Ints, Shorts, Snapshot, Topology
from apps.scheduling.core.cluster.capacity import (
    equal_share,
    requested_per_unit,
    requested_vectors,
    unit_vectors,
)
from apps.scheduling.core.cluster.conflicts import FREE, Claim, resolve_conflicts
from apps.scheduling.core.cluster.copy import Change, ChangeKind, ClusterCopy
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
    is_compiled : whether updates and commits are compiled; only for processes that decide
    keeps_log : whether changes are logged, for copies that follow the log

    Attributes
    ----------
    state : the present state, which only the cluster changes
    log : entries of the change log
    released : number of the last release
    freed : (P,) number of the last release on each platform, or opening of one of its servers
    """

    def __init__(
        self,
        topology: Topology,
        *,
        oversubscription: float | Floats = 1.0,
        is_compiled: bool = False,
        keeps_log: bool = True,
    ) -> None:
        self.state = ClusterCopy(
            topology, oversubscription=oversubscription, is_compiled=is_compiled
        )
        self._resolve = self._resolved_by_kernel if is_compiled else self._resolved
        self._owner: Ints = np.full(topology.unit_id.size, FREE, dtype=np.int64)
        self._share = as_readonly(equal_share(topology), np.float64)
        self._unit_server = as_readonly(topology.unit_server, np.int32)
        self._left = np.zeros_like(self._share)
        self._allocations: dict[int, Shorts] = {}
        self._next = 1
        self._keeps_log = keeps_log
        self.log: list[Change] = []
        self.released = 0
        self.freed: Ints = np.zeros(len(topology.platform_name), dtype=np.int64)

    @property
    def topology(self) -> Topology:
        """The cluster's servers and units."""
        return self.state.topology

    @property
    def sequence(self) -> int:
        """Number of the last change."""
        return self.state.sequence

    def snapshot(self) -> Snapshot:
        """Return an immutable copy of the state."""
        return self.state.frozen()

    def view(self) -> Snapshot:
        """Return views of the state, valid until the next commit or release."""
        return self.state.snapshot()

    def commit(self, placed: Placed, request: Request) -> Committed | Conflict:
        """Allocate the units of one placement."""
        return self.commit_batch([(placed, request)])[0]

    def commit_batch(
        self, placements: Sequence[tuple[Placed, Request]]
    ) -> list[Committed | Conflict]:
        """Allocate the units of placements; earlier ones win conflicts."""
        done = [
            self._granted(placed, positions)
            for (placed, _), positions in zip(placements, self._resolve(placements), strict=True)
        ]
        won = [
            (each, request)
            for each, (_, request) in zip(done, placements, strict=True)
            if isinstance(each, Committed)
        ]
        if won:
            units, requests = [each.units for each, _ in won], [request for _, request in won]
            allocations = [each.allocation for each, _ in won]
            self._allocations.update(zip(allocations, units, strict=True))
            self._owner[np.concatenate(units)] = np.repeat(
                allocations, [each.size for each in units]
            )
            self.state.claim_all(units, requests, [each.sequence for each, _ in won])
        if self._keeps_log:
            self.log += [self._claimed(each, request) for each, request in won]
        return done

    def held(self, allocation: int) -> Shorts:
        """(k,) indices of the units of an allocation.

        Raises
        ------
        UnknownAllocationError : the allocation does not exist or was released.
        """
        if allocation not in self._allocations:
            raise UnknownAllocationError(f"no allocation {allocation}")
        return self._allocations[allocation]

    def release(self, allocation: int, units: Shorts | None = None) -> None:
        """Release units of an allocation; None = all.

        Raises
        ------
        UnknownAllocationError : the allocation does not exist or was released.
        ValueError : a unit is not of the allocation.
        """
        held = self.held(allocation)
        if units is None:
            units = self._allocations.pop(allocation)
        else:
            kept = held[~np.isin(held, units)]
            if kept.size + units.size != held.size:
                raise ValueError(f"units {units.tolist()} are not all of allocation {allocation}")
            self._allocations[allocation] = kept
            if not kept.size:
                del self._allocations[allocation]
        self._owner[units] = FREE
        self.released = self._advance()
        self._note_freed(self._unit_server[units])
        self.state.release(units, sequence=self.released)
        if self._keeps_log:
            ids = self.topology.unit_id[units].tolist()
            self.log.append(Change(self.released, ChangeKind.RELEASE, units=ids))

    def set_open(self, servers: Sequence[int], *, is_open: bool) -> None:
        """Open or close servers (indices) for new jobs; running jobs stay."""
        kind = ChangeKind.OPEN if is_open else ChangeKind.CLOSE
        ids = self.topology.server_id[list(servers)].tolist()
        self.state.apply([Change(self._advance(), kind, servers=ids)])
        if is_open:
            self._note_freed(list(servers))
        if self._keeps_log:
            self.log.append(Change(self.sequence, kind, servers=ids))

    def _note_freed(self, servers: Shorts | list[int]) -> None:
        self.freed[self.topology.server_platform[servers]] = self.sequence

    def owner(self, unit: int) -> int | None:
        """Allocation that holds a unit (an index), None when free."""
        owner = int(self._owner[unit])
        return None if owner == FREE else owner

    def _resolved(self, placements: Sequence[tuple[Placed, Request]]) -> list[tuple[int, ...]]:
        """Positions of the units that each placement wins."""
        state = self.state.snapshot()
        claims = [self._claim(placed, request) for placed, request in placements]
        servers = {server for claim in claims for server in claim.servers}
        free = {s: tuple(state.server_free[s]) for s in servers if state.server_open[s]}
        owner = {unit: self.owner(unit) for claim in claims for unit in claim.units}
        return resolve_conflicts(claims, owner, free)

    def _resolved_by_kernel(
        self, placements: Sequence[tuple[Placed, Request]]
    ) -> list[tuple[int, ...]]:
        # only processes that decide import numba
        from apps.scheduling.core.cluster import conflict_kernels  # noqa: PLC0415

        if not placements:
            return []
        state, chosen = self.state.snapshot(), [placed.units for placed, _ in placements]
        units = chosen[0] if len(chosen) == 1 else np.concatenate(chosen)
        servers = self.topology.unit_server[units]
        self._left[servers] = state.server_free[servers]
        first = [0, *accumulate(each.size for each in chosen)]
        claims = conflict_kernels.ClaimTable(
            first=np.array(first, dtype=np.int64),
            unit=units.astype(np.int64),
            requested=requested_vectors([request for _, request in placements]),
            whole=np.array([request.is_whole for _, request in placements], dtype=np.bool_),
            has_won=np.zeros(units.size, dtype=np.bool_),
            before=np.empty((units.size, 3)),
        )
        owners = conflict_kernels.Owners(
            self._owner, self._unit_server, state.server_open, self._share, self._left
        )
        conflict_kernels.win_units(owners, claims, self._next)
        if claims.has_won.all():
            return [tuple(range(end - begin)) for begin, end in pairwise(first)]
        won = claims.has_won.tolist()
        return [
            tuple(i for i, is_won in enumerate(won[begin:end]) if is_won)
            for begin, end in pairwise(first)
        ]

    def _claim(self, placed: Placed, request: Request) -> Claim:
        servers = self.topology.unit_server[placed.units]
        vectors = unit_vectors(self.topology, servers, request)
        return Claim(
            job=placed.job,
            units=placed.units.tolist(),
            servers=servers.tolist(),
            vectors=[(v[0], v[1], v[2]) for v in vectors.tolist()],
            whole=request.is_whole,
        )

    def _granted(self, placed: Placed, positions: tuple[int, ...]) -> Committed | Conflict:
        """Return a new allocation of the units won, or that there is none."""
        is_whole = len(positions) == placed.units.size
        lost = _NONE if is_whole else np.delete(placed.units, list(positions))
        if not positions:
            return Conflict(placed.job, lost, self.state.sequence)
        units = placed.units if is_whole else placed.units[list(positions)]
        allocation, self._next = self._next, self._next + 1
        return Committed(allocation, placed.job, units, lost, self._advance())

    def _claimed(self, done: Committed, request: Request) -> Change:
        """Return the entry of the change log for an allocation."""
        return Change(
            done.sequence,
            ChangeKind.CLAIM,
            units=self.topology.unit_id[done.units].tolist(),
            caused=np.asarray(request.caused),
            tolerated=np.asarray(request.tolerated),
            vector=requested_per_unit(request),
        )

    def _advance(self) -> int:
        """Return the number of a new change."""
        self.state.sequence += 1
        return self.state.sequence


_NONE: Final = as_readonly(np.empty(0, dtype=np.int32))
