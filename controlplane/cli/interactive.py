"""Time limit, progress line and Ctrl-C of verbs that run a long search."""

import signal
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from controlplane.cli.jobfile import seconds

MAX_LIMIT_S: Final = 86_400.0
_INTERVAL_S: Final = {
    True: 0.1,
    False: 1.0,
}  # between progress lines, by whether stderr is a terminal


def time_limit(text: str) -> float:
    """Read a time limit in seconds; for argparse."""
    try:
        limit = seconds(text)
    except ValueError:
        limit = 0.0
    if not 0.0 < limit <= MAX_LIMIT_S:
        raise ArgumentTypeError(f"{text!r}: give a time above 0 and at most a day, such as 10s")
    return limit


@contextmanager
def interrupts() -> Iterator[list[int]]:
    """Collect the first Ctrl-C, which stops the search; a second one exits the program."""
    caught: list[int] = []

    def handle(number: int, _: FrameType | None) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)

    previous_handler = signal.signal(signal.SIGINT, handle)
    try:
        yield caught
    finally:
        signal.signal(signal.SIGINT, previous_handler)


class ProgressLine:
    """A progress line on stderr: rewritten on a terminal, appended otherwise."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._next_s = _INTERVAL_S[False]
        self._width = 0

    def show(self, seconds: float, text: str) -> None:
        """Print the progress unless the last line is too recent."""
        if seconds < self._next_s:
            return
        self._next_s = seconds + _INTERVAL_S[self._is_terminal]
        line = f"{seconds:6.1f} s  {text}"
        end = "" if self._is_terminal else "\n"
        sys.stderr.write(("\r" if self._is_terminal else "") + line.ljust(self._width) + end)
        sys.stderr.flush()
        self._width = len(line)

    def clear(self) -> None:
        """Erase the line."""
        if self._is_terminal and self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
