"""Prediction errors as the library grows by applications that were profiled.

    ./dev bench growth [--seed 1] [--worlds 3] [--json]

Some of a hundred new applications on the emulated cluster are profiled with the plan of the
running system, and their measurements are added as rows of the matrices, as reclassification
does. The others are then profiled with the same plan and inferred from those matrices. Printed
for each matrix: mean error of the cells that were not measured, in percent, by the number of
applications added to the library's 28; then the share of these cells inside their 90 % intervals.
Scale-out counts only applications that may use several servers.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from apps.classification.core.inference import Library, infer_profile
from apps.classification.core.matrix import Cell, Matrix, MatrixName, from_cells
from apps.classification.core.ranking import ranking
from apps.emulation.core.seeds import generator
from apps.profiling.core.plan import SPREADS
from benchmarks._papers import live_entries
from benchmarks._world import CURVES, true_row, world

if TYPE_CHECKING:
    from apps.inventory.core.snapshot import Bools, Floats

TESTED: Final = 25  # applications that are never added
ADDED: Final = (0, 25, 75)
INTERFERENCE: Final = (MatrixName.TOLERATED, MatrixName.CAUSED)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.growth")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worlds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    results = {count: _errors(count, options.seed, options.worlds) for count in ADDED}
    if options.json:
        sys.stdout.write(json.dumps(results, indent=1) + "\n")
        return 0
    for name in CURVES:
        errors = "  ".join(f"{n} added: {results[n][name]['error']:5.2f}" for n in ADDED)
        inside = "  ".join(f"{n}: {results[n][name]['covered']:3.0f}" for n in ADDED)
        sys.stdout.write(f"{name:<14} error, %  {errors}   inside, %  {inside}\n")
    return 0


def _errors(count: int, seed: int, worlds: int) -> dict[str, dict[str, float]]:
    errors: dict[str, list[Floats]] = {name: [] for name in CURVES}
    inside: dict[str, list[Bools]] = {name: [] for name in CURVES}
    for draw in range(worlds):
        cluster = world(seed + draw)
        order = ranking(cluster.library, cluster.platforms)
        rng = generator(seed + draw, "growth")
        names = [list(cluster.new)[i] for i in rng.permutation(len(cluster.new))]
        cells = {app: live_entries(cluster, app, order, rng) for app in names}
        library = grown(cluster.library, {app: cells[app] for app in names[TESTED:][:count]})
        for app in names[:TESTED]:
            truth = cluster.new[app]
            profile = infer_profile(
                app, truth.kind, cells[app], library, platforms=cluster.platforms
            )
            for name, row in profile.estimates.items():
                if name not in CURVES:
                    continue
                if name is MatrixName.SCALE_OUT and truth.kind not in SPREADS:
                    continue
                true = true_row(name, truth)
                unit = 100.0 if name in INTERFERENCE else true
                errors[name].append((np.abs(row.value - true) / unit)[~row.measured])
                inside[name].append(((row.low <= true) & (true <= row.high))[~row.measured])
    return {
        name: {
            "error": 100.0 * float(np.concatenate(errors[name]).mean()),
            "covered": 100.0 * float(np.concatenate(inside[name]).mean()),
        }
        for name in CURVES
    }


def grown(library: Library, cells: dict[str, list[Cell]]) -> Library:
    """Return the library with rows for the measured cells of more applications."""
    matrices = {
        name: _with_rows(matrix, from_cells(name, matrix.columns, cells))
        for name, matrix in library.matrices.items()
    }
    return replace(library, matrices=matrices)


def _with_rows(matrix: Matrix, more: Matrix) -> Matrix:
    at = np.flatnonzero(more.known.any(axis=1)).tolist()
    rows = (*matrix.rows, *(more.rows[i] for i in at))
    return replace(matrix, rows=rows, values=np.vstack([matrix.values, more.values[at]]))


if __name__ == "__main__":
    sys.exit(main())
