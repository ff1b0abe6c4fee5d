"""Cost and accuracy of profiling, on applications with known true behaviour.

    python -m benchmarks.profiling [--applications 200] [--noise 0.005] [--json]

First, the sequential ramp (`profiling.core.ramp`), which stops once the threshold is known well
enough, against the earlier ramp of fixed steps: both scores of all ten sources of each
application, and curves of other shapes through the same thresholds. Then complete profiling runs,
by kind of application. Then the time of a tick of the emulator at 60x with many concurrent runs.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final
from uuid import UUID

import numpy as np

from apps.common.core.interference import SOURCES
from apps.emulation.core.draws import KINDS, application_truth
from apps.emulation.core.microbenchmarks import SAMPLE_S, single_source_performance
from apps.emulation.core.platforms import Catalogue, catalogue
from apps.emulation.core.probe import probe_steps
from apps.emulation.core.probe_runs import FAILURES, ProbeRun
from apps.emulation.core.seeds import generator
from apps.emulation.core.truth import PAPER_NOISE, Truth
from apps.execution.backends.emulated.port import ProfilingOrder
from apps.execution.backends.emulated.probing import ProfilingSession
from apps.inventory.core.demo import PLATFORMS, platform_counts
from apps.inventory.core.snapshot import Floats
from apps.profiling.core.measurements import ProfilingStep
from apps.profiling.core.plan import BUDGET_S, PlatformShape, plan
from apps.profiling.core.ramp import (
    HALF_WIDTH_90,
    QOS,
    RampFailure,
    RampResult,
    Sampler,
    find_threshold,
)
from benchmarks._calibration import calibrate, calibration_line

SEED: Final = 2011
SERVERS: Final = 100  # in the cluster whose platforms are used
STEP: Final = 5  # intensity points of the fixed ramp
AT_ONCE: Final = (1, 30, 100)
TICK_S: Final = 6.0  # cluster seconds of a tick of 100 ms at 60x

Ramp = Callable[[Sampler], RampResult | RampFailure]
Curve = Callable[[float, float], float]


def straight(x: float, threshold: float) -> float:
    """Fall by 5 % up to the threshold, and at twice the slope beyond it."""
    return 1.0 - 0.05 * x / threshold - 0.05 * max(x - threshold, 0.0) / threshold


def logistic(x: float, threshold: float) -> float:
    """Fall along a logistic curve, to a half about 24 points beyond the threshold."""
    return 1.0 / (1.0 + float(np.exp((x - threshold) / 8.0)) / 19.0)


def cliff(x: float, threshold: float) -> float:
    """Fall by 2 % up to the threshold, and drop to 80 % there."""
    return 1.0 - 0.02 * x / threshold if x < threshold else 0.8


# Lower thresholds are skipped: any curve through them is almost a cliff.
MIN_THRESHOLD: Final = 5.0
CURVES: Final[dict[str, Curve]] = {
    "emulated": single_source_performance,
    "straight": straight,
    "logistic": logistic,
    "cliff": cliff,
}


def fixed_ramp(sample: Sampler) -> RampResult:
    """Increase the intensity in steps of five points; interpolate where 95 % is crossed.

    The threshold is 100 if 95 % is never crossed. The standard error is the documented noise over
    the slope. This is the earlier ramp of the emulated probe.
    """
    levels = np.arange(0, 101, STEP)
    measured = np.array([1.0, *(sample(int(level), 1)[0] for level in levels[1:])])
    below = np.flatnonzero(measured < QOS)
    if len(below) == 0:
        return RampResult(100.0, STEP / 2.0, len(levels))
    last, first = below[0] - 1, below[0]
    slope = (measured[last] - measured[first]) / STEP
    at = float(levels[last] + (measured[last] - QOS) / slope)
    return RampResult(at, PAPER_NOISE.ramp / float(slope), len(levels))


@dataclass(frozen=True, slots=True)
class RampFigures:
    """Cost and accuracy of a ramp: cluster seconds, errors in points, shares 0-1, CPU in µs."""

    ramp: str
    curve: str
    seconds: float
    rms_error: float
    bias: float
    p90_error: float
    covered: float
    missing: float
    cpu_us: float


@dataclass(frozen=True, slots=True)
class KindFigures:
    """Means over complete runs of one kind: cluster seconds, errors in points, CPU in ms."""

    kind: str
    budget_s: float
    seconds: float
    max_seconds: float
    sources: float
    cells: float
    missing: float
    failed: float
    score_error: float
    cpu_ms: float


@dataclass(frozen=True, slots=True)
class TickFigures:
    """Tick times, in ms, from the start of ``at_once`` profiling runs until all have ended."""

    at_once: int
    ticks: int
    mean_ms: float
    worst_ms: float


def applications(count: int, platforms: Catalogue) -> list[Truth]:
    """Draw applications of all kinds in turn."""
    kinds = [KINDS[i % len(KINDS)] for i in range(count)]
    return [
        application_truth(SEED, f"profiled-{i}", kind, platforms) for i, kind in enumerate(kinds)
    ]


def compare(name: str, ramp: Ramp, curve: str, truths: list[Truth], noise: float) -> RampFigures:
    """Measure every score of every application with a ramp, on one kind of curve."""
    rng = np.random.default_rng(SEED)
    all_scores = [float(s) for t in truths for s in (*t.tolerated, *(100.0 - t.caused))]
    lowest = 0.0 if curve == "emulated" else MIN_THRESHOLD
    scores = [score for score in all_scores if score >= lowest]
    began = time.perf_counter()
    measured = [ramp(_sampler(CURVES[curve], score, noise, rng)) for score in scores]
    cpu_us = (time.perf_counter() - began) * 1e6 / len(scores)
    known = [(f, s) for f, s in zip(measured, scores, strict=True) if isinstance(f, RampResult)]
    errors = np.array([f.value - s for f, s in known])
    widths = HALF_WIDTH_90 * np.array([f.standard_error for f, _ in known])
    return RampFigures(
        ramp=name,
        curve=curve,
        seconds=SAMPLE_S * float(np.mean([f.samples for f in measured])),
        rms_error=float(np.sqrt(np.mean(errors**2))),
        bias=float(errors.mean()),
        p90_error=float(np.quantile(np.abs(errors), 0.9)),
        covered=float(np.mean(np.abs(errors) <= widths)),
        missing=1.0 - len(known) / len(measured),
        cpu_us=cpu_us,
    )


def _sampler(curve: Curve, threshold: float, noise: float, rng: np.random.Generator) -> Sampler:
    def sample(intensity: int, n: int) -> Floats:
        return curve(float(intensity), threshold) + rng.normal(0.0, noise, n)

    return sample


def orders(truths: list[Truth]) -> list[ProfilingOrder]:
    """Return the profiling orders that the control plane would send."""
    counts = platform_counts(SERVERS)
    shapes = [PlatformShape(p.name, n, p.cores) for p, n in zip(PLATFORMS, counts, strict=True)]
    return [_order(i, truth, shapes) for i, truth in enumerate(truths)]


def _order(number: int, truth: Truth, shapes: list[PlatformShape]) -> ProfilingOrder:
    probe_plan: dict[str, Any] = plan(truth.kind, shapes, generator(SEED, "plan", truth.name))
    runs = tuple(ProbeRun.of(run) for run in probe_plan["runs"])
    return ProfilingOrder(
        UUID(int=number), truth.name, truth.kind, runs, number, probe_plan["budget_s"]
    )


def whole_runs(kind: str, truths: list[Truth]) -> KindFigures:
    """Run complete profiling for all applications of a kind."""
    selected = [(o, t) for o, t in zip(orders(truths), truths, strict=True) if t.kind == kind]
    began = time.perf_counter()
    runs = [
        list(
            probe_steps(
                truth, order.runs, generator(SEED, "run", order.application),
                budget_s=order.budget_s, failures=FAILURES,
            )
        )
        for order, truth in selected
    ]  # fmt: skip
    cpu_ms = (time.perf_counter() - began) * 1e3 / len(selected)
    completed = [
        (steps, t) for steps, (_, t) in zip(runs, selected, strict=True) if not steps[-1].failed
    ]
    ends = [steps[-1].at_s for steps, _ in completed]
    errors = [error for steps, truth in completed for error in _score_errors(steps, truth)]
    return KindFigures(
        kind=kind,
        budget_s=BUDGET_S[kind],
        seconds=float(np.mean(ends)),
        max_seconds=max(ends),
        sources=float(np.mean([_tolerated(steps) for steps, _ in completed])),
        cells=float(np.mean([sum(len(step.cells) for step in steps) for steps, _ in completed])),
        missing=float(
            np.mean([sum(len(step.missing) for step in steps) for steps, _ in completed])
        ),
        failed=1.0 - len(completed) / len(selected),
        score_error=float(np.mean(np.abs(errors))),
        cpu_ms=cpu_ms,
    )


def _tolerated(steps: list[ProfilingStep]) -> int:
    return sum(cell.matrix == "tolerated" for step in steps for cell in step.cells)


def _score_errors(steps: list[ProfilingStep], truth: Truth) -> Iterator[float]:
    for step in steps:
        for cell in step.cells:
            if cell.matrix in {"tolerated", "caused"}:
                yield cell.value - getattr(truth, cell.matrix)[SOURCES.index(cell.column)]


def at_once(count: int, truths: list[Truth]) -> TickFigures:
    """Start many runs in one tick, and tick until all have ended."""
    orders_now = orders(truths)[:count]
    spans: list[float] = []
    live: list[ProfilingSession] = []
    now_s = 0.0
    while not spans or live:
        began = time.perf_counter()
        if not spans:
            live = [
                ProfilingSession(
                    order, truth, generator(SEED, "run", order.application),
                    begun_s=0.0, failures=0.0,
                )
                for order, truth in zip(orders_now, truths, strict=False)
            ]  # fmt: skip
        for probing_run in live:
            probing_run.until(now_s)
        live = [probing_run for probing_run in live if not probing_run.is_over]
        spans.append((time.perf_counter() - began) * 1e3)
        now_s += TICK_S
    return TickFigures(count, len(spans), float(np.mean(spans)), max(spans))


def main() -> int:
    """Print the three tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--applications", type=int, default=200)
    parser.add_argument(
        "--noise",
        type=float,
        default=PAPER_NOISE.ramp,
        help="standard deviation of one sample of a ramp",
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    before = calibrate()
    truths = applications(options.applications, catalogue([p.name for p in PLATFORMS], seed=SEED))
    ramps = [
        compare(name, ramp, curve, truths, options.noise)
        for curve in CURVES
        for name, ramp in (("fixed steps", fixed_ramp), ("sequential", find_threshold))
    ]
    kinds = [whole_runs(kind, truths) for kind in BUDGET_S]
    ticks = [at_once(count, truths) for count in AT_ONCE if count <= len(truths)]
    after = calibrate()
    if options.json:
        body = {
            "ramps": [asdict(row) for row in ramps],
            "kinds": [asdict(row) for row in kinds],
            "ticks": [asdict(row) for row in ticks],
            "calibration_ms": [before, after],
        }
        json.dump(body, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return 0
    for lines in (_ramp_lines(ramps), _kind_lines(kinds), _tick_lines(ticks)):
        sys.stdout.write("\n".join(lines) + "\n\n")
    sys.stdout.write(calibration_line(before, after) + "\n")
    return 0


def _ramp_lines(rows: Sequence[RampFigures]) -> Iterator[str]:
    yield "curve     ramp         seconds  rms error   bias    p90  in 90 % range  missing   CPU"
    for row in rows:
        yield (
            f"{row.curve:9} {row.ramp:12} {row.seconds:7.1f} {row.rms_error:10.2f} "
            f"{row.bias:6.2f} {row.p90_error:6.2f} {row.covered:13.1%} {row.missing:9.2%} "
            f"{row.cpu_us:4.0f} µs"
        )


def _kind_lines(rows: Sequence[KindFigures]) -> Iterator[str]:
    yield "kind              budget  seconds   max  sources  cells  missing  failed  error   CPU"
    for row in rows:
        yield (
            f"{row.kind:17} {row.budget_s:5.0f} s {row.seconds:8.1f} {row.max_seconds:5.0f} "
            f"{row.sources:8.1f} {row.cells:6.1f} {row.missing:8.2f} {row.failed:7.1%} "
            f"{row.score_error:6.2f} {row.cpu_ms:5.1f} ms"
        )


def _tick_lines(rows: Sequence[TickFigures]) -> Iterator[str]:
    yield f"      at once  ticks of {TICK_S:.0f} cluster s   mean   worst"
    for row in rows:
        yield f"{row.at_once:13} {row.ticks:22} {row.mean_ms:6.1f} {row.worst_ms:7.1f} ms"


if __name__ == "__main__":
    raise SystemExit(main())
