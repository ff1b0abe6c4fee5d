"""Sizes of steps that keep the duration of a step short."""

from typing import Final

_QUICK: Final = 0.5  # of the target: a step of such a duration may grow


class StepSize:
    """Number of items of the next step; it adapts to the duration of the steps before.

    Halved after a step that took longer than its target, doubled after a full step that took
    less than half of it.

    Attributes
    ----------
    current : items of the next step, at first ``largest``
    """

    def __init__(self, *, smallest: int, largest: int) -> None:
        self._smallest, self._largest = smallest, largest
        self.current = largest

    def record(self, items: int, elapsed_s: float, *, target_s: float) -> None:
        """Record the duration of a step; a step without items changes nothing."""
        if not items:
            return
        if elapsed_s > target_s:
            self.current = max(self._smallest, self.current // 2)
        elif items >= self.current and elapsed_s < _QUICK * target_s:
            self.current = min(self._largest, 2 * self.current)
