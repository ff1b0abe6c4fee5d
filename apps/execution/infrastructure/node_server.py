"""The server's end of the node protocol on asyncio: one connection for each node.

Replies and orders of one turn of the event loop leave in one write for each connection. Whoever
uses the server (a scheduler) gets events and sends orders; it stores ends before it returns, as
they are acknowledged then.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol

from apps.execution.core.nodes.messages import (
    Accepted,
    Acknowledged,
    Code,
    Ended,
    Error,
    FromNode,
    FromServer,
    Heartbeat,
    Launch,
    ProtocolError,
    Register,
    Rejected,
    Started,
    Stop,
    Usage,
)
from apps.execution.core.nodes.registry import NodeRecord, Registry, Terms
from apps.execution.core.nodes.wire import LineReader, decode_from_node, encode

REGISTER_S: Final = 10.0  # for the first message of a connection
MAX_UNREAD: Final = 4 * 1024 * 1024  # bytes that a node may leave unread
SWEEP_S: Final = 1.0
ACKNOWLEDGED: Final = 500  # ends in one message


class NodeEvents(Protocol):
    """What a server tells its user. Ends may come twice: storing one again changes nothing."""

    def registered(self, message: Register) -> None:
        """Take a node into use; also after a lost connection."""

    def heard(self, node: str, message: Heartbeat) -> None:
        """Store what a node has free."""

    def accepted(self, node: str, order: str) -> None:
        """Store that a node will start an order."""

    def started(self, node: str, order: str) -> None:
        """Store that a node runs an order; `accepted` may not have come before."""

    def rejected(self, node: str, message: Rejected) -> None:
        """Decide a rejected order again, or give it up."""

    def used(self, node: str, message: Usage) -> None:
        """Store the usage of running orders."""

    def ended(self, node: str, message: Ended) -> None:
        """Store the end of an order."""

    def disconnected(self, node: str) -> None:
        """Stop sending orders to a node; its running orders continue."""

    def expired(self, node: str, ordered: list[str], running: list[str]) -> None:
        """Give up the orders of a node that stayed away for longer than its lease."""


class _Connection(asyncio.Protocol):
    """One connection; it has a record once the node has registered."""

    def __init__(self, server: "NodeServer") -> None:
        self._server = server
        self._reader = LineReader()
        self._outgoing: list[bytes] = []
        self._ended: list[str] = []
        self.record: NodeRecord | None = None
        self.sent_s = 0.0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a stream, for the types
        self.transport = transport
        self.sent_s = self._server.now_s
        self._server.opened(self)

    def data_received(self, data: bytes) -> None:
        try:
            for line in self._reader.feed(data):
                self._server.received(self, decode_from_node(line))
        except ProtocolError as error:
            self.refuse(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._server.closed(self)

    def send(self, message: FromServer) -> None:
        """Send with the other messages of this turn of the event loop."""
        self._flush_later()
        self._outgoing.append(encode(message))

    def acknowledge(self, order: str) -> None:
        """Acknowledge an end, in one message with the others of this turn."""
        self._flush_later()
        self._ended.append(order)

    def _flush_later(self) -> None:
        if not self._outgoing and not self._ended:
            self._server.flush_later(self)

    def flush(self) -> None:
        """Write what waits; close the connection of a node that does not read."""
        lines, self._outgoing = self._outgoing, []
        ended, self._ended = self._ended, []
        for first in range(0, len(ended), ACKNOWLEDGED):
            lines.append(encode(Acknowledged(tuple(ended[first : first + ACKNOWLEDGED]))))
        if self.transport is None:
            return
        self.sent_s = self._server.now_s
        self.transport.write(b"".join(lines))
        if self.transport.get_write_buffer_size() > MAX_UNREAD:
            self._server.closed(self)
            self.transport.abort()

    def refuse(self, error: ProtocolError) -> None:
        """Say why, and close."""
        self._server.closed(self)
        if self.transport is None:
            return
        self._outgoing.append(encode(Error(error.code, str(error)[:200])))
        self.flush()
        if self.transport is not None:
            self.transport.close()


class NodeServer:
    """All connections, the registry behind them, and the timers of both."""

    def __init__(
        self,
        events: NodeEvents,
        terms: Terms,
        *,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self.registry: Final = Registry(terms)
        self._events = events
        self._loop = loop
        self._report = report or (lambda text: None)
        self._waiting: dict[_Connection, float] = {}  # not registered yet, since
        self._by_node: dict[str, _Connection] = {}
        self._to_flush: list[_Connection] = []
        self._listeners: list[asyncio.Server] = []
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def now_s(self) -> float:
        """Time of the loop's clock."""
        return self._loop.time()

    @property
    def connected(self) -> int:
        """Number of nodes that are registered and connected."""
        return len(self._by_node)

    def connection(self) -> asyncio.Protocol:
        """Return the server's end of a new connection."""
        return _Connection(self)

    async def listen(self, address: str | tuple[str, int], *, backlog: int = 4096) -> str:
        """Accept connections on a Unix socket (a path) or on TCP; return the address in use."""
        if isinstance(address, str):
            server: asyncio.Server = await self._loop.create_unix_server(
                self.connection, address, backlog=backlog
            )
            self._listeners.append(server)
            return f"unix:{address}"
        host, port = address
        server = await self._loop.create_server(self.connection, host, port, backlog=backlog)
        self._listeners.append(server)
        bound = server.sockets[0].getsockname()
        return f"tcp:{bound[0]}:{bound[1]}"

    def watch(self) -> None:
        """Start the timer that finds silent nodes and ended leases, and keeps leases alive."""
        self._sweep()

    async def close(self) -> None:
        """Stop accepting and close all connections."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for listener in self._listeners:
            listener.close()
        for connection in [*self._by_node.values(), *self._waiting]:
            if connection.transport is not None:
                connection.transport.abort()
        for listener in self._listeners:
            await listener.wait_closed()

    def launch(self, node: str, order: str, cpu: int, memory: int, **more: Any) -> bool:
        """Send an order to a node; False if the node is not connected.

        ``more`` are `needs` and `payload` of `Launch`. The order is sent again after every
        registration until the node has answered or its lease has ended.
        """
        connection = self._by_node.get(node)
        if connection is None or connection.record is None:
            return False
        record = connection.record
        launch = Launch(order, record.epoch, cpu, memory, **more)
        record.ordered[order] = launch
        connection.send(launch)
        return True

    def stop(self, node: str, order: str) -> bool:
        """Tell a node to end an order early; False if the node is not connected."""
        connection = self._by_node.get(node)
        if connection is not None:
            connection.send(Stop(order))
        return connection is not None

    def flush_later(self, connection: _Connection) -> None:
        """Write at the end of this turn of the loop."""
        if not self._to_flush:
            self._loop.call_soon(self._flush)
        self._to_flush.append(connection)

    def _flush(self) -> None:
        connections, self._to_flush = self._to_flush, []
        for connection in connections:
            connection.flush()

    def opened(self, connection: _Connection) -> None:
        """Expect a registration."""
        self._waiting[connection] = self.now_s

    def closed(self, connection: _Connection) -> None:
        """Forget a connection, and what was fenced stays fenced."""
        self._waiting.pop(connection, None)
        record, connection.record = connection.record, None
        if record is None:
            return
        if self._by_node.get(record.name) is connection:
            del self._by_node[record.name]
            self.registry.disconnect(record, now_s=self.now_s)
            self._events.disconnected(record.name)

    def received(self, connection: _Connection, message: FromNode) -> None:
        """Handle one message; those of a superseded connection are ignored."""
        record = connection.record
        if record is None:
            self._first(connection, message)
            return
        record.seen_s = self.now_s
        self._handle(connection, record, message)

    def _first(self, connection: _Connection, message: FromNode) -> None:
        if connection not in self._waiting:
            return  # superseded or refused: fenced
        if not isinstance(message, Register):
            kind = type(message).__name__.lower()
            raise ProtocolError(Code.UNEXPECTED, f"{kind} before register")
        admission = self.registry.register(message, now_s=self.now_s)
        del self._waiting[connection]
        older = self._by_node.pop(message.node, None)
        if older is not None:
            older.record = None
            older.refuse(ProtocolError(Code.SUPERSEDED, "the node has registered again"))
        connection.record = admission.record
        self._by_node[message.node] = connection
        connection.send(admission.welcome)
        for launch in admission.again:
            connection.send(launch)
        self._events.registered(message)
        for ended in admission.lost:
            self._events.ended(message.node, ended)

    def _handle(self, connection: _Connection, record: NodeRecord, message: FromNode) -> None:
        match message:
            case Heartbeat():
                self._events.heard(record.name, message)
            case Ended():
                self._ended(connection, record, message)
            case Usage():
                self._events.used(record.name, message)
            case Error():
                self._report(f"{record.name}: {message.code}: {message.detail}")
            case Register():
                raise ProtocolError(Code.UNEXPECTED, "register on a registered connection")
            case _:
                self._answered(record, message)

    def _answered(self, record: NodeRecord, message: Accepted | Started | Rejected) -> None:
        """Pass on the answer to an order. Answers may be repeated: only the first counts."""
        was_ordered = record.ordered.pop(message.order, None) is not None
        if was_ordered and isinstance(message, Rejected):
            self._events.rejected(record.name, message)
        elif was_ordered:
            record.running.add(message.order)
        if message.order not in record.running:
            return
        if isinstance(message, Started):
            self._events.started(record.name, message.order)
        elif was_ordered:
            self._events.accepted(record.name, message.order)

    def _ended(self, connection: _Connection, record: NodeRecord, message: Ended) -> None:
        """Store an end that counts, and acknowledge every one."""
        was_ordered = record.ordered.pop(message.order, None) is not None
        if was_ordered or message.order in record.running:
            record.running.discard(message.order)
            self._events.ended(record.name, message)
        connection.acknowledge(message.order)

    def _sweep(self) -> None:
        now_s, terms = self.now_s, self.registry.terms
        for connection, since_s in list(self._waiting.items()):
            if now_s - since_s > REGISTER_S:
                connection.refuse(ProtocolError(Code.SILENT, "no registration"))
        for connection in list(self._by_node.values()):
            if (
                connection.record is not None
                and now_s - connection.record.seen_s > terms.silence_s
            ):
                text = f"no message for {terms.silence_s:g} s"
                connection.refuse(ProtocolError(Code.SILENT, text))
            elif now_s - connection.sent_s > terms.keep_alive_s:
                connection.send(Acknowledged(()))
        for record, ordered, running in list(self.registry.expired(now_s=now_s)):
            self._events.expired(record.name, ordered, running)
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)
