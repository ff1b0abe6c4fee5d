"""Units of the jobs that arrived in each class, by the minute; C = 10 classes."""

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats
from apps.scheduling.core.admission.history import observed_s
from apps.scheduling.core.admission.pools import CLASSES

BIN_S: Final = 60.0  # arrivals are counted by the minute


@dataclass(slots=True, eq=False)
class _Units:
    """(C,) units that arrived in classes, and (C, C) those diverted from a class to another."""

    arrived: Floats = field(default_factory=lambda: np.zeros(CLASSES))
    diverted: Floats = field(default_factory=lambda: np.zeros((CLASSES, CLASSES)))


@dataclass(slots=True, eq=False)
class Arrivals:
    """Units that arrived in, and were diverted between, classes, by the minute.

    ``begun_s`` : when the counts began
    ``bins`` : by the start of the minute
    ``total`` : their sum
    """

    begun_s: float = math.inf
    bins: dict[float, _Units] = field(default_factory=dict)
    total: _Units = field(default_factory=_Units)

    def arrive(self, at_s: float, number: int, units: int) -> None:
        """Count the units of a job that arrives in a class."""
        for each in (self._bin(at_s), self.total):
            each.arrived[number] += units

    def divert(self, at_s: float, number: int, to: int, units: int) -> None:
        """Count the units of a job that joins another class than its own."""
        for each in (self._bin(at_s), self.total):
            each.diverted[number, to] += units

    def forget(self, before_s: float) -> None:
        """Forget the minutes before the one of a time."""
        for start_s in [each for each in self.bins if each < _minute(before_s)]:
            gone = self.bins.pop(start_s)
            self.total.arrived -= gone.arrived
            self.total.diverted -= gone.diverted

    def observed_s(self, now_s: float, window_s: float) -> float | None:
        """Return the time that was counted: a window that begins with a full minute."""
        return observed_s(self.begun_s, now_s, now_s - _minute(now_s - window_s))

    def arrivals(self) -> list[tuple[float, int, int]]:
        """Return minute, class and units."""
        return [
            (start_s, number, int(each.arrived[number]))
            for start_s, each in self.bins.items()
            for number in np.flatnonzero(each.arrived).tolist()
        ]

    def diversions(self) -> list[tuple[float, int, int, int]]:
        """Return minute, class, class that is joined instead, and units."""
        return [
            (start_s, number, to, int(each.diverted[number, to]))
            for start_s, each in self.bins.items()
            for number, to in np.argwhere(each.diverted).tolist()
        ]

    def _bin(self, at_s: float) -> _Units:
        return self.bins.setdefault(_minute(at_s), _Units())


def _minute(at_s: float) -> float:
    """Return the start of the minute of a time."""
    return math.floor(at_s / BIN_S) * BIN_S
