"""Thousands of emulated nodes in one process, each with its own connection (K2).

Heartbeats and ends share one heap of timers, and what a node sends at one wake-up is one write.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np

from apps.execution.backends.emulated_nodes.node import EmulatedNode
from apps.execution.backends.emulated_nodes.timers import Timers
from apps.execution.core.nodes.agent import Capacity, NodeAgent

CONNECTING: Final = 100  # connections that are opened at the same time
RETRY_S: Final = 0.5  # after the first failure; doubled up to the longest
LONGEST_RETRY_S: Final = 30.0

Connect = Callable[[Callable[[], asyncio.Protocol]], Awaitable[Any]]


@dataclass(slots=True)
class Totals:
    """Counts since the start.

    Attributes
    ----------
    orders : orders received, repeated ones included
    used_cpu : requested by the orders that run now
    utilisation : share of all cores requested by running orders, each second
    """

    heartbeats: int = 0
    orders: int = 0
    started: int = 0
    rejected: int = 0
    connections: int = 0
    used_cpu: int = 0
    utilisation: list[float] = field(default_factory=list)


class Fleet:
    """Emulated nodes and their connections to one server."""

    def __init__(
        self,
        capacities: Sequence[tuple[str, Capacity]],
        connect: Connect,
        rng: np.random.Generator,
        *,
        tick_s: float = 0.005,
        report: Callable[[str], None] | None = None,
    ) -> None:
        """Create the nodes; `start` connects them.

        ``connect`` opens a connection for a protocol factory, as `loop.create_connection` does.
        ``rng`` draws when each node sends its first heartbeat, and how long it waits to reconnect.
        """
        self._loop: Final = asyncio.get_running_loop()
        self._connect: Final = connect
        self._rng: Final = rng
        self.report: Final = report or (lambda text: None)
        self.totals: Final = Totals()
        self.timers: Final = Timers(self._loop, tick_s, self._flush)
        shares = 1.0 - rng.uniform(0.0, 1.0, len(capacities))
        self.nodes: Final = [
            EmulatedNode(self, NodeAgent(name, capacity), share)
            for (name, capacity), share in zip(capacities, shares.tolist(), strict=True)
        ]
        self._cores: Final = max(1, sum(capacity.cpu for _, capacity in capacities))
        self._opening = asyncio.Semaphore(CONNECTING)
        self._tasks: set[asyncio.Task[None]] = set()
        self._to_flush: list[EmulatedNode] = []
        self._unregistered = {name for name, _ in capacities}
        self._all_registered = asyncio.Event()
        self._is_closed = False

    @property
    def now_s(self) -> float:
        """Time of the loop's clock."""
        return self._loop.time()

    async def start(self) -> None:
        """Connect all nodes; return when each has registered once."""
        for node in self.nodes:
            self._spawn(node)
        if self.nodes:
            await self._all_registered.wait()
        self.timers.at(self.now_s + 1.0, self._record)

    def close(self) -> None:
        """Close all connections and forget all orders."""
        self._is_closed = True
        self.timers.close()
        for task in self._tasks:
            task.cancel()
        for node in self.nodes:
            node.disconnect()

    def summary(self) -> dict[str, Any]:
        """Return the totals as JSON values."""
        return {"nodes": len(self.nodes), **asdict(self.totals)}

    def flush_later(self, node: EmulatedNode) -> None:
        """Write at the end of this wake-up."""
        self._to_flush.append(node)

    def registered(self, node: EmulatedNode) -> None:
        """Count a registration."""
        self.totals.connections += 1
        node.retries = 0
        self._unregistered.discard(node.agent.name)
        if not self._unregistered:
            self._all_registered.set()

    def disconnected(self, node: EmulatedNode) -> None:
        """Connect again after a while: longer after each failure, and not all at once."""
        if self._is_closed:
            return
        longest_s = min(LONGEST_RETRY_S, RETRY_S * 2.0**node.retries)
        node.retries = min(node.retries + 1, 10)
        wait_s = float(self._rng.uniform(0.5, 1.0)) * longest_s
        self.timers.at(self.now_s + wait_s, self._spawn, node)

    def _spawn(self, node: EmulatedNode) -> None:
        task = self._loop.create_task(self._open(node))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open(self, node: EmulatedNode) -> None:
        try:
            async with self._opening:
                await self._connect(lambda: node)
        except OSError as error:
            self.report(f"{node.agent.name}: {error}")
            self.disconnected(node)

    def _flush(self) -> None:
        nodes, self._to_flush = self._to_flush, []
        for node in nodes:
            node.flush()

    def _record(self) -> None:
        self.totals.utilisation.append(self.totals.used_cpu / self._cores)
        self.timers.at(self.now_s + 1.0, self._record)
