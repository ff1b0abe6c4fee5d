"""How fast the default solver proves, and how close it comes where it does not.

    python -m benchmarks.solver [--only plain,real,large] [--seeds 3] [--limit 60]

plain: 1,024 containers, identical nodes, intensities 0 and 1, weights {1, 2, 3}³. real:
intensities of any size and two kinds of nodes. large: 6,000 containers on 3,000 nodes, both ways.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from apps.placement.core.examples import Draw, Mix, draw
from apps.placement.core.search import Search
from apps.placement.core.solver import solve
from benchmarks._calibration import calibrate, calibration_line

EVERY: Final = tuple(product((1.0, 2.0, 3.0), repeat=3))
SOME: Final = ((1.0, 1.0, 1.0), (3.0, 1.0, 2.0), (1.0, 3.0, 2.0), (0.22, 1.0, 0.36))
WARM_UP_S: Final = 120.0  # the first solve compiles


class Case(NamedTuple):
    """A line of the table."""

    name: str
    wanted: Draw
    weights: tuple[tuple[float, ...], ...]
    limit_s: float


class Run(NamedTuple):
    """One solve."""

    seconds: float
    gap: float
    is_optimal: bool


def cases(limit_s: float) -> Iterator[tuple[str, Case]]:
    """Yield every case with the part it belongs to."""
    yield "plain", Case("HPC 1,024", Draw(), EVERY, limit_s)
    yield "plain", Case("HPC 1,024 on 512 nodes", Draw(nodes=512), EVERY, limit_s)
    yield "plain", Case("Hadoop 1,024", Draw(mix=Mix.HADOOP, nodes_per_rack=40), EVERY, limit_s)
    mixed = Draw(has_real_intensities=True, kinds=2)
    hadoop = Draw(mix=Mix.HADOOP, nodes_per_rack=40, has_real_intensities=True, kinds=2)
    tight = Draw(nodes=512, has_real_intensities=True, kinds=2)
    yield "real", Case("HPC 1,024, real, 2 kinds", mixed, SOME, min(limit_s, 5.0))
    yield "real", Case("HPC 1,024 on 512, real, 2 kinds", tight, SOME, min(limit_s, 5.0))
    yield "real", Case("Hadoop 1,024, real, 2 kinds", hadoop, SOME, min(limit_s, 5.0))
    large = Draw(6000, nodes=3000)
    both = Draw(6000, nodes=3000, has_real_intensities=True, kinds=2)
    yield "large", Case("HPC 6,000 on 3,000", large, SOME, limit_s)
    yield "large", Case("HPC 6,000 on 3,000, real, 2 kinds", both, SOME, limit_s)


def runs(case: Case, seeds: int) -> Iterator[Run]:
    """Solve every instance of a case at every weight."""
    for seed in range(seeds):
        instance = draw(case.wanted, seed)
        for weights in case.weights:
            by_name = dict(zip("PDC", weights, strict=True))
            search = Search(instance, by_name, clock=time.perf_counter, limit_s=case.limit_s)
            found = solve(search)
            yield Run(found.seconds, found.gap, found.is_optimal)


def line(name: str, made: list[Run]) -> str:
    """Return one line of the table."""
    seconds = np.array([run.seconds for run in made])
    gaps = np.array([run.gap for run in made])
    proven = sum(run.is_optimal for run in made)
    middle, most, top = np.percentile(seconds, [50, 95, 100])
    return (
        f"{name:<34} {proven:>3} of {len(made):<3} proven optimal   "
        f"seconds p50 {middle:.4f} p95 {most:.3f} max {top:.2f}   "
        f"gap p50 {np.median(gaps):.5%} p95 {np.percentile(gaps, 95):.4%} max {gaps.max():.4%}\n"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Proofs and gaps of the default solver.")
    parser.add_argument("--only", default="plain,real,large")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=60.0)
    options = parser.parse_args()
    before = calibrate()
    warm = Draw(64, has_real_intensities=True)
    list(runs(Case("warm-up", warm, ((1.0, 1.0, 1.0),), WARM_UP_S), 1))
    for part, case in cases(options.limit):
        if part in options.only.split(","):
            sys.stdout.write(line(case.name, list(runs(case, options.seeds))))
            sys.stdout.flush()
    sys.stdout.write(calibration_line(before, calibrate()) + "\n")


if __name__ == "__main__":
    main()
