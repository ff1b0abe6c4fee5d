"""Policies that place containers: those of ClavisMO's evaluation, and ours.

They see nodes, jobs by program and size, where containers are, and what a watch believes of them;
none sees a truth. s slots a node, n nodes. Source: ClavisMO §1 (SlotRR, NodeRR), §4.2 (Expert),
§4.5 (Dot-Product, Panigrahy et al. 2011), C7, C9.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.testbed.core.watching import Watch, Watched

_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """The nodes: what an inventory knows of them, all (n,)."""

    rack: Ints
    slots: Ints
    idle_watts: Floats
    peak_watts: Floats


@dataclass(slots=True)
class Seen:
    """A job as policies see it.

    Attributes
    ----------
    nominal_s : run time its user asked for
    home : node of each container, of one that moves the one it goes to; empty before it runs
    """

    watched: Watched
    nominal_s: float
    started_s: float = float("nan")
    home: list[int] = field(default_factory=list)


class Step(NamedTuple):
    """One container of a job to another node."""

    key: str
    source: int
    to: int


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What policies know at one moment.

    Attributes
    ----------
    held : (n,) slots held, those of moving containers on both nodes
    running : by key, in the order they were started
    """

    site: Site
    now: float
    held: Ints
    running: Mapping[str, Seen]

    @property
    def slots(self) -> Ints:
        """(n,) slots of each node less those that containers on their way still hold."""
        homes = [node for job in self.running.values() for node in job.home]
        at_home = np.bincount(np.array(homes, dtype=np.int64), minlength=self.held.size)
        left: Ints = self.site.slots - (self.held - at_home)
        return left


class Placer(Protocol):
    """A policy.

    Attributes
    ----------
    watch : told of the monitors' readings every minute, or None
    """

    name: str
    watch: Watch | None

    def place(self, state: State, jobs: Sequence[Seen]) -> list[list[int]]:
        """Choose a node for each container of the jobs that come in; there is room for all."""
        ...

    def rearrange(self, state: State) -> list[Step]:
        """List moves in an order in which each fits once those before it are done."""
        ...


class InTurn:
    """SlotRR and NodeRR: the next free slot in an order of the nodes; nothing moves."""

    watch: Watch | None = None

    def __init__(self, name: str, order: Callable[[Site, Ints], Ints]) -> None:
        self.name, self._order = name, order

    def place(self, state: State, jobs: Sequence[Seen]) -> list[list[int]]:
        """Take the first slots of the order, job after job."""
        held, chosen = state.held.copy(), list[list[int]]()
        for job in jobs:
            nodes = self._order(state.site, held)[: job.watched.size]
            np.add.at(held, nodes, 1)
            chosen.append(nodes.tolist())
        return chosen

    def rearrange(self, state: State) -> list[Step]:
        """Leave everything where it is."""
        return []


def slot_by_slot(site: Site, held: Ints) -> Ints:
    """(free slots,) nodes: all slots of a node, then those of the next."""
    return np.repeat(np.arange(held.size), site.slots - held)


def node_by_node(site: Site, held: Ints) -> Ints:
    """(free slots,) nodes: those with the fewest slots held first."""
    nodes = slot_by_slot(site, held)
    first = np.repeat(np.cumsum(site.slots - held) - (site.slots - held), site.slots - held)
    level = held[nodes] + np.arange(nodes.size) - first
    return nodes[np.argsort(level, kind="stable")]


@dataclass(slots=True)
class _Free:
    """Room left while containers are packed.

    Attributes
    ----------
    room : (n, 3) share of memory, network and disk that is left
    slots, slot : (n,) share of the slots that is left, and of one slot
    is_open : (n,) holds something
    """

    room: Floats
    slots: Floats
    slot: Floats
    is_open: Bools

    def take(self, need: Floats, weight: Floats) -> int:
        """Choose a node for one container and take its room there."""
        has_slot = self.slots >= self.slot - _ROUNDING
        fits = has_slot & (self.room >= need - _ROUNDING).all(axis=1)
        # what fits by its slots alone is better than waiting
        fits = fits if fits.any() else has_slot
        among = fits & self.is_open if (fits & self.is_open).any() else fits
        score = self.room @ (need * weight) + self.slots * self.slot * self.slot.mean()
        node = int(np.where(among, score, -np.inf).argmax())
        self.room[node] -= need
        self.slots[node] -= self.slot[node]
        self.is_open[node] = True
        return node


class DotProduct:
    """Vector packing: the open node whose room points most the way of the demand; none moves.

    A node is opened when no open one fits. Each dimension weighs what is asked of it on average.
    Source: Panigrahy et al., "Heuristics for Vector Bin Packing" (2011), dot product, FFDAvgSum.
    """

    name = "Dot-Product"

    def __init__(self, watch: Watch) -> None:
        self.watch: Watch | None = watch
        self._watch = watch

    def place(self, state: State, jobs: Sequence[Seen]) -> list[list[int]]:
        """Put one container after the other where it fits best."""
        site = state.site
        room, total, containers = np.ones((site.slots.size, 3)), np.zeros(3), 0
        for other in [*state.running.values(), *jobs]:
            need = np.array(self._watch.of(other.watched).demand)
            np.subtract.at(room, other.home, need)
            total += need * other.watched.size
            containers += other.watched.size
        free = _Free(
            room, (site.slots - state.held) / site.slots, 1.0 / site.slots, state.held > 0
        )
        weight = total / containers
        return [
            [
                free.take(np.array(self._watch.of(job.watched).demand), weight)
                for _ in range(job.watched.size)
            ]
            for job in jobs
        ]

    def rearrange(self, state: State) -> list[Step]:
        """Leave everything where it is."""
        return []
