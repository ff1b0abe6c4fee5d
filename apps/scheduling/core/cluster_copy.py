"""A local copy of the cluster, updated from the change log.

U units, S servers, N = 10 sources. The copy stores the last change of each unit, so that entries
may be applied twice or overlap with the agent's own commits, with the same final state.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Bools, Floats, Ints, Snapshot, Topology
from apps.scheduling.core.capacity import unit_vectors
from apps.scheduling.core.types import Placed, Request

_Array = TypeVar("_Array", bound=np.ndarray[Any, Any])


class ChangeKind(StrEnum):
    """Kind of an entry of the change log."""

    CLAIM = "claim"
    RELEASE = "release"
    OPEN = "open"
    CLOSE = "close"


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One entry of the change log.

    Attributes
    ----------
    sequence : its number, increasing
    units : unit ids claimed or released; empty for server changes
    caused : (N,) interference each claimed unit causes, 0-100; None for other kinds
    vector : (3,) resources of each unit, 0 = an equal share; None = all equal shares
    servers : server ids opened or closed; empty for unit changes
    """

    sequence: int
    kind: ChangeKind
    units: Sequence[int] = ()
    caused: Floats | None = None
    vector: Floats | None = None
    servers: Sequence[int] = ()


class UnknownUnitError(ValueError):
    """The change log names a unit or server missing from the topology; rebuild the copy."""


class ClusterCopy:
    """Mutable arrays updated from the change log; snapshots are views of them.

    Parameters
    ----------
    topology : servers and units; a new topology needs a new copy
    oversubscription : allowed ratio of use to capacity, one number or (S,); 1 = none
    sequence : change-log number of the initial state. All units start free and all servers open;
        apply existing allocations and closed servers as changes with the same number
    """

    def __init__(
        self,
        topology: Topology,
        *,
        oversubscription: float | Floats = 1.0,
        sequence: int = 0,
    ) -> None:
        units, servers = topology.unit_id.size, topology.server_id.size
        self.topology = topology
        self.sequence = sequence
        allowed = np.broadcast_to(np.asarray(oversubscription, dtype=np.float64), servers)
        self._limit: Floats = topology.server_capacity * allowed[:, None]
        self._unit_free: Bools = np.ones(units, dtype=np.bool_)
        self._unit_caused = np.zeros((units, N_SOURCES), dtype=np.float32)
        self._unit_vector: Floats = np.zeros((units, 3))
        self._unit_sequence = np.full(units, sequence, dtype=np.int64)
        self._server_open: Bools = np.ones(servers, dtype=np.bool_)
        self._server_caused = np.zeros((servers, N_SOURCES), dtype=np.float32)
        self._server_free: Floats = self._limit.copy()

    def apply(self, changes: Iterable[Change]) -> None:
        """Apply entries of the change log in order; repeated entries have no effect."""
        for change in changes:
            self._apply(change)
            self.sequence = max(self.sequence, change.sequence)

    def apply_commit(
        self, placed: Placed, request: Request, *, sequence: int | None = None
    ) -> None:
        """Apply an own commit before reading its entry in the log.

        ``sequence`` is the change-log number of the commit; older entries about these units are
        then ignored.
        """
        servers = self.topology.unit_server[placed.units]
        vectors = unit_vectors(self.topology, servers, request)
        at = self.sequence if sequence is None else sequence
        self._claim(placed.units.astype(np.int64), np.asarray(request.caused), vectors, at)

    def snapshot(self) -> Snapshot:
        """Return read-only views of the state, valid until the next change. O(1)."""
        return self._snapshot(copy=False)

    def frozen(self) -> Snapshot:
        """Return an immutable copy of the state. O(U + S·N)."""
        return self._snapshot(copy=True)

    def _snapshot(self, *, copy: bool) -> Snapshot:
        return Snapshot(
            sequence=self.sequence,
            topology=self.topology,
            unit_free=_read_only(self._unit_free, copy=copy),
            server_open=_read_only(self._server_open, copy=copy),
            server_caused=_read_only(self._server_caused, copy=copy),
            server_free=_read_only(self._server_free, copy=copy),
        )

    def _apply(self, change: Change) -> None:
        match change.kind:
            case ChangeKind.CLAIM:
                if change.caused is None:
                    raise ValueError(f"claim {change.sequence} has no caused interference")
                units = self._indices(change.units, self.topology.unit_id)
                vectors = self._vectors(units, change.vector)
                self._claim(units, change.caused, vectors, change.sequence)
            case ChangeKind.RELEASE:
                units = self._indices(change.units, self.topology.unit_id)
                self._release(units, change.sequence)
            case ChangeKind.OPEN | ChangeKind.CLOSE:
                servers = self._indices(change.servers, self.topology.server_id)
                self._server_open[servers] = change.kind is ChangeKind.OPEN

    def _indices(self, ids: Sequence[int], known: Ints) -> Ints:
        keys = np.asarray(ids, dtype=np.int64)
        indices = np.searchsorted(known, keys)
        inside = np.minimum(indices, known.size - 1)
        if keys.size and not np.array_equal(known[inside], keys):
            raise UnknownUnitError(f"not in the topology: {keys[known[inside] != keys]}")
        return indices

    def _vectors(self, units: Ints, vector: Floats | None) -> Floats:
        servers = self.topology.unit_server[units]
        share = self.topology.server_capacity[servers] / self.topology.server_units[servers, None]
        return share if vector is None else np.where(vector > 0, vector, share)

    def _claim(self, units: Ints, caused: Floats, vectors: Floats, sequence: int) -> None:
        new = self._unit_sequence[units] <= sequence
        units, vectors = units[new], vectors[new]
        self._unit_free[units] = False
        self._unit_caused[units] = caused
        self._unit_vector[units] = vectors
        self._unit_sequence[units] = sequence
        self._sum_servers(units)

    def _release(self, units: Ints, sequence: int) -> None:
        units = units[self._unit_sequence[units] <= sequence]
        self._unit_free[units] = True
        self._unit_caused[units] = 0.0
        self._unit_vector[units] = 0.0
        self._unit_sequence[units] = sequence
        self._sum_servers(units)

    def _sum_servers(self, units: Ints) -> None:
        """Recompute the sums of changed servers: incremental updates would accumulate errors."""
        for server in np.unique(self.topology.unit_server[units]):
            first = self.topology.server_first_unit[server]
            last = first + self.topology.server_units[server]
            self._server_caused[server] = self._unit_caused[first:last].sum(axis=0)
            used = self._unit_vector[first:last].sum(axis=0)
            self._server_free[server] = self._limit[server] - used


def _read_only(array: _Array, *, copy: bool) -> _Array:
    result = array.copy() if copy else array.view()
    result.flags.writeable = False
    return result
