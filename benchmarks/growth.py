"""Whether the system knows applications better the more of them it has profiled.

    ./dev bench growth [--seed 1] [--worlds 3] [--json]

Of a hundred new applications on the emulated cluster, a share is profiled by the plan of the
running system, and what was measured becomes rows of the matrices, as reclassification does. The
others are then profiled by the same plan and completed from those matrices. Printed for each
matrix: average error of the cells that were not measured, percent, with so many applications
learnt beside the library's 28; then the share of these cells inside their 90 % intervals.
Scale-out is that of applications that may spread.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from apps.classification.core.assemble import Library, assemble
from apps.classification.core.matrix import Cell, Matrix, MatrixName, from_cells
from apps.classification.core.profile import Profile
from apps.classification.core.ranking import ranking
from apps.emulation.core.seeds import generator
from apps.inventory.core.snapshot import Bools, Floats
from apps.profiling.core.plan import SPREADS
from benchmarks._papers import live_entries
from benchmarks._world import CURVES, true_row, world

TESTED: Final = 25  # applications that are never learnt
LEARNT: Final = (0, 25, 75)
INTERFERENCE: Final = (MatrixName.TOLERATED, MatrixName.CAUSED)

Estimate = tuple[Floats, Floats, Floats, Bools]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.growth")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worlds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    found = {count: _measured(count, options.seed, options.worlds) for count in LEARNT}
    if options.json:
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
        return 0
    for name in CURVES:
        errors = "  ".join(f"{n} learnt: {found[n][name]['error']:5.2f}" for n in LEARNT)
        inside = "  ".join(f"{n}: {found[n][name]['covered']:3.0f}" for n in LEARNT)
        sys.stdout.write(f"{name:<14} error, %  {errors}   inside, %  {inside}\n")
    return 0


def _measured(count: int, seed: int, worlds: int) -> dict[str, dict[str, float]]:
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
            profile = assemble(app, truth.kind, cells[app], library, platforms=cluster.platforms)
            for name, (value, low, high, is_measured) in _estimates(profile).items():
                if name is MatrixName.SCALE_OUT and truth.kind not in SPREADS:
                    continue
                true = true_row(name, truth)
                unit = 100.0 if name in INTERFERENCE else true
                errors[name].append((np.abs(value - true) / unit)[~is_measured])
                inside[name].append(((low <= true) & (true <= high))[~is_measured])
    return {
        name: {
            "error": 100.0 * float(np.concatenate(errors[name]).mean()),
            "covered": 100.0 * float(np.concatenate(inside[name]).mean()),
        }
        for name in CURVES
    }


def grown(library: Library, cells: dict[str, list[Cell]]) -> Library:
    """Return the library with rows of what was measured of other applications."""
    matrices = {
        name: _with_rows(matrix, from_cells(name, matrix.columns, cells))
        for name, matrix in library.matrices.items()
    }
    return replace(library, matrices=matrices)


def _with_rows(matrix: Matrix, more: Matrix) -> Matrix:
    at = np.flatnonzero(more.known.any(axis=1)).tolist()
    rows = (*matrix.rows, *(more.rows[i] for i in at))
    return replace(matrix, rows=rows, values=np.vstack([matrix.values, more.values[at]]))


def _estimates(profile: Profile) -> dict[MatrixName, Estimate]:
    return {
        MatrixName.HETEROGENEITY: (
            profile.platform_speed,
            profile.platform_low,
            profile.platform_high,
            profile.platform_measured,
        ),
        MatrixName.SCALE_UP: (
            profile.scale_up,
            profile.scale_up_low,
            profile.scale_up_high,
            profile.scale_up_measured,
        ),
        MatrixName.SCALE_OUT: (
            profile.scale_out,
            profile.scale_out_low,
            profile.scale_out_high,
            profile.scale_out_measured,
        ),
        MatrixName.TOLERATED: (
            profile.tolerated,
            profile.tolerated_low,
            profile.tolerated_high,
            profile.tolerated_measured,
        ),
        MatrixName.CAUSED: (
            profile.caused,
            profile.caused_low,
            profile.caused_high,
            profile.caused_measured,
        ),
    }


if __name__ == "__main__":
    sys.exit(main())
