"""What one batch of decisions works on: a snapshot and what the batch has taken so far."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from apps.inventory.core.snapshot import Bools, Floats, Shorts, Singles, Snapshot, Topology
from apps.scheduling.core.capacity import equal_share, unit_vectors
from apps.scheduling.core.types import Request

_Kind = TypeVar("_Kind", bound=np.generic)


class Facts:
    """What follows from the topology alone, computed once and kept by a policy.

    Attributes
    ----------
    topology : the one these facts are about
    share : (S, 3) equal share of one unit
    unit_server (U,), first_unit, server_units, server_platform (S,) : read-only int32, for the
        kernels
    everywhere : (S,) all True
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.share = fixed(equal_share(topology), np.float64)
        self.first_unit = fixed(topology.server_first_unit, np.int32)
        self.unit_server = fixed(topology.unit_server, np.int32)
        self.server_units = fixed(topology.server_units, np.int32)
        self.server_platform = fixed(topology.server_platform, np.int32)
        self.everywhere = fixed(np.ones(topology.server_id.size, dtype=np.bool_), np.bool_)
        self._labelled: dict[str, Bools] = {}

    def labelled(self, labels: frozenset[str]) -> Bools:
        """(S,) servers that carry all labels; not to be modified."""
        if not labels:
            return self.everywhere
        masks = [self._carrying(label) for label in sorted(labels)]
        return fixed(np.logical_and.reduce(masks), np.bool_)

    def allowed(self, platforms: frozenset[str] | None) -> Bools:
        """(P,) platforms the job may use."""
        names = self.topology.platform_name
        wanted = [platforms is None or name in platforms for name in names]
        return fixed(np.array(wanted, dtype=np.bool_), np.bool_)

    def _carrying(self, label: str) -> Bools:
        if label not in self._labelled:
            carried = [label in own for own in self.topology.server_labels]
            self._labelled[label] = np.array(carried, dtype=np.bool_)
        return self._labelled[label]


class Own(NamedTuple):
    """Writable copies of a batch; the board shows them read-only."""

    unit_free: Bools
    server_caused: Singles
    server_free: Floats


@dataclass(slots=True)
class Board:
    """Arrays of a snapshot, copied where the batch may change them; read-only outside ``take``.

    Attributes
    ----------
    snapshot, facts : what it started from
    own : the copies, None for a batch of one decision, which changes nothing
    unit_free : (U,)
    free_count : (S,) int32 free units of each server
    server_open : (S,)
    server_caused : (S, N) float32
    server_free : (S, 3) float64
    busy : units that are not free
    """

    snapshot: Snapshot
    facts: Facts
    own: Own | None
    unit_free: Bools
    free_count: Shorts
    server_open: Bools
    server_caused: Singles
    server_free: Floats
    busy: int

    @classmethod
    def of(
        cls, snapshot: Snapshot, facts: Facts, *, writable: bool, counter: "Counter | None" = None
    ) -> "Board":
        """Make the board of one batch; ``counter`` counts the free units of each server faster."""
        own = None
        free, caused, left = snapshot.unit_free, snapshot.server_caused, snapshot.server_free
        if writable:
            own = Own(free.copy(), caused.copy(), left.copy())
            free, caused, left = own
        count = (counter or counted)(facts, snapshot.unit_free)
        return cls(
            snapshot=snapshot,
            facts=facts,
            own=own,
            unit_free=fixed(free, np.bool_),
            free_count=count,
            server_open=fixed(snapshot.server_open, np.bool_),
            server_caused=fixed(caused, np.float32),
            server_free=fixed(left, np.float64),
            busy=int(snapshot.unit_free.size - count.sum()),
        )

    def take(self, units: Shorts, request: Request) -> None:
        """Give units to a job, so that the next decision sees them gone and feels their pressure.

        Raises
        ------
        ValueError : the board was made for one decision only.
        """
        if self.own is None:
            raise ValueError("this board is read-only: it was made for a single decision")
        servers = self.snapshot.topology.unit_server[units]
        vectors = unit_vectors(self.snapshot.topology, servers, request)
        caused = request.caused.astype(np.float32)
        self.own.unit_free[units] = False
        # a loop: most jobs take one unit, and ufunc.at costs ten times a plain assignment
        for server, vector in zip(servers.tolist(), vectors, strict=True):
            self.own.server_caused[server] += caused
            self.own.server_free[server] -= vector
            self.free_count[server] -= 1
        self.busy += int(units.size)


def counted(facts: Facts, unit_free: Bools) -> Shorts:
    """(S,) int32 free units of each server. O(U)."""
    return np.add.reduceat(unit_free, facts.first_unit, dtype=np.int32)


Counter = Callable[[Facts, Bools], Shorts]


def fixed(array: NDArray[Any], kind: type[_Kind]) -> NDArray[_Kind]:
    """Make an array contiguous, read-only and of one type: kernels are compiled for each."""
    same = np.ascontiguousarray(array, dtype=kind)
    if same.flags.writeable:
        same = same.view()
        same.flags.writeable = False
    return same
