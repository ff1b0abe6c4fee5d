"""One emulated node: the far end of a connection whose orders are timers."""

import asyncio
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from apps.execution.core.nodes.agent import NodeAgent, Start
from apps.execution.core.nodes.messages import (
    Acknowledged,
    Error,
    FromNode,
    FromServer,
    Launch,
    Outcome,
    ProtocolError,
    Rejected,
    Rejection,
    Stop,
    Usage,
    Welcome,
)
from apps.execution.core.nodes.wire import LineReader, decode_from_server, encode

if TYPE_CHECKING:
    from apps.execution.backends.emulated_nodes.fleet import Fleet

_UNKNOWN: Final = -1.0


class EmulatedNode(asyncio.Protocol):
    """One node. Its orders run for `seconds` of their payload; without, until stopped."""

    __slots__ = (
        "_outgoing",
        "_reader",
        "_transport",
        "agent",
        "first_beat",
        "fleet",
        "heard_s",
        "retries",
        "terms",
    )

    def __init__(self, fleet: "Fleet", agent: NodeAgent, first_beat: float) -> None:
        """``first_beat`` is the share of an interval before the first heartbeat."""
        self.fleet = fleet
        self.agent = agent
        self.first_beat = first_beat
        self.heard_s = 0.0
        self.retries = 0
        self.terms: Welcome | None = None  # of the connection, if registered
        self._reader = LineReader()
        self._outgoing: list[bytes] = []
        self._transport: asyncio.Transport | None = None

    @property
    def is_registered(self) -> bool:
        """Whether the server has admitted the node."""
        return self.terms is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a stream, for the types
        self._transport = transport
        self._reader = LineReader()
        self._outgoing = [encode(self.agent.register())]
        self.flush()

    def data_received(self, data: bytes) -> None:
        """Handle the messages of the server and answer in one write."""
        self.heard_s = self.fleet.now_s
        try:
            for line in self._reader.feed(data):
                self._handle(decode_from_server(line))
        except ProtocolError as error:
            self.send(Error(error.code, str(error)[:200]))
            self.flush()
            self.disconnect()
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the orders continue until the lease expires."""
        self._transport, self.terms = None, None
        self._outgoing.clear()
        self.fleet.disconnected(self)

    def disconnect(self) -> None:
        """Close the connection; the fleet connects again."""
        if self._transport is not None:
            self._transport.close()

    def send(self, message: FromNode) -> None:
        """Send with the other messages of this wake-up; nothing without a connection."""
        if self._transport is None:
            return
        if not self._outgoing:
            self.fleet.flush_later(self)
        self._outgoing.append(encode(message))

    def flush(self) -> None:
        """Write what waits."""
        if self._outgoing and self._transport is not None:
            self._transport.write(b"".join(self._outgoing))
            self._outgoing = []

    def _handle(self, message: FromServer) -> None:
        match message:
            case Launch():
                self._launch(message)
            case Acknowledged():
                self.agent.acknowledge(message)
            case Stop(order):
                self.end(order, Outcome.STOPPED)
            case Welcome():
                self._welcome(message)
            case Error():
                self.fleet.report(f"{self.agent.name}: {message.code}: {message.detail}")

    def _welcome(self, message: Welcome) -> None:
        now_s, timers = self.fleet.now_s, self.fleet.timers
        self.terms = message
        stop, reports = self.agent.welcome(message)
        for report in reports:
            self.send(report)
        for order in stop:
            self.end(order, Outcome.STOPPED)
        beat_s = now_s + self.first_beat * message.heartbeat_s
        timers.at(beat_s, self._beat, message, beat_s)
        timers.at(now_s + message.lease_s, self._fence, message)
        if message.usage_s > 0.0:
            timers.at(now_s + self.first_beat * message.usage_s, self._use, message)
        self.fleet.registered(self)

    def _beat(self, terms: Welcome, due_s: float) -> None:
        """Report what is free, until the connection is another one.

        Beats that a stopped process has missed are left out.
        """
        if self.terms is terms:
            self.fleet.totals.heartbeats += 1
            self.send(self.agent.heartbeat())
            next_s = max(due_s + terms.heartbeat_s, self.fleet.now_s)
            self.fleet.timers.at(next_s, self._beat, terms, next_s)

    def _use(self, terms: Welcome) -> None:
        """Report the usage: an emulated order uses what it requests."""
        if self.terms is terms:
            self.send(Usage(self.agent.used()))
            self.fleet.timers.at(self.fleet.now_s + terms.usage_s, self._use, terms)

    def _fence(self, terms: Welcome) -> None:
        """Stop all orders if the server has not been heard for longer than the lease."""
        if self.agent.epoch != terms.epoch:
            return
        due_s = self.heard_s + terms.lease_s
        if due_s > self.fleet.now_s:
            self.fleet.timers.at(due_s, self._fence, terms)
            return
        for order in self.agent.running:
            self.end(order, Outcome.FENCED)
        self.disconnect()

    def _launch(self, message: Launch) -> None:
        totals = self.fleet.totals
        totals.orders += 1
        seconds = _seconds(message.payload)
        if seconds == _UNKNOWN:
            self.send(Rejected(message.order, Rejection.UNSUPPORTED, "no seconds to run"))
            return
        answer = self.agent.launch(message)
        if not isinstance(answer, Start):
            totals.rejected += isinstance(answer, Rejected)
            self.send(answer)
            return
        started = self.agent.start(message.order)
        if started is not None:
            totals.started += 1
            totals.used_cpu += message.cpu
            self.send(started)
        if isfinite(seconds):
            due_s = self.fleet.now_s + seconds
            self.fleet.timers.at(due_s, self.end, message.order, Outcome.FINISHED)

    def end(self, order: str, outcome: Outcome) -> None:
        """End an order, unless it has ended before."""
        before = self.agent.free_cpu
        ended = self.agent.end(order, outcome)
        if ended is not None:
            self.fleet.totals.used_cpu -= self.agent.free_cpu - before
            self.send(ended)


def _seconds(payload: dict[str, Any]) -> float:
    """Return the run time of an order, infinite for null; `_UNKNOWN` if there is none."""
    seconds = payload.get("seconds", _UNKNOWN)
    if seconds is None:
        return float("inf")
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return float(seconds) if is_number and seconds >= 0.0 else _UNKNOWN
