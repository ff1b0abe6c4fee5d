"""An event loop whose time passes only while nothing is left to do, and connections in memory.

So a test of minutes of heartbeats takes milliseconds and has one result.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting, moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("the test waits for something that never happens")
        self.now_s += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now_s


def run_virtual(main: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine in virtual time from 0 s on."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


class MemoryTransport(asyncio.Transport):
    """One end of a connection; what is written arrives in the next turn of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._loop = loop
        self.protocol = protocol
        self.peer: MemoryTransport | None = None
        self.is_cut = False  # bytes vanish, and nobody notices
        self.unread = 0
        self._is_closed = False

    def write(self, data: Any) -> None:
        if not self._is_closed and not self.is_cut and self.peer is not None:
            self._loop.call_soon(self.peer.deliver, bytes(data))

    def deliver(self, data: bytes) -> None:
        if not self._is_closed:
            self.protocol.data_received(data)

    def close(self) -> None:
        self._loop.call_soon(self._end)
        if self.peer is not None and not self.is_cut:
            self._loop.call_soon(self.peer._end)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._is_closed

    def get_write_buffer_size(self) -> int:
        return self.unread

    def _end(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self.protocol.connection_lost(None)


def join(left: asyncio.Protocol, right: asyncio.Protocol) -> MemoryTransport:
    """Connect two protocols; return the end of the left one."""
    loop = asyncio.get_running_loop()
    ends = MemoryTransport(loop, left), MemoryTransport(loop, right)
    ends[0].peer, ends[1].peer = ends[1], ends[0]
    for end in (ends[1], ends[0]):
        end.protocol.connection_made(end)
    return ends[0]
