"""Sizes of steps that keep the duration of a step short."""

from typing import Final

_KEPT: Final = 0.8  # weight of the earlier steps when one more is recorded
_APART: Final = 0.1  # sizes that vary by less, relative to their mean, do not show the fixed time


class StepSize:
    """Number of items of the next step; it follows the fixed and the marginal time of a step.

    The time of a step is a line over its items, fitted to the recent steps by weighted least
    squares. The next step has as many items as fit into the target next to the fixed time, or, if
    the fixed time alone is more than half of the target, as take as long as the fixed time: a
    smaller step would cost much throughput and shorten the step little. The size changes by a
    factor of two at most, and grows only after a full step.

    Attributes
    ----------
    current : items of the next step, at first ``first`` or ``largest``
    fixed_s : wall seconds of a step that does not depend on its items, as fitted last
    """

    def __init__(self, *, smallest: int, largest: int, first: int | None = None) -> None:
        self._smallest, self._largest = smallest, largest
        self._sums = [0.0] * 5  # of weights, n, s, n^2 and n s
        self.current = largest if first is None else first
        self.fixed_s = 0.0

    def record(self, items: int, elapsed_s: float, *, target_s: float) -> None:
        """Record the duration of a step; a step without items changes nothing."""
        if not items:
            return
        marginal_s = self._fit(items, elapsed_s)
        time_s = max(target_s - self.fixed_s, self.fixed_s)
        least, most = self.current // 2, 2 * self.current
        wanted = most if marginal_s * most <= time_s else int(time_s / marginal_s)
        if wanted > self.current and items < self.current:
            return
        self.current = min(max(wanted, least, self._smallest), most, self._largest)

    def _fit(self, items: int, elapsed_s: float) -> float:
        """Fit the line again; returns the seconds per item."""
        new = (1.0, items, elapsed_s, items * items, items * elapsed_s)
        self._sums = [_KEPT * before + each for before, each in zip(self._sums, new, strict=True)]
        weight, n, s, nn, ns = self._sums
        n, s, nn, ns = n / weight, s / weight, nn / weight, ns / weight
        variance = nn - n * n
        if variance > (_APART * n) ** 2:
            slope_s = (ns - n * s) / variance
            self.fixed_s = min(max(s - slope_s * n, 0.0), s)
        return max(s - self.fixed_s, 0.0) / n
