"""Many timers in one heap with one timer of the event loop.

A timer fires up to ``tick_s`` late, so that timers close to each other share one wake-up.
"""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import Any, Final


class Timers:
    """Calls functions at their times, in the order of the times."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, tick_s: float, after: Callable[[], None]
    ) -> None:
        """``after`` is called once after the functions of each wake-up."""
        self._loop: Final = loop
        self._tick_s: Final = tick_s
        self._after: Final = after
        self._entries: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None

    def at(self, due_s: float, act: Callable[..., None], *arguments: Any) -> None:
        """Call a function at a time of the loop's clock."""
        heapq.heappush(self._entries, (due_s, next(self._numbers), act, arguments))
        self._arm()

    def close(self) -> None:
        """Cancel all timers."""
        self._entries.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        wake_s = self._entries[0][0] + self._tick_s
        if self._timer is not None:
            if self._timer.when() <= wake_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(wake_s, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        while self._entries and self._entries[0][0] <= now_s:
            _, _, act, arguments = heapq.heappop(self._entries)
            act(*arguments)
        if self._entries:
            self._arm()
        self._after()
