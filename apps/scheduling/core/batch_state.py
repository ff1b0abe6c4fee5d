"""State of one batch of decisions: a snapshot less the units allocated by the batch so far."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from apps.common.core.arrays import as_readonly
from apps.inventory.core.snapshot import Bools, Floats, Shorts, Singles, Snapshot, Topology
from apps.scheduling.core import loss
from apps.scheduling.core.cluster.capacity import equal_share, unit_vectors
from apps.scheduling.core.tarcil import encoding
from apps.scheduling.core.types import Request

_SETS: Final = 1024  # of platforms, and labels, remembered at most


class TopologyFacts:
    """Values derived from the topology alone, cached by a policy.

    Attributes
    ----------
    topology : the source of these values
    share : (S, 3) equal share of one unit
    unit_server (U,), first_unit, server_units, server_platform (S,) : read-only int32, for the
        kernels
    everywhere, nowhere : (S,) True, or False, for all servers
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.share = as_readonly(equal_share(topology), np.float64)
        self.first_unit = as_readonly(topology.server_first_unit, np.int32)
        self.unit_server = as_readonly(topology.unit_server, np.int32)
        self.server_units = as_readonly(topology.server_units, np.int32)
        self.server_platform = as_readonly(topology.server_platform, np.int32)
        self.everywhere = as_readonly(np.ones(topology.server_id.size, dtype=np.bool_), np.bool_)
        self.nowhere = as_readonly(~self.everywhere, np.bool_)
        self._labelled: dict[str, Bools] = {}
        self._allowed: dict[frozenset[str] | None, Bools] = {}

    def labelled(self, labels: frozenset[str]) -> Bools:
        """(S,) True for servers that carry all labels; read-only."""
        if not labels:
            return self.everywhere
        masks = [self._with_label(label) for label in sorted(labels)]
        return as_readonly(np.logical_and.reduce(masks), np.bool_)

    def allowed(self, platforms: frozenset[str] | None) -> Bools:
        """(P,) True for platforms the job may use; read-only."""
        mask = self._allowed.get(platforms)
        if mask is None:
            if len(self._allowed) >= _SETS:
                self._allowed.clear()
            names = self.topology.platform_name
            allowed = [platforms is None or name in platforms for name in names]
            mask = self._allowed[platforms] = as_readonly(np.array(allowed, dtype=np.bool_))
        return mask

    def named(self, servers: frozenset[int]) -> Bools:
        """(S,) True for these servers, as far as they exist; read-only."""
        if not servers:
            return self.nowhere
        mask = np.zeros(self.nowhere.size, dtype=np.bool_)
        mask[[server for server in servers if 0 <= server < mask.size]] = True
        return as_readonly(mask)

    def barred(self, request: Request) -> Bools:
        """(S,) True for servers that a request excludes or that are not in its pool; read-only."""
        excluded = self.named(request.excluded)
        if request.pool is None:
            return excluded
        return as_readonly(excluded | ~request.pool.mask())

    def _with_label(self, label: str) -> Bools:
        mask = self._labelled.get(label)
        if mask is None:
            if len(self._labelled) >= _SETS:
                self._labelled.clear()
            carried = [label in labels for labels in self.topology.server_labels]
            mask = self._labelled[label] = np.array(carried, dtype=np.bool_)
        return mask


class WritableArrays(NamedTuple):
    """Writable copies of the arrays that a batch changes."""

    unit_free: Bools
    server_caused: Singles
    server_exposure: Singles
    server_tolerance: Singles
    server_free: Floats


