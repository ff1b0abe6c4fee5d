"""Restarts the processes of a running instance that have ended."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from controlplane.embedded.processes import Child

FIRST_DELAY_S = 1.0
MAX_DELAY_S = 60.0
STEADY_S = 60.0  # a process that ran for this time starts again after the first delay


@dataclass(slots=True)
class _Supervised:
    """A process, how to start it again, and when."""

    child: Child
    start: Callable[[], Child]
    started_s: float
    delay_s: float = FIRST_DELAY_S
    due_s: float | None = None  # None: it runs


@dataclass(slots=True)
class Supervisor:
    """Processes that are started again when they end, each with its own back-off.

    The delay doubles with every end, from a second to a minute.

    Attributes
    ----------
    on_end : called with a sentence when a process has ended; it may raise to stop the instance
    clock : monotonic seconds
    """

    on_end: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _supervised: list[_Supervised] = field(default_factory=list)

    @property
    def children(self) -> list[Child]:
        """The processes, including those that have ended and will be started again."""
        return [one.child for one in self._supervised]

    def add(self, child: Child, start: Callable[[], Child]) -> None:
        """Watch a process that has been started."""
        self._supervised.append(_Supervised(child, start, self.clock()))

    def check(self) -> None:
        """Schedule a start of each process that has ended, and start those that are due."""
        for one in self._supervised:
            if one.due_s is not None:
                self._start(one)
            elif one.child.exit_code is not None:
                self._schedule(one)

    def _schedule(self, one: _Supervised) -> None:
        if self.clock() - one.started_s >= STEADY_S:
            one.delay_s = FIRST_DELAY_S
        self.on_end(f"{one.child.describe_end()}; it starts again in {one.delay_s:.0f} s.")
        one.child.kill_group()  # a pool outlives its killed parent
        one.due_s = self.clock() + one.delay_s
        one.delay_s = min(2.0 * one.delay_s, MAX_DELAY_S)

    def _start(self, one: _Supervised) -> None:
        if one.due_s is not None and self.clock() >= one.due_s:
            one.child, one.started_s, one.due_s = one.start(), self.clock(), None
