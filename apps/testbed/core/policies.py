"""Policies that place containers: the interface and the baselines of ClavisMO's evaluation.

Policies know the nodes, the program and size of each job, the locations of containers and the
estimates of a monitor, but not the true behaviour. s slots per node, n nodes. Source: ClavisMO §1
(SlotRR, NodeRR), §4.2 (Expert), §4.5 (Dot-Product, Panigrahy et al. 2011), C7, C9.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.testbed.core.monitor import Monitor, MonitoredJob

_ROUNDING: Final = 1e-9


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


class RoundRobin:
    """SlotRR and NodeRR: the next free slot in an order of the nodes; no migrations."""

    monitor: Monitor | None = None

    def __init__(self, name: str, order: Callable[[NodeInventory, Ints], Ints]) -> None:
        self.name, self._order = name, order

    def place(self, state: VisibleCluster, jobs: Sequence[VisibleJob]) -> list[list[int]]:
        """Assign the first free slots of the order, job by job."""
        held, chosen = state.held.copy(), list[list[int]]()
        for job in jobs:
            nodes = self._order(state.site, held)[: job.monitored.size]
            np.add.at(held, nodes, 1)
            chosen.append(nodes.tolist())
        return chosen

    def rearrange(self, state: VisibleCluster) -> list[JobMigration]:
        """Leave everything where it is."""
        return []


def slot_by_slot(site: NodeInventory, held: Ints) -> Ints:
    """(free slots,) nodes: all slots of a node, then those of the next."""
    return np.repeat(np.arange(held.size), site.slots - held)


def node_by_node(site: NodeInventory, held: Ints) -> Ints:
    """(free slots,) nodes: those with the fewest slots held first."""
    nodes = slot_by_slot(site, held)
    first = np.repeat(np.cumsum(site.slots - held) - (site.slots - held), site.slots - held)
    level = held[nodes] + np.arange(nodes.size) - first
    return nodes[np.argsort(level, kind="stable")]


@dataclass(slots=True)
class _Free:
    """Free capacity during packing.

    Attributes
    ----------
    room : (n, 3) free share of memory, network and disk
    slots, slot : (n,) free share of the slots, and the share of one slot
    is_open : (n,) has a container
    """

    room: Floats
    slots: Floats
    slot: Floats
    is_open: Bools

    def take(self, need: Floats, weight: Floats) -> int:
        """Choose a node for one container and reserve its capacity."""
        has_slot = self.slots >= self.slot - _ROUNDING
        fits = has_slot & (self.room >= need - _ROUNDING).all(axis=1)
        # If no node has enough of every resource, free slots are enough.
        fits = fits if fits.any() else has_slot
        among = fits & self.is_open if (fits & self.is_open).any() else fits
        score = self.room @ (need * weight) + self.slots * self.slot * self.slot.mean()
        node = int(np.where(among, score, -np.inf).argmax())
        self.room[node] -= need
        self.slots[node] -= self.slot[node]
        self.is_open[node] = True
        return node


class DotProduct:
    """Vector packing: the open node with the largest dot product of free capacity and demand.

    An empty node is used if no open one fits. Each dimension is weighted by its mean demand. No
    migrations. Source: Panigrahy et al., "Heuristics for Vector Bin Packing" (2011), dot product,
    FFDAvgSum.
    """

    name = "Dot-Product"

    def __init__(self, monitor: Monitor) -> None:
        self.monitor: Monitor | None = monitor
        self._monitor = monitor

    def place(self, state: VisibleCluster, jobs: Sequence[VisibleJob]) -> list[list[int]]:
        """Place the containers one by one on the node with the highest score."""
        site = state.site
        room, total, containers = np.ones((site.slots.size, 3)), np.zeros(3), 0
        for other in [*state.running.values(), *jobs]:
            need = np.array(self._monitor.of(other.monitored).demand)
            np.subtract.at(room, other.nodes, need)
            total += need * other.monitored.size
            containers += other.monitored.size
        free = _Free(
            room, (site.slots - state.held) / site.slots, 1.0 / site.slots, state.held > 0
        )
        weight = total / containers
        return [
            [
                free.take(np.array(self._monitor.of(job.monitored).demand), weight)
                for _ in range(job.monitored.size)
            ]
            for job in jobs
        ]

    def rearrange(self, state: VisibleCluster) -> list[JobMigration]:
        """Leave everything where it is."""
        return []