@dataclass(slots=True)
class BatchState:
    """Arrays of a snapshot; copied if the batch changes them, read-only except in `allocate`.

    Attributes
    ----------
    snapshot, facts : initial state
    own : the writable copies; None for a single decision, which changes nothing
    weighs_neighbours : whether the policy reads ``server_exposure`` or ``server_tolerance``, which
        are else not updated
    unit_free : (U,)
    free_count : (S,) int32 free units of each server
    server_open : (S,)
    server_caused, server_exposure, server_tolerance : (S, N) float32
    server_free : (S, 3) float64
    busy : number of units that are not free
    """

    snapshot: Snapshot
    facts: TopologyFacts
    own: WritableArrays | None
    weighs_neighbours: bool
    unit_free: Bools
    free_count: Shorts
    server_open: Bools
    server_caused: Singles
    server_exposure: Singles
    server_tolerance: Singles
    server_free: Floats
    busy: int

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        facts: TopologyFacts,
        *,
        writable: bool,
        weighs_neighbours: bool = True,
        counter: "FreeUnitCounter | None" = None,
    ) -> "BatchState":
        """Return the state of one batch; ``counter`` may replace the count of free units."""
        own = None
        free, caused, left = snapshot.unit_free, snapshot.server_caused, snapshot.server_free
        exposed, tolerance = snapshot.server_exposure, snapshot.server_tolerance
        if writable:
            if weighs_neighbours:
                exposed, tolerance = exposed.copy(), tolerance.copy()
            own = WritableArrays(free.copy(), caused.copy(), exposed, tolerance, left.copy())
            free, caused, exposed, tolerance, left = own
        count = (counter or count_free_units)(facts, snapshot.unit_free)
        return cls(
            snapshot=snapshot,
            facts=facts,
            own=own,
            weighs_neighbours=weighs_neighbours,
            unit_free=as_readonly(free, np.bool_),
            free_count=count,
            server_open=as_readonly(snapshot.server_open, np.bool_),
            server_caused=as_readonly(caused, np.float32),
            server_exposure=as_readonly(exposed, np.float32),
            server_tolerance=as_readonly(tolerance, np.float32),
            server_free=as_readonly(left, np.float64),
            busy=int(snapshot.unit_free.size - count.sum()),
        )

    def allocate(self, units: Shorts, request: Request) -> None:
        """Allocate units to a job, so that later decisions see their use and interference.

        The exposure of the jobs that are already there stays that of their present pressure.

        Raises
        ------
        ValueError : the state is read-only.
        """
        if self.own is None:
            raise ValueError("the state of a single decision is read-only")
        servers = self.snapshot.topology.unit_server[units]
        vectors = unit_vectors(self.snapshot.topology, servers, request)
        caused = request.caused.astype(np.float32)
        self.own.unit_free[units] = False
        # a loop, as most jobs have one unit and ufunc.at is ten times slower than an assignment
        for server, vector in zip(servers.tolist(), vectors, strict=True):
            if self.weighs_neighbours:
                self.own.server_exposure[server] += self._exposure(server, request)
                self.own.server_tolerance[server] = self._tolerance(server, request)
            self.own.server_caused[server] += caused
            self.own.server_free[server] -= vector
            self.free_count[server] -= 1
        self.busy += int(units.size)

    def _exposure(self, server: int, request: Request) -> Floats:
        """(N,) exposure of one unit of a job at the present pressure."""
        size = self.facts.server_units[server : server + 1]
        now = encoding.pressure(self.server_caused[server : server + 1], size)[0]
        return loss.slope(np.minimum(now, 100.0), request.tolerated, int(size[0]))

    def _tolerance(self, server: int, request: Request) -> Floats:
        """(N,) tolerance of the server after one more unit of a job."""
        size = self.facts.server_units[server : server + 1]
        now = encoding.pressure(self.server_caused[server : server + 1], size)[0]
        added = encoding.pressure(request.caused[None, :], size)[0]
        is_idle = self.free_count[server] == size[0]
        jobs = loss.IDLE if is_idle else self.server_tolerance[server] - added
        least: Floats = np.minimum(np.minimum(jobs, request.tolerated - now), loss.IDLE)
        return least


def count_free_units(facts: TopologyFacts, unit_free: Bools) -> Shorts:
    """(S,) int32 number of free units of each server. O(U)."""
    return np.add.reduceat(unit_free, facts.first_unit, dtype=np.int32)


FreeUnitCounter = Callable[[TopologyFacts, Bools], Shorts]
