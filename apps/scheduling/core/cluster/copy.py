"""A local copy of the cluster, updated from the change log.

U units, S servers, N = 10 sources. The copy stores the last change of each unit, so that entries
may be applied twice or overlap with the agent's own commits, with the same final state.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, chain, groupby
from typing import Any, NamedTuple, TypeVar

import numpy as np

from apps.common.core.arrays import as_readonly
from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import (
    Bools,
    Floats,
    Ints,
    Shorts,
    Singles,
    Snapshot,
    Topology,
)
from apps.scheduling.core import loss
from apps.scheduling.core.cluster.capacity import (
    equal_share,
    requested_per_unit,
    requested_vectors,
)
from apps.scheduling.core.cluster.copy_updates import Claims, CopyArrays, updates
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
    tolerated : (N,) interference that its job tolerates, 0-100; None = unknown
    vector : (3,) resources of each unit, 0 = an equal share; None = all equal shares
    servers : server ids opened or closed; empty for unit changes
    """

    sequence: int
    kind: ChangeKind
    units: Sequence[int] = ()
    caused: Floats | None = None
    tolerated: Floats | None = None
    vector: Floats | None = None
    servers: Sequence[int] = ()


class BusyUnits(NamedTuple):
    """What jobs hold: (k,) unit ids, (k, N) caused and tolerated scores, (k, 3) resources."""

    ids: Ints
    caused: Singles
    tolerated: Singles
    vectors: Floats


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
    is_compiled : whether updates are compiled; only for processes that decide
    """

    def __init__(
        self,
        topology: Topology,
        *,
        oversubscription: float | Floats = 1.0,
        sequence: int = 0,
        is_compiled: bool = False,
    ) -> None:
        units, servers = topology.unit_id.size, topology.server_id.size
        self.topology = topology
        self.sequence = sequence
        allowed = np.broadcast_to(np.asarray(oversubscription, dtype=np.float64), servers)
        limit: Floats = topology.server_capacity * allowed[:, None]
        self._server_open: Bools = np.ones(servers, dtype=np.bool_)
        self._share = equal_share(topology)
        self._update = updates(is_compiled=is_compiled)
        self._state = CopyArrays(
            unit_free=np.ones(units, dtype=np.bool_),
            unit_caused=np.zeros((units, N_SOURCES), dtype=np.float32),
            unit_tolerated=np.full((units, N_SOURCES), loss.UNKNOWN, dtype=np.float32),
            unit_vector=np.zeros((units, 3)),
            unit_sequence=np.full(units, sequence, dtype=np.int64),
            server_caused=np.zeros((servers, N_SOURCES), dtype=np.float32),
            server_exposure=np.zeros((servers, N_SOURCES), dtype=np.float32),
            server_tolerance=np.full((servers, N_SOURCES), loss.IDLE, dtype=np.float32),
            server_free=limit.copy(),
            limit=as_readonly(limit, np.float64),
            unit_server=as_readonly(topology.unit_server, np.int32),
            first_unit=as_readonly(topology.server_first_unit, np.int32),
            server_units=as_readonly(topology.server_units, np.int32),
            changed=np.zeros(servers, dtype=np.int64),
            changes=np.zeros(1, dtype=np.int64),
        )
        self._views = self._snapshot(copy=False)

    def apply(self, changes: Iterable[Change]) -> None:
        """Apply entries of the change log in order; repeated entries have no effect.

        Entries of units that follow each other are applied as one, in O(units of the servers).
        """
        for is_of_units, run in groupby(changes, key=_is_of_units):
            entries = list(run)
            if is_of_units:
                self._apply_to_units(entries)
            else:
                self._apply_to_servers(entries)
            self.sequence = max(self.sequence, *(change.sequence for change in entries))

    def apply_commit(
        self, placed: Placed, request: Request, *, sequence: int | None = None
    ) -> None:
        """Apply an own commit before reading its entry in the log.

        ``sequence`` is the change-log number of the commit; older entries about these units are
        then ignored.
        """
        at = self.sequence if sequence is None else sequence
        self.claim(placed.units, request, sequence=at)

    def claim(self, units: Shorts, request: Request, *, sequence: int) -> None:
        """Claim units (indices) for a job, unless their last change is newer."""
        vectors = self._vectors(units, requested_per_unit(request))
        scores = _scores(request.caused, request.tolerated)
        self._update.claim_units(self._state, units.astype(np.int64), scores, vectors, sequence)

    def claim_all(
        self, units: Sequence[Shorts], requests: Sequence[Request], sequences: Sequence[int]
    ) -> None:
        """Claim units for many jobs, one after the other, as `claim`."""
        sizes = [each.size for each in units]
        every = np.concatenate(units).astype(np.int64)
        wanted = np.repeat(requested_vectors(requests), sizes, axis=0)
        vectors = np.where(wanted > 0, wanted, self._share[self.topology.unit_server[every]])
        scores = np.array([(r.caused, r.tolerated) for r in requests], dtype=np.float64)
        claims = Claims(
            np.array([0, *accumulate(sizes)], dtype=np.int64),
            every,
            as_readonly(scores),
            vectors,
            np.array(sequences, dtype=np.int64),
        )
        self._update.claim_all(self._state, claims)

    def release(self, units: Shorts, *, sequence: int) -> None:
        """Release units (indices), unless their last change is newer."""
        self._update.release_units(self._state, units.astype(np.int64), sequence)

    def busy_units(self) -> BusyUnits:
        """Return the units that jobs hold, as copies."""
        busy, state = np.flatnonzero(~self._state.unit_free), self._state
        return BusyUnits(
            self.topology.unit_id[busy],
            state.unit_caused[busy],
            state.unit_tolerated[busy],
            state.unit_vector[busy],
        )

    def closed_servers(self) -> Ints:
        """Return the ids of the servers that take no new work."""
        return self.topology.server_id[~self._server_open]

    def restore(self, busy: BusyUnits, closed: Ints) -> None:
        """Set the state of a new copy, as if by the changes that led to it.

        Raises
        ------
        UnknownUnitError : a unit or server is not in the topology.
        """
        units = self._indices(busy.ids, self.topology.unit_id)
        self._state.unit_free[units] = False
        self._state.unit_caused[units] = busy.caused
        self._state.unit_tolerated[units] = busy.tolerated
        self._state.unit_vector[units] = busy.vectors
        self._update.sum_servers(self._state, units)
        self._server_open[self._indices(closed, self.topology.server_id)] = False

    def snapshot(self) -> Snapshot:
        """Return read-only views of the state, valid until the next change. O(1)."""
        if self._views.sequence != self.sequence:
            seen = self._views
            self._views = Snapshot(
                self.sequence, seen.topology, seen.unit_free, seen.server_open,
                seen.server_caused, seen.server_exposure, seen.server_tolerance, seen.server_free,
                seen.changed,
            )  # fmt: skip
        return self._views

    def frozen(self) -> Snapshot:
        """Return an immutable copy of the state. O(U + S·N)."""
        return self._snapshot(copy=True)

    def _snapshot(self, *, copy: bool) -> Snapshot:
        return Snapshot(
            sequence=self.sequence,
            topology=self.topology,
            unit_free=_read_only(self._state.unit_free, copy=copy),
            server_open=_read_only(self._server_open, copy=copy),
            server_caused=_read_only(self._state.server_caused, copy=copy),
            server_exposure=_read_only(self._state.server_exposure, copy=copy),
            server_tolerance=_read_only(self._state.server_tolerance, copy=copy),
            server_free=_read_only(self._state.server_free, copy=copy),
            changed=None if copy else _read_only(self._state.changed, copy=False),
        )

    def _apply_to_units(self, entries: Sequence[Change]) -> None:
        state, table = self._state, _table(entries)
        sizes = [len(change.units) for change in entries]
        named = np.fromiter(chain.from_iterable(c.units for c in entries), np.int64, sum(sizes))
        units = self._indices(named, self.topology.unit_id)
        row = np.repeat(np.arange(len(entries)), sizes)
        last = _last_of_each(units, table.sequence[row])
        last = last[state.unit_sequence[units[last]] <= table.sequence[row[last]]]
        units, row = units[last], row[last]
        state.unit_free[units] = ~table.is_claim[row]
        state.unit_caused[units] = table.caused[row]
        state.unit_tolerated[units] = table.tolerated[row]
        held = self._vectors(units, table.vector[row])
        state.unit_vector[units] = np.where(table.is_claim[row, None], held, 0.0)
        state.unit_sequence[units] = table.sequence[row]
        self._update.sum_servers(state, units)

    def _apply_to_servers(self, entries: Sequence[Change]) -> None:
        for change in entries:
            servers = self._indices(change.servers, self.topology.server_id)
            self._server_open[servers] = change.kind is ChangeKind.OPEN
            self._state.changes[0] += 1
            self._state.changed[servers] = self._state.changes[0]

    def _indices(self, ids: Sequence[int] | Ints, known: Ints) -> Ints:
        keys = np.asarray(ids, dtype=np.int64)
        indices = np.searchsorted(known, keys)
        inside = np.minimum(indices, known.size - 1)
        is_known = known[inside] == keys if known.size else np.zeros(keys.shape, dtype=np.bool_)
        if not is_known.all():
            raise UnknownUnitError(f"not in the topology: {keys[~is_known]}")
        return indices

    def _vectors(self, units: Ints | Shorts, vector: Floats | None) -> Floats:
        share = self._share[self.topology.unit_server[units]]
        if vector is None or not vector.any():
            return share
        return np.where(vector > 0, vector, share)


def _is_of_units(change: Change) -> bool:
    return change.kind in {ChangeKind.CLAIM, ChangeKind.RELEASE}


class _ChangeTable(NamedTuple):
    """Entries of units as arrays of (n,), (n, N) and (n, 3); releases have the idle values."""

    sequence: Ints
    is_claim: Bools
    caused: Floats
    tolerated: Floats
    vector: Floats


def _table(entries: Sequence[Change]) -> _ChangeTable:
    table = _ChangeTable(
        np.array([change.sequence for change in entries], dtype=np.int64),
        np.array([change.kind is ChangeKind.CLAIM for change in entries]),
        np.zeros((len(entries), N_SOURCES)),
        np.full((len(entries), N_SOURCES), loss.UNKNOWN),
        np.zeros((len(entries), 3)),
    )
    for row, change in enumerate(entries):
        if change.kind is not ChangeKind.CLAIM:
            continue
        if change.caused is None:
            raise ValueError(f"claim {change.sequence} has no caused interference")
        table.caused[row] = change.caused
        if change.tolerated is not None:
            table.tolerated[row] = change.tolerated
        if change.vector is not None:
            table.vector[row] = change.vector
    return table


def _last_of_each(units: Ints, sequence: Ints) -> Ints:
    """Return the places of the last change of each unit, in the order of the units."""
    order = np.lexsort((sequence, units))  # stable: the later of equal numbers stays behind
    ordered = units[order]
    is_last = np.append(ordered[1:] != ordered[:-1], np.ones(min(1, ordered.size), dtype=bool))
    return order[is_last]


def _scores(caused: Floats, tolerated: Floats | None) -> Floats:
    """Return caused and tolerated scores as one (2, N) array, the layout of the updates."""
    scores = np.empty((2, N_SOURCES))
    scores[0] = caused
    scores[1] = loss.UNKNOWN if tolerated is None else tolerated
    return as_readonly(scores)


def _read_only(array: _Array, *, copy: bool) -> _Array:
    result = array.copy() if copy else array.view()
    result.flags.writeable = False
    return result
