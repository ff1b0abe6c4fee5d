"""Units that were freed recently, and the time until some are freed (Tarcil §4, T7)."""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.scheduling.core.admission.types import MIN_HISTORY_S

LIMIT: Final = 8192  # freed units that are kept
MIN_FREED: Final = 20  # fewer tell too little
MOMENTS: Final = 256
MIN_SPAN_S: Final = 1.0  # units that are freed at one moment have no rate


class FreedUnits:
    """When units of each cell were freed, in the last ``window_s`` seconds; a cell is a number."""

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self._freed: deque[tuple[float, int]] = deque(maxlen=LIMIT)
        self.begun_s = math.inf

    def begin(self, now_s: float) -> None:
        """Let the history begin, if it has not."""
        self.begun_s = min(self.begun_s, now_s)

    def note(self, cells: Ints, now_s: float) -> None:
        """Note freed units by cell."""
        self.begin(now_s)
        self._freed.extend((now_s, cell) for cell in cells.tolist())

    def clear(self) -> None:
        """Forget all; the history begins again."""
        self._freed.clear()
        self.begun_s = math.inf

    def entries(self) -> list[tuple[float, int]]:
        """Return time and cell of the freed units, in order."""
        return list(self._freed)

    def recall(self, entries: Iterable[Sequence[float]], begun_s: float) -> None:
        """Continue from what `entries` returned, of a history that began at a time."""
        self._freed.clear()
        self.begun_s = begun_s
        self._freed.extend((now_s, int(cell)) for now_s, cell in entries)

    def span_s(self, now_s: float) -> float | None:
        """Return as `observed_s`, or less if older units were dropped."""
        if len(self._freed) < LIMIT:
            return observed_s(self.begun_s, now_s, self.window_s)
        return min(self.window_s, max(MIN_SPAN_S, now_s - self._freed[0][0]))

    def table(self, now_s: float) -> tuple[Floats, Ints]:
        """Return times, ascending, and cells of the freed units; forgets those before."""
        while self._freed and self._freed[0][0] < now_s - self.window_s:
            self._freed.popleft()
        if not self._freed:
            return np.zeros(0), np.zeros(0, dtype=np.int64)
        times, cells = zip(*self._freed, strict=True)
        return np.array(times), np.array(cells, dtype=np.int64)


def observed_s(begun_s: float, now_s: float, window_s: float) -> float | None:
    """Return the length of a history: its window, or since it began; None if that is too short."""
    span_s = min(window_s, now_s - begun_s)
    return span_s if span_s >= min(MIN_HISTORY_S, window_s) else None


def rate(events: float, span_s: float | None) -> float | None:
    """Return events per second; None if they were counted for too short a time."""
    return None if span_s is None else events / span_s


def times_in(table: tuple[Floats, Ints], cells: Bools) -> Floats:
    """(n,) times at which units of some cells were freed, ascending; (C,) True for the cells."""
    times, of = table
    chosen: Floats = times[cells[of]]
    return chosen


def time_until_free(freed_s: Floats, units: int) -> Floats:
    """(k,) time from a moment until ``units`` units had been freed, at evenly spaced moments.

    The moments lie between the first freed unit and the last one that had ``units`` freed after
    it: whether a moment counts does not depend on how long it had to wait. Empty with fewer than
    `MIN_FREED` freed units.

    Parameters
    ----------
    freed_s : (n,) ascending, one entry per unit
    """
    if freed_s.size < max(MIN_FREED, units + 1) or freed_s[-units] <= freed_s[0]:
        return np.zeros(0)
    share = (np.arange(MOMENTS) + 0.5) / MOMENTS
    moments = freed_s[0] + share * (freed_s[-units] - freed_s[0])
    last = np.searchsorted(freed_s, moments, side="right") + units - 1
    last = np.minimum(last, freed_s.size - 1)  # a moment may be rounded up to the end
    waits: Floats = freed_s[last] - moments
    return waits
