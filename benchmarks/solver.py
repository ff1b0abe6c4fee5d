"""Default solver: time to a proof of optimality, or the gap without proof.

    python -m benchmarks.solver [--only plain,real,slots,large] [--seeds 3] [--limit 60]

plain: 1,024 containers, identical nodes, intensities 0 and 1, weights {1, 2, 3}³. real:
arbitrary intensities and two kinds of nodes. slots: 500 containers on 300 nodes of 1, 2 or 4
slots. large: 6,000 containers on 3,000 nodes, both ways.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from apps.placement.core.problem.examples import InstanceSpec, JobMix, generate_instance
from apps.placement.core.solver.registry import solve
from apps.placement.core.solver.run import SolverRun
from benchmarks._calibration import calibrate, calibration_line

ALL_WEIGHTS: Final = tuple(product((1.0, 2.0, 3.0), repeat=3))
SOME_WEIGHTS: Final = ((1.0, 1.0, 1.0), (3.0, 1.0, 2.0), (1.0, 3.0, 2.0), (0.22, 1.0, 0.36))
WARM_UP_S: Final = 120.0  # the first solve compiles


class Benchmark(NamedTuple):
    """One line of the table: a kind of instance and the weights to solve it with."""

    name: str
    spec: InstanceSpec
    weights: tuple[tuple[float, ...], ...]
    limit_s: float


class SolveResult(NamedTuple):
    """Time, gap and proof of one solve."""

    seconds: float
    gap: float
    is_optimal: bool


def all_benchmarks(limit_s: float) -> Iterator[tuple[str, Benchmark]]:
    """Yield each benchmark with the part of the table it belongs to."""
    yield "plain", Benchmark("HPC 1,024", InstanceSpec(), ALL_WEIGHTS, limit_s)
    yield (
        "plain",
        Benchmark("HPC 1,024 on 512 nodes", InstanceSpec(nodes=512), ALL_WEIGHTS, limit_s),
    )
    yield (
        "plain",
        Benchmark(
            "Hadoop 1,024",
            InstanceSpec(mix=JobMix.HADOOP, nodes_per_rack=40),
            ALL_WEIGHTS,
            limit_s,
        ),
    )
    mixed = InstanceSpec(has_real_intensities=True, kinds=2)
    hadoop = InstanceSpec(mix=JobMix.HADOOP, nodes_per_rack=40, has_real_intensities=True, kinds=2)
    tight = InstanceSpec(nodes=512, has_real_intensities=True, kinds=2)
    yield "real", Benchmark("HPC 1,024, real, 2 kinds", mixed, SOME_WEIGHTS, min(limit_s, 5.0))
    yield (
        "real",
        Benchmark("HPC 1,024 on 512, real, 2 kinds", tight, SOME_WEIGHTS, min(limit_s, 5.0)),
    )
    yield "real", Benchmark("Hadoop 1,024, real, 2 kinds", hadoop, SOME_WEIGHTS, min(limit_s, 5.0))
    unequal = InstanceSpec(500, nodes=300, nodes_per_rack=40, slots=(1, 2, 4), largest=64)
    name = "HPC 500 on 300 of 1, 2, 4 slots"
    yield "slots", Benchmark(name, unequal, SOME_WEIGHTS, limit_s)
    both = replace(unequal, has_real_intensities=True)
    yield "slots", Benchmark("the same, real", both, SOME_WEIGHTS, limit_s)
    large = InstanceSpec(6000, nodes=3000)
    both = InstanceSpec(6000, nodes=3000, has_real_intensities=True, kinds=2)
    yield "large", Benchmark("HPC 6,000 on 3,000", large, SOME_WEIGHTS, limit_s)
    yield "large", Benchmark("HPC 6,000 on 3,000, real, 2 kinds", both, SOME_WEIGHTS, limit_s)


def solve_all(benchmark: Benchmark, seeds: int) -> Iterator[SolveResult]:
    """Solve every instance of a benchmark with every weight vector."""
    for seed in range(seeds):
        instance = generate_instance(benchmark.spec, seed)
        for weights in benchmark.weights:
            by_name = dict(zip("PDC", weights, strict=True))
            search = SolverRun(
                instance, by_name, clock=time.perf_counter, limit_s=benchmark.limit_s
            )
            solution = solve(search)
            yield SolveResult(solution.seconds, solution.gap, solution.is_optimal)


def _warm_up() -> None:
    """Compile the kernels: one restart uses them all, while restarts without end use the limit."""
    instance = generate_instance(InstanceSpec(64, has_real_intensities=True), 0)
    weights = {"P": 1.0, "D": 1.0, "C": 1.0}
    solve(SolverRun(instance, weights, clock=time.perf_counter, limit_s=WARM_UP_S, max_restarts=1))


def line(name: str, results: list[SolveResult]) -> str:
    """Return one line of the table."""
    seconds = np.array([result.seconds for result in results])
    gaps = np.array([result.gap for result in results])
    proven = sum(result.is_optimal for result in results)
    p50, p95, top = np.percentile(seconds, [50, 95, 100])
    return (
        f"{name:<34} {proven:>3} of {len(results):<3} proven optimal   "
        f"seconds p50 {p50:.4f} p95 {p95:.3f} max {top:.2f}   "
        f"gap p50 {np.median(gaps):.5%} p95 {np.percentile(gaps, 95):.4%} max {gaps.max():.4%}\n"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Solve times and gaps of the default solver.")
    parser.add_argument("--only", default="plain,real,slots,large")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=60.0)
    options = parser.parse_args()
    before = calibrate()
    _warm_up()
    for part, benchmark in all_benchmarks(options.limit):
        if part in options.only.split(","):
            sys.stdout.write(line(benchmark.name, list(solve_all(benchmark, options.seeds))))
            sys.stdout.flush()
    sys.stdout.write(calibration_line(before, calibrate()) + "\n")


if __name__ == "__main__":
    main()
