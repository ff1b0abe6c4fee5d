"""Profiling runs on emulated servers: all copies of one application at once.

Source: Paragon §2.3, P3 (microbenchmarks), Quasar §3.2-3.4 (which runs). `profiling.core`
controls the ramps, as on real servers.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Final

import numpy as np

from apps.common.core.interference import SOURCES
from apps.emulation.core.microbenchmarks import MeasuredSource, Ramps
from apps.emulation.core.probe_runs import (
    SAMPLES,
    CompletedRun,
    MeasuredRate,
    ProbeRun,
    complete_runs,
)
from apps.emulation.core.truth import Truth
from apps.profiling.core.measurements import MeasuredCell, MissingCell, ProfilingStep
from apps.profiling.core.ramp import ProbeFailedError
from apps.workloads.core.framework import DEFAULT_SETTING, LABELS

SIZES: Final = (1, 2, 4, 8, 16, 32)  # columns of the scale-up matrix
SERVERS: Final = (*SIZES, 64, 100)  # columns of the scale-out matrix
DIED: Final = "its copy died during set-up"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The measured and missing cells of a set of runs, and their duration in cluster seconds."""

    cells: tuple[MeasuredCell, ...]
    missing: tuple[MissingCell, ...]
    duration_s: float


def probe(
    truth: Truth,
    runs: Sequence[ProbeRun],
    rng: np.random.Generator,
    *,
    budget_s: float | None = None,
    failures: float = 0.0,
) -> ProbeResult:
    """Run a plan to its end; parameters as in `probe_steps`.

    Raises
    ------
    ProbeFailedError : the reference run died.
    ValueError : as `probe_steps`.
    """
    steps = list(probe_steps(truth, runs, rng, budget_s=budget_s, failures=failures))
    if steps[-1].failed:
        raise ProbeFailedError(steps[-1].failed)
    return ProbeResult(
        tuple(cell for step in steps for cell in step.cells),
        tuple(cell for step in steps for cell in step.missing),
        steps[-1].at_s,
    )


def probe_steps(
    truth: Truth,
    runs: Sequence[ProbeRun],
    rng: np.random.Generator,
    *,
    budget_s: float | None = None,
    failures: float = 0.0,
) -> Iterator[ProfilingStep]:
    """Run a plan, all copies at once; each ramp is computed when its step is consumed.

    Parameters
    ----------
    runs : must include the reference run, one unit of the highest-end platform; a run on another
        platform or on several servers is compared to the run of as many units on one server of
        the highest-end platform
    budget_s : cluster seconds within which another source is started (`fits_another_source`);
        None = all planned sources and no spare ones
    failures : share of copies, and of ramps, that die

    Raises
    ------
    ValueError : a run to compare to is missing, or a platform or source is unknown.
    """
    best = truth.catalogue.names[truth.catalogue.reference]
    bases = (i for i, run in enumerate(runs) if run.shape == (best, 1, 1) and not run.setting)
    base = next(bases, None)
    if base is None:
        raise ValueError(f"a plan needs a run of one unit on {best}, got {list(runs)}")
    unknown = {*runs[base].sources, *runs[base].spare} - set(SOURCES)
    if unknown:
        raise ValueError(f"unknown sources {', '.join(sorted(unknown))}")
    plan = _CompletedPlan(truth, best, complete_runs(truth, runs, failures, rng), base)
    for run in runs:
        if plan.counterpart(run) is None:
            raise ValueError(f"no run of {run.units} units on {best} to compare {run} to")
    return _steps(plan, Ramps(truth, rng, failures, budget_s))


def exhaustive(
    truth: Truth, rng: np.random.Generator, *, failures: float = 0.0
) -> tuple[MeasuredCell, ...]:
    """Measure every column of every matrix with the same noise: the offline library (P1, Q2).

    Cells whose probe failed or did not converge are left out.

    Raises
    ------
    ProbeFailedError : the reference run died.
    """
    best = truth.catalogue.names[truth.catalogue.reference]
    runs = [ProbeRun(best, 1, 1, SOURCES)]
    runs += [ProbeRun(best, 1, units) for units in SIZES[1:]]
    runs += [ProbeRun(best, servers, 1) for servers in SERVERS[1:]]
    if truth.framework is not None:
        runs += [ProbeRun(best, 1, 1, setting=label) for label in LABELS[1:]]
    runs += [ProbeRun(name, 1, 1) for name in truth.catalogue.names if name != best]
    return probe(truth, runs, rng, failures=failures).cells


