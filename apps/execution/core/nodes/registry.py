"""What the server knows of its nodes: registrations, orders on their way, running orders.

No clock and no network: times come as arguments, in seconds of one monotonic clock.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from apps.execution.core.nodes.messages import (
    PROTOCOL,
    Code,
    Ended,
    Launch,
    Outcome,
    ProtocolError,
    Register,
    Welcome,
)


@dataclass(frozen=True, slots=True)
class Terms:
    """What the server asks of every node; the first three are fields of `Welcome`.

    Attributes
    ----------
    grace_s : how much later than a node the server concludes that its lease has ended. It covers
        the network, and clocks that differ in speed
    """

    heartbeat_s: float = 5.0
    usage_s: float = 0.0
    lease_s: float = 60.0
    grace_s: float = 5.0

    @property
    def silence_s(self) -> float:
        """Time without a message from a node after which its connection is closed."""
        return 3.0 * self.heartbeat_s + self.grace_s

    @property
    def keep_alive_s(self) -> float:
        """Longest time without a message to a node, so that its lease does not end."""
        return self.lease_s / 3.0


@dataclass(slots=True, eq=False)
class NodeRecord:
    """One node.

    Attributes
    ----------
    epoch : of its last registration
    is_connected : whether that connection is open
    seen_s : time of its last message, or of the end of its connection
    ordered : orders without an answer yet
    running : orders that it has accepted
    """

    name: str
    epoch: int = 0
    is_connected: bool = False
    seen_s: float = 0.0
    ordered: dict[str, Launch] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Admission:
    """Outcome of a registration.

    Attributes
    ----------
    again : orders without an answer, to be sent again
    lost : ends of orders that the node does not know any more
    """

    record: NodeRecord
    welcome: Welcome
    again: list[Launch]
    lost: list[Ended]


class Registry:
    """The nodes of one server."""

    def __init__(self, terms: Terms) -> None:
        self.terms: Final = terms
        self.nodes: Final[dict[str, NodeRecord]] = {}

    def register(self, message: Register, *, now_s: float) -> Admission:
        """Admit a node. Its epoch is above all earlier ones, its own included.

        So a server that has lost its memory still fences older connections.

        Raises
        ------
        ProtocolError : the node speaks another version.
        """
        if message.protocol != PROTOCOL:
            raise ProtocolError(
                Code.VERSION, f"protocol is {message.protocol}; this server speaks {PROTOCOL}"
            )
        record = self.nodes.setdefault(message.node, NodeRecord(message.node))
        record.epoch = max(record.epoch, message.epoch) + 1
        record.is_connected, record.seen_s = True, now_s
        known = {*message.running, *message.ended}
        lost = [Ended(order, Outcome.LOST) for order in sorted(record.running - known)]
        record.running &= known
        again = [
            Launch(o.order, record.epoch, o.cpu, o.memory, o.needs, o.payload)
            for o in record.ordered.values()
        ]
        stop = [
            order
            for order in message.running
            if order not in record.running and order not in record.ordered
        ]
        return Admission(record, self._welcome(record, tuple(stop)), again, lost)

    def _welcome(self, record: NodeRecord, stop: tuple[str, ...]) -> Welcome:
        terms = self.terms
        return Welcome(record.epoch, terms.heartbeat_s, terms.usage_s, terms.lease_s, stop)

    def disconnect(self, record: NodeRecord, *, now_s: float) -> None:
        """Record a lost connection; the orders of the node continue until the lease ends."""
        record.is_connected, record.seen_s = False, now_s

    def expired(self, *, now_s: float) -> Iterator[tuple[NodeRecord, list[str], list[str]]]:
        """Take the orders of nodes that have been away for longer than the lease.

        Yields the node, its orders without an answer, and those that ran. The node has stopped
        them by now; if it still runs one when it comes back, it is told to stop.
        """
        for record in self.nodes.values():
            if record.is_connected or not (record.ordered or record.running):
                continue
            if now_s - record.seen_s <= self.terms.lease_s + self.terms.grace_s:
                continue
            ordered, running = list(record.ordered), sorted(record.running)
            record.ordered.clear()
            record.running.clear()
            yield record, ordered, running
