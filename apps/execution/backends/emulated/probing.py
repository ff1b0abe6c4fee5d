"""A profiling run in progress on the emulated servers."""

import numpy as np

from apps.emulation.core.probe import probe_steps
from apps.emulation.core.truth import Truth
from apps.execution.backends.emulated.port import ProfilingOrder, ProfilingReport
from apps.profiling.core.measurements import MeasuredCell, MissingCell, ProfilingStep


class ProfilingSession:
    """The sandboxed copies of one application, from their start to the last measurement.

    Each step is computed when the previous one has ended, so that many runs that start in one
    tick do not delay it.

    Raises
    ------
    ValueError : the order names an unknown platform or source, or lacks a reference run.
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
        self._steps = probe_steps(
            truth, order.runs, rng, budget_s=order.budget_s, failures=failures
        )
        self._next: ProfilingStep | None = next(self._steps)
        self._cells: list[MeasuredCell] = []
        self._missing: list[MissingCell] = []
        self.at_s = begun_s  # cluster time of the last completed step
        self.failed = ""  # reason why the run failed

    @property
    def is_over(self) -> bool:
        """Whether all steps are completed."""
        return self._next is None

    def until(self, now_s: float) -> ProfilingStep | None:
        """Advance to `now_s`; returns the last step completed since the previous call, if any."""
        last = None
        while self._next is not None and self._begun_s + self._next.at_s <= now_s:
            last, self._next = self._next, next(self._steps, None)
            self._cells += last.cells
            self._missing += last.missing
            self.at_s, self.failed = self._begun_s + last.at_s, last.failed
        return last

    def report(self) -> ProfilingReport:
        """Measured and missing cells so far."""
        seconds = self.at_s - self._begun_s
        return ProfilingReport(
            self._run, self.at_s, seconds, tuple(self._cells), tuple(self._missing)
        )
