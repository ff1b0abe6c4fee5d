"""What verbs that search for long share: how long, a line of progress, Ctrl-C that ends it."""

import signal
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from controlplane.cli.jobfile import seconds

LONGEST_S: Final = 86_400.0
_BETWEEN_S: Final = {True: 0.1, False: 1.0}  # two progress lines, on a terminal or not


def time_limit(text: str) -> float:
    """Read how many seconds a search may take; for argparse."""
    try:
        limit = seconds(text)
    except ValueError:
        limit = 0.0
    if not 0.0 < limit <= LONGEST_S:
        raise ArgumentTypeError(f"{text!r}: give a time above 0, at most a day, such as 10s")
    return limit


@contextmanager
def interrupts() -> Iterator[list[int]]:
    """Collect the first Ctrl-C, which ends the search; a second one ends the program."""
    caught: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield caught
    finally:
        signal.signal(signal.SIGINT, before)


class ProgressLine:
    """One line on standard error: rewritten on a terminal, now and then a new one elsewhere."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._next_s = _BETWEEN_S[False]
        self._width = 0

    def show(self, seconds: float, text: str) -> None:
        """Say how far it is, at most so often."""
        if seconds < self._next_s:
            return
        self._next_s = seconds + _BETWEEN_S[self._is_terminal]
        line = f"{seconds:6.1f} s  {text}"
        end = "" if self._is_terminal else "\n"
        sys.stderr.write(("\r" if self._is_terminal else "") + line.ljust(self._width) + end)
        sys.stderr.flush()
        self._width = len(line)

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self._is_terminal and self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
