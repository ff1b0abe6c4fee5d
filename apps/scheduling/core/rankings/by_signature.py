"""Rankings of the servers by request signature, kept between decisions.

The signature of a request is all that eligibility and scores depend on. A policy keeps a working
copy of the cluster, and for each signature the filters and scores of all servers. When servers
change, by the change log or by a decision of the batch, only they are ranked again.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from apps.common.core.arrays import as_readonly
from apps.inventory.core.snapshot import Ints, Shorts, Snapshot
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.cluster.capacity import requested_per_unit
from apps.scheduling.core.expected.performance import ALONE, Share, attainable_speed
from apps.scheduling.core.rankings import kernels
from apps.scheduling.core.rankings import log as ranking_log
from apps.scheduling.core.types import Request

MAX_SIGNATURES: Final = 256  # 16 bytes of each server for each; the oldest is dropped


@dataclass(slots=True)
class _Signature:
    """One signature: what it requests, and its ranking, of the kind of its `Rankings`.

    Attributes
    ----------
    row : its number among those that are kept
    seen : (1,) number of the changes that the ranking includes
    """

    row: int
    demand: kernels.Demand
    ranking: Any
    seen: Ints


@dataclass(slots=True)
class RankedState(BatchState):
    """A batch state that stays: `follow` brings it up to date with a view of its copy.

    `become` does so with a snapshot that is not a view, until the next view.

    Attributes
    ----------
    cluster : its arrays, for the kernels
    log : servers that have changed
    seen : change number of the copy that it includes
    taken : servers that may differ from the copy, by the placements of the batch or as the last
        snapshot was no view; the next view is read again for them
    """

    cluster: Any = None
    log: Any = None
    seen: int = 0
    taken: list[Shorts] = field(default_factory=list)

    @classmethod
    def starting(
        cls, snapshot: Snapshot, facts: TopologyFacts, share: Share = ALONE
    ) -> "RankedState":
        """Return a state with copies of the arrays of a snapshot."""
        plain = BatchState.of(snapshot, facts, writable=True)
        is_open = snapshot.server_open.copy()
        values = {name: getattr(plain, name) for name in BatchState.__slots__}
        state = cls(**values | {"server_open": as_readonly(is_open, np.bool_)})
        assert plain.own is not None  # noqa: S101 - it is writable
        state.cluster = kernels.Cluster(
            plain.own.unit_free,
            facts.first_unit,
            facts.server_units,
            facts.server_platform,
            facts.share,
            is_open,
            plain.free_count,
            *plain.own[1:],
            np.zeros(1),
            share.elsewhere(facts.server_units.size),
            (facts.server_units - plain.free_count) / facts.server_units,
        )
        state.log = ranking_log.new_log(facts.server_units.size)
        state.seen = 0 if snapshot.changed is None else int(snapshot.changed.max(initial=0))
        state._count_idle()
        return state

    def follow(self, snapshot: Snapshot) -> None:
        """Copy the servers that changed in the copy, or that the last batch took. O(S)."""
        assert snapshot.changed is not None  # noqa: S101 - of the view of a copy
        known = kernels.changed_servers(snapshot.changed, self.seen)
        servers = np.unique(np.concatenate([known, *self.taken])) if self.taken else known
        if known.size:
            self.seen = int(snapshot.changed[known].max())
        self.taken.clear()
        self._copy(snapshot, servers)

    def become(self, snapshot: Snapshot) -> None:
        """Copy the servers that differ in a snapshot which is not a view. O(S)."""
        servers = self._differing(snapshot)
        self.taken = [np.unique(np.concatenate([servers, *self.taken]))]
        self._copy(snapshot, servers)

    def _differing(self, snapshot: Snapshot) -> Shorts:
        """Return the servers that differ from those of a snapshot."""
        own = self.cluster
        differs = np.logical_or.reduceat(own.unit_free != snapshot.unit_free, own.first_unit)
        differs |= own.server_open != snapshot.server_open
        for mine, theirs in (
            (own.server_caused, snapshot.server_caused),
            (own.server_exposure, snapshot.server_exposure),
            (own.server_tolerance, snapshot.server_tolerance),
            (own.server_free, snapshot.server_free),
        ):
            differs |= (mine != theirs).any(axis=1)
        return np.flatnonzero(differs).astype(np.int32)

    def _copy(self, snapshot: Snapshot, servers: Shorts) -> None:
        """Copy servers of a snapshot."""
        source = self.cluster._replace(
            unit_free=as_readonly(snapshot.unit_free),
            server_open=as_readonly(snapshot.server_open),
            server_caused=as_readonly(snapshot.server_caused),
            server_exposure=as_readonly(snapshot.server_exposure),
            server_tolerance=as_readonly(snapshot.server_tolerance),
            server_free=as_readonly(snapshot.server_free),
        )
        self.busy -= kernels.copy_servers(self.cluster, source, servers)
        self.snapshot = snapshot
        ranking_log.append(self.log, self.cluster, servers)
        self._count_idle()

    def changed_since(self, seen: int) -> Shorts | None:
        """Return the servers that have changed since, each once; None if they are not known."""
        return ranking_log.changed_since(self.log, seen) if self.knows(seen) else None

    def knows(self, seen: int) -> bool:
        """Return `log.knows`, without the 3 µs of a compiled call."""
        first, count = self.log.bounds.tolist()
        return seen >= first and first + count - seen <= self.facts.server_units.size

    @property
    def last(self) -> int:
        """Number of the next change."""
        return int(self.log.bounds.sum())

    def allocate(self, units: Shorts, request: Request) -> None:
        """Allocate units to a job, as `BatchState.allocate`."""
        servers = self.facts.unit_server[units]
        demand = kernels.Demand(
            as_readonly(request.caused, np.float64),
            as_readonly(request.tolerated, np.float64),
            *_NOTHING,
            requested_per_unit(request),
            _NO_NUMBERS,
            _NO_NUMBERS,
            request.units,
        )
        kernels.take_units(self.cluster, demand, as_readonly(units, np.int32), servers)
        self.busy += int(units.size)
        self.taken.append(servers)
        ranking_log.append(self.log, self.cluster, servers)
        self._count_idle()

    def _count_idle(self) -> None:
        idle = 1.0 - self.busy / self.facts.unit_server.size
        self.cluster.idle[0] = idle * idle


_NO_BOOLS: Final = as_readonly(np.empty(0, dtype=np.bool_))
_NO_NUMBERS: Final = as_readonly(np.empty(0))
_NOTHING: Final = (_NO_NUMBERS, _NO_BOOLS, _NO_BOOLS, _NO_BOOLS)


class Rankings:
    """The rankings of one policy, for the state that it follows."""

    def __init__(self, share: Share = ALONE) -> None:
        self._share = share
        self._state: RankedState | None = None
        self._origin: tuple[Any, ...] | None = None
        self._known: OrderedDict[tuple[Any, ...], _Signature] = OrderedDict()

    def state(self, snapshot: Snapshot, facts: TopologyFacts) -> RankedState:
        """Return the working copy, up to date with a snapshot.

        Of a snapshot of the same copy, the servers that have changed are ranked again; of one that
        is not a view of a copy, as without the units of reservations, those that differ. For
        another copy or topology, all rankings start again.
        """
        origin = _origin(snapshot)
        state = self._state
        is_other = origin is not None and not _is_same(origin, self._origin)
        if state is None or state.facts is not facts or is_other:
            self._known.clear()
            state = self._state = RankedState.starting(snapshot, facts, self._share)
            self._origin = origin
        elif origin is None:
            state.become(snapshot)
        else:
            state.follow(snapshot)
        return state

    def _read(self, request: Request) -> tuple[RankedState, _Signature, int]:
        """Return the signature of a request, and the number of the changes that it has seen."""
        state = self._state
        assert state is not None  # noqa: S101 - `state` was called before
        signature = self._signature(state, request)
        seen, signature.seen[0] = int(signature.seen[0]), state.last
        return state, signature, seen

    def _signature(self, state: RankedState, request: Request) -> _Signature:
        key = _key(request)
        known = self._known.get(key)
        if known is None:
            row = len(self._known)
            if row >= MAX_SIGNATURES:
                row = self._known.popitem(last=False)[1].row
            known = self._known[key] = self._new_signature(state.facts, request, row)
        else:
            self._known.move_to_end(key)
        return known

    def _new_signature(self, facts: TopologyFacts, request: Request, row: int) -> _Signature:
        """Return a signature with an empty ranking."""
        raise NotImplementedError


def _origin(snapshot: Snapshot) -> tuple[Any, ...] | None:
    """Return the arrays of the copy that a snapshot is a view of; None if it is not a view.

    A snapshot of which an array was replaced is not that of the copy.
    """
    if snapshot.changed is None:
        return None
    views = (snapshot.changed, snapshot.unit_free, snapshot.server_open, snapshot.server_free)
    origin = tuple(view.base for view in views)
    return None if any(base is None for base in origin) else origin


def _is_same(origin: tuple[Any, ...], known: tuple[Any, ...] | None) -> bool:
    return known is not None and all(a is b for a, b in zip(origin, known, strict=True))


def _key(request: Request) -> tuple[Any, ...]:
    speed = request.platform_speed
    return (
        request.caused.tobytes(),
        request.tolerated.tobytes(),
        None if speed is None else speed.tobytes(),
        request.platforms,
        request.labels,
        request.excluded,
        request.pool,
        request.unit_memory_bytes,
        request.unit_network_bps,
        request.unit_storage_bytes,
        request.units,
    )


def demand(facts: TopologyFacts, request: Request) -> kernels.Demand:
    """Return the demand of the signature of a request."""
    platforms = len(facts.topology.platform_name)
    speed = np.ones(platforms) if request.platform_speed is None else request.platform_speed
    return kernels.Demand(
        as_readonly(request.caused, np.float64),
        as_readonly(request.tolerated, np.float64),
        as_readonly(np.log(speed), np.float64),
        facts.allowed(request.platforms),
        facts.labelled(request.labels),
        facts.barred(request),
        requested_per_unit(request),
        as_readonly(1.0 / np.maximum(request.tolerated, 1e-9), np.float64),
        as_readonly(np.array([attainable_speed(facts, request)]), np.float64),
        request.units,
    )
