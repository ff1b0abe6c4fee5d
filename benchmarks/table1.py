"""Table 1 of ClavisMO, reproduced: the effect of each feature of its branch and bound.

    python -m benchmarks.table1 [--seconds 60] [--weights 10] [--long 3] [--containers 1024]

1,024 containers in jobs of up to 128, on 1,024 nodes. Rows 0-6 use weight vectors drawn from
1..10; row 7 (ten times the time limit) uses the first few of them. Time limits are in CPU seconds,
so a busy machine does not shorten a run. Sums are F + beta (never negative), divided by the best
of rows 0-6 for the same weights, and by the optimum that the default solver finds. Levels is the
share of the tree's levels that were searched exhaustively.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np

from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.problem.instance import Instance
from apps.placement.core.solver import branch_and_bound as tree
from apps.placement.core.solver import branching
from apps.placement.core.solver.registry import solve
from apps.placement.core.solver.run import SolverRun
from benchmarks._calibration import calibrate, calibration_line

Search = Callable[[SolverRun], tree.SearchFigures]
SEED: Final = 2015
WARM_UP_S: Final = 120.0


class TableRow(NamedTuple):
    """One row of the paper's table: its figures, and the search that reproduces it."""

    name: str
    sum: float
    levels: float | None
    search: Search


class SearchResult(NamedTuple):
    """F + beta of one run, and the figures of its search."""

    sum: float
    figures: tree.SearchFigures


def _with(
    *, is_custom: bool = True, bound: int = 0, is_fathoming: bool = False, share: float = 1.0
) -> Search:
    features = tree.Features(is_custom, bound, is_fathoming, share)
    return lambda run: tree.branch_and_bound(run, features)


NAIVE: Final = branching.NAIVE
ELABORATE: Final = branching.ELABORATE
PRUNED: Final = _with(bound=ELABORATE, is_fathoming=True, share=0.99)
ROWS: Final = (
    TableRow("0 random", 3.14, None, tree.try_random_placements),
    TableRow("1 generic", 5.18, 0.0, _with(is_custom=False)),
    TableRow("2 custom branching", 1.29, 0.01, _with()),
    TableRow("3 + naive bound", 1.29, 0.04, _with(bound=NAIVE)),
    TableRow("4 + elaborate bound", 1.23, 0.67, _with(bound=ELABORATE)),
    TableRow("5 + fathoming", 1.0, 0.93, _with(bound=ELABORATE, is_fathoming=True)),
    TableRow("6 + approximate, K = 99 %", 1.03, 0.96, PRUNED),
)
LONG: Final = TableRow("7 as 6, ten times as long", 0.99, 0.97, PRUNED)


def measure(
    instance: Instance, weights: Mapping[str, float], row: TableRow, seconds: float
) -> SearchResult:
    """Run the search of one row from scratch, with one weight vector."""
    run = SolverRun(instance, weights, clock=time.process_time, limit_s=seconds)
    figures = row.search(run)
    return SearchResult(run.value + weights["D"], figures)


def line(
    row: TableRow, results: list[SearchResult], best: list[float], optimum: list[float]
) -> str:
    """Return one line of the table: our figures and the paper's."""
    ratios = [result.sum / base for result, base in zip(results, best, strict=False)]
    above = [result.sum / base for result, base in zip(results, optimum, strict=False)]
    levels = np.mean([result.figures.levels for result in results])
    theirs = "   -" if row.levels is None else f"{row.levels:.2f}"
    return (
        f"{row.name:<28} {np.mean(ratios):5.2f}x (paper {row.sum:.2f}x)   "
        f"of the optimum {np.mean(above):5.2f}x   "
        f"evaluated {np.mean([result.figures.evaluated for result in results]):>10.0f}   "
        f"pruned {np.mean([result.figures.pruned for result in results]):.2f}   "
        f"levels {levels:.2f} (paper {theirs})\n"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Table 1 of ClavisMO, with our implementation.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument(
        "--weights", type=int, default=10, help="number of weight vectors for rows 0 to 6"
    )
    parser.add_argument("--long", type=int, default=3, help="number of weight vectors for row 7")
    parser.add_argument("--containers", type=int, default=1024)
    options = parser.parse_args()
    before = calibrate()
    small = generate_instance(InstanceSpec(4), SEED)  # ends at once; compiles the kernels
    for row in ROWS:
        limit_s = 1.0 if row.levels is None else WARM_UP_S
        measure(small, {"P": 1.0, "D": 1.0, "C": 1.0}, row, limit_s)
    instance = generate_instance(InstanceSpec(options.containers), SEED)
    rng = np.random.default_rng(SEED)
    drawn = rng.integers(1, 11, (options.weights, 3)).astype(float).tolist()
    vectors = [dict(zip("PDC", values, strict=True)) for values in drawn]
    results = {
        row.name: [measure(instance, weights, row, options.seconds) for weights in vectors]
        for row in ROWS
    }
    best = [min(by_vector[i].sum for by_vector in results.values()) for i in range(len(vectors))]
    optimum = [_optimum(instance, weights) for weights in vectors]
    for row in ROWS:
        sys.stdout.write(line(row, results[row.name], best, optimum))
    sys.stdout.flush()  # row 7 takes as long as all the others
    chosen = vectors[: options.long]
    longer = [measure(instance, weights, LONG, options.seconds * 10.0) for weights in chosen]
    if longer:
        sys.stdout.write(line(LONG, longer, best, optimum))
    sys.stdout.write(calibration_line(before, calibrate()) + "\n")


def _optimum(instance: Instance, weights: Mapping[str, float]) -> float:
    run = SolverRun(instance, weights, clock=time.process_time, limit_s=60.0)
    return solve(run).evaluation.F + weights["D"]


if __name__ == "__main__":
    main()
