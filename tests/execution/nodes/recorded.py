"""A user of a node server that records events, and a node that a test speaks for."""

import asyncio

from apps.execution.core.nodes.messages import (
    Ended,
    FromNode,
    FromServer,
    Heartbeat,
    Register,
    Rejected,
    Usage,
)
from apps.execution.core.nodes.wire import LineReader, decode_from_server, encode
from apps.execution.infrastructure.node_server import NodeServer
from tests.execution.nodes.virtual import MemoryTransport, join


class Recorder:
    """The events in their order, as tuples."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []
        self.beats: list[Heartbeat] = []

    def registered(self, message: Register) -> None:
        self.events.append(("registered", message.node))

    def heard(self, node: str, message: Heartbeat) -> None:
        self.beats.append(message)

    def accepted(self, node: str, order: str) -> None:
        self.events.append(("accepted", node, order))

    def started(self, node: str, order: str) -> None:
        self.events.append(("started", node, order))

    def rejected(self, node: str, message: Rejected) -> None:
        self.events.append(("rejected", node, message.order, message.reason.value))

    def used(self, node: str, message: Usage) -> None:
        self.events.append(("used", node, message.used))

    def ended(self, node: str, message: Ended) -> None:
        self.events.append(("ended", node, message.order, message.outcome.value))

    def disconnected(self, node: str) -> None:
        self.events.append(("disconnected", node))

    def expired(self, node: str, ordered: list[str], running: list[str]) -> None:
        self.events.append(("expired", node, ordered, running))


class SpokenNode(asyncio.Protocol):
    """The far end of a connection: the test sends, and reads what came."""

    def __init__(self, server: NodeServer) -> None:
        self._reader = LineReader()
        self.received: list[FromServer] = []
        self.is_open = True
        self.end: MemoryTransport = join(self, server.connection())

    def data_received(self, data: bytes) -> None:
        self.received += [decode_from_server(line) for line in self._reader.feed(data)]

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False

    async def say(self, *messages: FromNode) -> None:
        """Send messages and wait until they are handled and answered."""
        await self.raw(b"".join(map(encode, messages)))

    async def raw(self, data: bytes) -> None:
        self.end.write(data)
        await asyncio.sleep(0.001)

    def last(self) -> FromServer:
        return self.received[-1]