@dataclass(frozen=True, slots=True)
class _CompletedPlan:
    """The runs of one application; the reference run is at index `base`."""

    truth: Truth
    best: str
    runs: Sequence[CompletedRun]
    base: int

    def counterpart(self, run: ProbeRun) -> CompletedRun | None:
        """Run with as many units on one server of the highest-end platform, if any."""
        shape = (self.best, 1, run.units)
        default = (x for x in self.runs if not x.run.setting)
        return next((x for x in default if x.run.shape == shape), None)


@dataclass(frozen=True, slots=True)
class _MeasuredRun:
    """The cells of one run, known at `at_s`."""

    at_s: float
    message: str
    cells: tuple[MeasuredCell, ...] = ()
    missing: tuple[MissingCell, ...] = ()

    def __str__(self) -> str:
        return self.message


def _steps(plan: _CompletedPlan, ramps: Ramps) -> Iterator[ProfilingStep]:
    base = plan.runs[plan.base]
    sources = len(base.run.sources)
    if base.rate is None:
        reason = f"{base.run}: {DIED}"
        yield ProfilingStep(base.at_s, 1, len(plan.runs) + sources, reason, failed=reason)
        return
    runs: Iterable[_MeasuredRun | MeasuredSource] = sorted(
        (_measured(plan, run, base) for run in plan.runs), key=lambda run: run.at_s
    )
    parts = merge(runs, ramps.sources(base.run, base.at_s), key=lambda part: part.at_s)
    for done, part in enumerate(parts, start=1):
        if isinstance(part, MeasuredSource):
            sources = part.sources
        total = len(plan.runs) + sources
        yield ProfilingStep(part.at_s, done, total, str(part), part.cells, part.missing)


def _measured(plan: _CompletedPlan, completed: CompletedRun, base: CompletedRun) -> _MeasuredRun:
    """Cell that a run measures; the reference run has all cells that are 1 by definition."""
    if completed is base and base.rate:
        return _MeasuredRun(completed.at_s, str(completed.run), _base_cells(plan, base.rate))
    matrix, column, divisor = _cell(plan, completed.run)
    other = base if matrix == "scale_up" else plan.counterpart(completed.run)
    if completed.rate is None or other is None or other.rate is None:
        reason = DIED if completed.rate is None else "the run to compare it to died"
        missing = (MissingCell(matrix, column, reason),)
        return _MeasuredRun(completed.at_s, f"{completed.run}: {reason}", missing=missing)
    value, error = completed.rate.over(other.rate)
    cell = MeasuredCell(matrix, column, value / divisor, error / divisor, SAMPLES)
    at_s = max(completed.at_s, other.at_s)
    return _MeasuredRun(at_s, f"{completed.run}: {matrix} {cell.value:.2f}", (cell,))


def _cell(plan: _CompletedPlan, run: ProbeRun) -> tuple[str, str, int]:
    """Matrix and column of a run, and the divisor of its rate."""
    if run.setting:
        return "framework", run.setting, 1
    if run.servers > 1:
        return "scale_out", str(run.servers), run.servers
    if run.platform == plan.best:
        return "scale_up", str(run.units), 1
    return "heterogeneity", run.platform, 1


def _base_cells(plan: _CompletedPlan, rate: MeasuredRate) -> tuple[MeasuredCell, ...]:
    truth = plan.truth
    scales = (("metric", truth.metric_per_s), ("bytes", truth.bytes_per_s))
    references = [("scale_up", "1"), ("scale_out", "1"), ("heterogeneity", plan.best)]
    if truth.framework is not None:
        references.append(("framework", DEFAULT_SETTING.label))
    rates = [
        MeasuredCell("base_rate", column, rate.value * scale, rate.error * scale, SAMPLES)
        for column, scale in scales
    ]
    return (
        *rates,
        *(MeasuredCell(matrix, column, 1.0, 0.0, SAMPLES) for matrix, column in references),
    )
