"""Table 1 of ClavisMO again: what each feature of its branch and bound is worth.

    python -m benchmarks.table1 [--seconds 60] [--weights 10] [--long 3] [--containers 1024]

1,024 containers of jobs of up to 128 on as many nodes, rows 0-6 on weight vectors drawn from
1..10, row 7 (ten times as long) on the first of them. Seconds are of processor time, which a busy
machine does not cut short. Sums are F + beta, which is never negative,
over the best of rows 0-6 for the same weights; beside them the optimum by the default solver.
Levels are the tree's levels whose branches were all tried, as a share.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np

from apps.placement.core import branch_and_bound as tree
from apps.placement.core import branching
from apps.placement.core.examples import Draw, draw
from apps.placement.core.instance import Instance
from apps.placement.core.search import Search
from apps.placement.core.solver import solve
from benchmarks._calibration import calibrate, calibration_line

Run = Callable[[Search], tree.Figures]
SEED: Final = 2015
WARM_UP_S: Final = 120.0


class Row(NamedTuple):
    """A line of the paper's table: its figures, and what we run."""

    name: str
    sum: float
    levels: float | None
    run: Run


class Measured(NamedTuple):
    """One run: F + beta, tree nodes or placements, shares of branches pruned and levels done."""

    sum: float
    figures: tree.Figures


def _with(
    *, is_custom: bool = True, bound: int = 0, is_fathoming: bool = False, share: float = 1.0
) -> Run:
    features = tree.Features(is_custom, bound, is_fathoming, share)
    return lambda search: tree.branch_and_bound(search, features)


NAIVE: Final = branching.NAIVE
ELABORATE: Final = branching.ELABORATE
PRUNED: Final = _with(bound=ELABORATE, is_fathoming=True, share=0.99)
ROWS: Final = (
    Row("0 random", 3.14, None, tree.at_random),
    Row("1 generic", 5.18, 0.0, _with(is_custom=False)),
    Row("2 custom branching", 1.29, 0.01, _with()),
    Row("3 + naive bound", 1.29, 0.04, _with(bound=NAIVE)),
    Row("4 + elaborate bound", 1.23, 0.67, _with(bound=ELABORATE)),
    Row("5 + fathoming", 1.0, 0.93, _with(bound=ELABORATE, is_fathoming=True)),
    Row("6 + approximate, K = 99 %", 1.03, 0.96, PRUNED),
)
LONG: Final = Row("7 as 6, ten times as long", 0.99, 0.97, PRUNED)


def measure(
    instance: Instance, weights: Mapping[str, float], row: Row, seconds: float
) -> Measured:
    """Run one row from nothing, on one weight vector."""
    search = Search(instance, weights, clock=time.process_time, limit_s=seconds)
    figures = row.run(search)
    return Measured(search.value + weights["D"], figures)


def line(row: Row, made: list[Measured], best: list[float], optimum: list[float]) -> str:
    """Return one line of the table, ours beside the paper's."""
    ratios = [run.sum / least for run, least in zip(made, best, strict=False)]
    above = [run.sum / least for run, least in zip(made, optimum, strict=False)]
    levels = np.mean([run.figures.levels for run in made])
    theirs = "   -" if row.levels is None else f"{row.levels:.2f}"
    return (
        f"{row.name:<28} {np.mean(ratios):5.2f}x (paper {row.sum:.2f}x)   "
        f"of the optimum {np.mean(above):5.2f}x   "
        f"evaluated {np.mean([run.figures.evaluated for run in made]):>10.0f}   "
        f"pruned {np.mean([run.figures.pruned for run in made]):.2f}   "
        f"levels {levels:.2f} (paper {theirs})\n"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Table 1 of ClavisMO, with our implementation.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--weights", type=int, default=10, help="vectors for rows 0 to 6")
    parser.add_argument("--long", type=int, default=3, help="vectors for row 7")
    parser.add_argument("--containers", type=int, default=1024)
    options = parser.parse_args()
    before = calibrate()
    small = draw(Draw(4), SEED)  # whose tree ends at once: this compiles
    for row in ROWS:
        limit_s = 1.0 if row.levels is None else WARM_UP_S
        measure(small, {"P": 1.0, "D": 1.0, "C": 1.0}, row, limit_s)
    instance = draw(Draw(options.containers), SEED)
    rng = np.random.default_rng(SEED)
    drawn = rng.integers(1, 11, (options.weights, 3)).astype(float).tolist()
    vectors = [dict(zip("PDC", each, strict=True)) for each in drawn]
    made = {
        row.name: [measure(instance, weights, row, options.seconds) for weights in vectors]
        for row in ROWS
    }
    best = [min(runs[i].sum for runs in made.values()) for i in range(len(vectors))]
    optimum = [_optimum(instance, weights) for weights in vectors]
    for row in ROWS:
        sys.stdout.write(line(row, made[row.name], best, optimum))
    sys.stdout.flush()  # what follows takes as long again
    chosen = vectors[: options.long]
    longer = [measure(instance, weights, LONG, options.seconds * 10.0) for weights in chosen]
    if longer:
        sys.stdout.write(line(LONG, longer, best, optimum))
    sys.stdout.write(calibration_line(before, calibrate()) + "\n")


def _optimum(instance: Instance, weights: Mapping[str, float]) -> float:
    search = Search(instance, weights, clock=time.process_time, limit_s=60.0)
    return solve(search).evaluation.F + weights["D"]


if __name__ == "__main__":
    main()
