"""A stop request that a signal handler may make."""

import signal
from queue import Empty, SimpleQueue
from types import FrameType


class StopSignal:
    """An event that signal handlers may set, and that stays set.

    `threading.Event.set` acquires a lock that the interrupted thread may hold, in `wait`: then the
    process hangs. A `SimpleQueue` is reentrant: a `put` may interrupt any `put` or `get`.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._wakes: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        """Return whether to stop."""
        return self._is_set

    def set(self) -> None:
        """Request the stop; all waiting threads go on."""
        self._is_set = True
        self._wakes.put(None)

    def wait(self, timeout_s: float) -> bool:
        """Wait up to ``timeout_s`` wall seconds for the stop; returns whether it was requested.

        Raises
        ------
        ValueError : the time is negative.
        """
        if self._is_set:
            return True
        try:
            self._wakes.get(timeout=timeout_s)
        except Empty:
            return self._is_set
        self._wakes.put(None)  # for the next waiting thread
        return True

    def set_on_signals(self) -> None:
        """Let SIGTERM and SIGINT request the stop; called by the main thread."""

        def request_stop(_number: int, _frame: FrameType | None) -> None:
            self.set()

        signal.signal(signal.SIGTERM, request_stop)
        signal.signal(signal.SIGINT, request_stop)
