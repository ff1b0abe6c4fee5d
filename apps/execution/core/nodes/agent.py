"""What a node knows of its orders: real free resources, and each order started once.

No clock, no network and no process: a real agent or an emulated node runs the orders, feeds
messages in and sends the replies.
"""

from dataclasses import dataclass
from typing import Final

from apps.execution.core.nodes.messages import (
    Accepted,
    Acknowledged,
    Ended,
    Heartbeat,
    Launch,
    Outcome,
    Register,
    Rejected,
    Rejection,
    Started,
    Welcome,
)


@dataclass(frozen=True, slots=True)
class Capacity:
    """Resources of a node."""

    cpu: int
    memory: int
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Start:
    """The order holds its resources: start it."""

    order: str


@dataclass(slots=True)
class _Held:
    cpu: int
    memory: int
    has_started: bool = False


Answer = Start | Accepted | Started | Rejected | Ended


class NodeAgent:
    """The orders of one node."""

    __slots__ = ("_ended", "_held", "capacity", "epoch", "free_cpu", "free_memory", "name")

    def __init__(self, name: str, capacity: Capacity) -> None:
        self.name: Final = name
        self.capacity: Final = capacity
        self.free_cpu = capacity.cpu
        self.free_memory = capacity.memory
        self.epoch = 0
        self._held: dict[str, _Held] = {}
        self._ended: dict[str, Ended] = {}

    @property
    def running(self) -> tuple[str, ...]:
        """Orders that hold resources."""
        return tuple(self._held)

    def used(self) -> tuple[tuple[str, int, int], ...]:
        """Return (order, cpu, memory) that each running order holds."""
        return tuple(
            (order, held.cpu, held.memory)
            for order, held in self._held.items()
            if held.has_started
        )

    def register(self) -> Register:
        """Return the first message of a connection."""
        return Register(
            node=self.name,
            cpu=self.capacity.cpu,
            memory=self.capacity.memory,
            free_cpu=self.free_cpu,
            free_memory=self.free_memory,
            attributes=self.capacity.attributes,
            epoch=self.epoch,
            running=self.running,
            ended=tuple(self._ended),
        )

    def heartbeat(self) -> Heartbeat:
        """Return what is free now."""
        return Heartbeat(self.free_cpu, self.free_memory, len(self._held))

    def welcome(self, message: Welcome) -> tuple[list[str], list[Started | Ended]]:
        """Return the orders to stop, and the starts and ends to report again.

        Any of them may have been lost with the last connection.
        """
        self.epoch = message.epoch
        stop = [order for order in message.stop if order in self._held]
        started = [
            Started(order)
            for order, held in self._held.items()
            if held.has_started and order not in stop
        ]
        return stop, [*started, *self._ended.values()]

    def launch(self, message: Launch) -> Answer:
        """Decide an order by what is really free. `Start` holds the resources.

        An order that came before is answered as it stands now and not started again.
        """
        if message.order in self._ended:
            return self._ended[message.order]
        held = self._held.get(message.order)
        if held is not None:
            return Started(message.order) if held.has_started else Accepted(message.order)
        reason = self._rejection(message)
        if reason is not None:
            return Rejected(message.order, reason)
        self._held[message.order] = _Held(message.cpu, message.memory)
        self.free_cpu -= message.cpu
        self.free_memory -= message.memory
        return Start(message.order)

    def start(self, order: str) -> Started | None:
        """Record that an order runs; None if it has been stopped meanwhile."""
        held = self._held.get(order)
        if held is None:
            return None
        held.has_started = True
        return Started(order)

    def end(self, order: str, outcome: Outcome, detail: str = "") -> Ended | None:
        """Release the resources of an order; None if it holds none.

        The report is kept until the server acknowledges it.
        """
        held = self._held.pop(order, None)
        if held is None:
            return None
        self.free_cpu += held.cpu
        self.free_memory += held.memory
        report = Ended(order, outcome, detail)
        self._ended[order] = report
        return report

    def acknowledge(self, message: Acknowledged) -> None:
        """Forget ends that the server has stored."""
        for order in message.orders:
            self._ended.pop(order, None)

    def _rejection(self, message: Launch) -> Rejection | None:
        if message.epoch != self.epoch:
            return Rejection.EPOCH
        if not set(message.needs) <= set(self.capacity.attributes):
            return Rejection.ATTRIBUTES
        if message.cpu > self.free_cpu:
            return Rejection.CPU
        return Rejection.MEMORY if message.memory > self.free_memory else None
