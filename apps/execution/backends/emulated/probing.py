"""Profiling runs under way on the emulated servers."""

import numpy as np

from apps.emulation.core.probe import Measured, Step, Unmeasured, probing
from apps.emulation.core.truth import Truth
from apps.execution.backends.emulated.port import ProfilingOrder, ProfilingReport


class Probing:
    """The sandboxed copies of one application, from their start to the last measurement.

    A step is computed when the one before it is over, so that many runs that begin at once do not
    hold up the tick in which they do.

    Raises
    ------
    ValueError : the order cannot be carried out.
    """

    def __init__(
        self,
        order: ProfilingOrder,
        truth: Truth,
        rng: np.random.Generator,
        *,
        begun_s: float,
        failures: float,
    ) -> None:
        self._run, self._begun_s = order.run, begun_s
        self._steps = probing(truth, order.runs, rng, budget_s=order.budget_s, failures=failures)
        self._next: Step | None = next(self._steps)
        self._cells: list[Measured] = []
        self._missing: list[Unmeasured] = []
        self.at_s = begun_s  # cluster time of the last step that is over
        self.failed = ""  # why nothing will be measured

    @property
    def is_over(self) -> bool:
        """Whether no step is left."""
        return self._next is None

    def until(self, now_s: float) -> Step | None:
        """Let cluster time pass; returns the last step that ended meanwhile, if any."""
        last = None
        while self._next is not None and self._begun_s + self._next.at_s <= now_s:
            last, self._next = self._next, next(self._steps, None)
            self._cells += last.cells
            self._missing += last.missing
            self.at_s, self.failed = self._begun_s + last.at_s, last.failed
        return last

    def report(self) -> ProfilingReport:
        """Say what was measured up to now."""
        seconds = self.at_s - self._begun_s
        return ProfilingReport(
            self._run, self.at_s, seconds, tuple(self._cells), tuple(self._missing)
        )
