"""Policies that place containers: what they see, and those of the registry among them.

Policies know the nodes, the program and size of each job, the locations of containers and the
estimates of a monitor, but not the true behaviour. n nodes. SlotRR, NodeRR and Dot-Product are
``slot_rr``, ``node_rr`` and ``dot_product`` of `scheduling.core.registry`. Source: ClavisMO §1,
§4.2 (Expert), §4.5, C7, C9.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Floats, Ints, Snapshot, Topology
from apps.scheduling.core.types import Policy, Refused, Request
from apps.testbed.core.monitor import Monitor, MonitoredJob

MIN_DEMAND: Final = 1e-9  # a demand of 0 would be an equal share
NO_DEMAND: Final = np.full(3, MIN_DEMAND)
NOTHING: Final = np.zeros(N_SOURCES)
ALL: Final = np.full(N_SOURCES, 100.0)


@dataclass(frozen=True, slots=True, eq=False)
class NodeInventory:
    """Properties of the nodes, all (n,)."""

    rack: Ints
    slots: Ints
    idle_watts: Floats
    peak_watts: Floats


@dataclass(slots=True)
class VisibleJob:
    """A job as policies see it.

    Attributes
    ----------
    nominal_s : run time requested by the user
    nodes : node of each container, the target during a migration; empty before the job runs
    """

    monitored: MonitoredJob
    nominal_s: float
    started_s: float = float("nan")
    nodes: list[int] = field(default_factory=list)


class JobMigration(NamedTuple):
    """Migration of one container of a job between nodes."""

    key: str
    source: int
    to: int


@dataclass(frozen=True, slots=True, eq=False)
class VisibleCluster:
    """The cluster as policies see it at one time.

    Attributes
    ----------
    held : (n,) slots in use; migrating containers count on both nodes
    running : by key, in start order
    """

    site: NodeInventory
    now: float
    held: Ints
    running: Mapping[str, VisibleJob]

    @property
    def slots(self) -> Ints:
        """(n,) slots of each node without those reserved at the source of migrations."""
        placements = [node for job in self.running.values() for node in job.nodes]
        counts = np.bincount(np.array(placements, dtype=np.int64), minlength=self.held.size)
        left: Ints = self.site.slots - (self.held - counts)
        return left


class ContainerPolicy(Protocol):
    """A policy that places and migrates containers.

    Attributes
    ----------
    monitor : monitor that receives readings every minute, or None
    """

    name: str
    monitor: Monitor | None

    def place(self, state: VisibleCluster, jobs: Sequence[VisibleJob]) -> list[list[int]]:
        """Choose a node for each container of the arriving jobs; there is room for all."""
        ...

    def rearrange(self, state: VisibleCluster) -> list[JobMigration]:
        """List migrations in an order in which each fits after the earlier ones."""
        ...


class RegisteredPlacer:
    """A policy of the registry that places containers; it migrates none.

    A container is a unit of a node, and demands what the monitor has estimated for its program. If
    no node has enough of every resource for a container, free slots are enough.
    """

    def __init__(self, name: str, policy: Policy, monitor: Monitor | None = None) -> None:
        self.name, self.monitor = name, monitor
        self._policy = policy
        self._rng = np.random.default_rng(0)  # breaks no tie: the order of nodes does
        self._nodes: tuple[NodeInventory, Topology] | None = None

    def place(self, state: VisibleCluster, jobs: Sequence[VisibleJob]) -> list[list[int]]:
        """Place the containers job by job."""
        topology = self._topology(state.site)
        held, room = state.held.copy(), np.ones((state.held.size, 3))
        for other in state.running.values():
            np.subtract.at(room, other.nodes, self._demand(other))
        chosen = []
        for job in jobs:
            nodes: list[int] = []
            demand = self._demand(job)
            for spare, need in ((room, demand), (np.ones_like(room), NO_DEMAND)):
                left = job.monitored.size - len(nodes)
                found = self._decide(_snapshot(topology, held, spare), left, need) if left else []
                np.add.at(held, found, 1)
                np.subtract.at(room, found, demand)
                nodes += found
            chosen.append(nodes)
        return chosen

    def rearrange(self, state: VisibleCluster) -> list[JobMigration]:
        """Leave everything where it is."""
        return []

    def _decide(self, snapshot: Snapshot, containers: int, demand: Floats) -> list[int]:
        """Node of each container, of those that fit."""
        memory, network, disk = demand.tolist()
        request = Request(
            "job", containers, NOTHING, ALL,
            unit_memory_bytes=memory, unit_network_bps=network, unit_storage_bytes=disk,
        )  # fmt: skip
        (outcome,) = self._policy.place(snapshot, [request], self._rng)
        if isinstance(outcome, Refused):
            return []
        return [int(node) for node in snapshot.topology.unit_server[outcome.units]]

    def _demand(self, job: VisibleJob) -> Floats:
        """(3,) share of a node's memory, network and disk that one container demands."""
        if self.monitor is None:
            return NO_DEMAND
        return np.maximum(self.monitor.of(job.monitored).demand, MIN_DEMAND)

    def _topology(self, site: NodeInventory) -> Topology:
        if self._nodes is None or self._nodes[0] is not site:
            self._nodes = (site, node_topology(site))
        return self._nodes[1]


def node_topology(site: NodeInventory) -> Topology:
    """Return nodes as servers of one platform, with a capacity of 1 of each resource."""
    n, slots = site.slots.size, site.slots.astype(np.int32)
    first = np.concatenate(([0], np.cumsum(slots)[:-1])).astype(np.int32)
    owner = np.repeat(np.arange(n, dtype=np.int32), slots)
    return Topology(
        unit_id=np.arange(owner.size, dtype=np.int64),
        unit_server=owner,
        unit_core=(np.arange(owner.size) - first[owner]).astype(np.int32),
        server_id=np.arange(n, dtype=np.int64),
        server_name=tuple(map(str, range(n))),
        server_first_unit=first,
        server_units=slots,
        server_platform=np.zeros(n, dtype=np.int32),
        server_rack=site.rack.astype(np.int32),
        server_capacity=np.ones((n, 3)),
        server_labels=(frozenset(),) * n,
        platform_name=("node",),
        rack_name=tuple(map(str, range(int(site.rack.max()) + 1))),
    )


def _snapshot(topology: Topology, held: Ints, room: Floats) -> Snapshot:
    """Return nodes whose first slots are in use."""
    scores = np.zeros((held.size, N_SOURCES), dtype=np.float32)
    return Snapshot(
        sequence=0,
        topology=topology,
        unit_free=topology.unit_core >= held[topology.unit_server],
        server_open=np.ones(held.size, dtype=np.bool_),
        server_caused=scores,
        server_exposure=scores,
        server_tolerance=scores,
        server_free=room,
    )
