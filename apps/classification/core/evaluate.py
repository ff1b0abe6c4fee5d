"""Accuracy of the estimates of a matrix: hide known cells, infer them, and compare.

Source: Paragon §2.2 and Quasar §3.2 validate by hiding; the calibration curve is ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from apps.classification.core.estimates import HALF_WIDTH_90, Estimates
from apps.classification.core.estimators import Estimator
from apps.classification.core.inference import Library, column_slices, pool_rows
from apps.classification.core.matrix import Matrix, MatrixName, Scale
from apps.inventory.core.snapshot import Bools, Floats

FOLDS: Final = 5
ENTRIES: Final = 2  # known cells left in a held-out row, as in the papers
LEVELS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
MIN_ROWS: Final = 4


@dataclass(frozen=True, slots=True)
class HeldOutErrors:
    """Errors of hidden cells.

    Attributes
    ----------
    rows, cells : number of held-out rows and of hidden cells
    average, p50, p90, largest : over rows, of the mean error of a row's hidden cells: relative on
        the log scale, points / 100 for scores
    covered : share of the hidden cells inside their 90 % intervals
    calibration : for each of `LEVELS`, the share of the hidden cells inside the interval of that
        level; intervals of other levels are those of a normal distribution (in comparison space)
    """

    rows: int
    cells: int
    average: float
    p50: float
    p90: float
    largest: float
    covered: float
    calibration: tuple[float, ...]

    @property
    def json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "entries": ENTRIES,
            "rows": self.rows,
            "cells": self.cells,
            "average": self.average,
            "p50": self.p50,
            "p90": self.p90,
            "largest": self.largest,
            "covered": self.covered,
            "levels": list(LEVELS),
            "calibration": list(self.calibration),
        }


def evaluate(
    library: Library,
    pool: Sequence[MatrixName],
    estimator: Estimator,
    *,
    platforms: tuple[str, ...],
    seed: int = 0,
    entries: int = ENTRIES,
) -> dict[MatrixName, HeldOutErrors]:
    """Cross-validate in five folds: hide all but ``entries`` cells of each row and infer them.

    Rows are applications, so no application is predicted from its own cells. The matrices of a
    pool are hidden together, each except ``entries`` cells. Matrices with too few rows or columns
    are omitted.

    Parameters
    ----------
    pool : of `inference.POOLS`; each matrix with a known cell

    Cost: five fits, and one fold-in of every row.
    """
    rows = pool_rows(library, pool, platforms)
    parts = column_slices(library, pool, platforms)
    scored = {name: _Scores() for name, part in parts.items() if _width(part) > entries}
    if len(rows) < MIN_ROWS or not scored:
        return {}
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows))
    for fold in range(min(FOLDS, len(rows))):
        out = order[fold::FOLDS]
        rest, truth = np.delete(rows, out, axis=0), rows[out]
        if np.isnan(rest).all(axis=0).any():
            continue
        known = ~np.isnan(truth)
        shown = np.hstack([_shown(known[:, part], entries, rng) for part in parts.values()])
        estimates = estimator.fit(rest, scale=pool[0].scale, seed=seed).fold(
            np.where(shown, truth, 1.0), shown
        )
        for name, scores in scored.items():
            part = parts[name]
            hidden = known[:, part] & ~shown[:, part]
            scores.add(estimates.part(part), truth[:, part], hidden, name.scale)
    return {name: scores.summed() for name, scores in scored.items() if scores.errors}


def _width(part: slice) -> int:
    return int(part.stop - part.start)


@dataclass(slots=True)
class _Scores:
    """Errors and distances of one matrix, collected over the folds."""

    errors: list[float] = field(default_factory=list)
    distances: list[Floats] = field(default_factory=list)

    def add(self, estimates: Estimates, truth: Floats, hidden: Bools, scale: Scale) -> None:
        """Add the hidden cells of some rows."""
        self.errors += _errors(estimates.value, truth, hidden, scale)
        self.distances.append(_distances(estimates.low, estimates.high, truth, scale)[hidden])

    def summed(self) -> HeldOutErrors:
        """Summarise all folds."""
        return _summed(np.array(self.errors), np.concatenate(self.distances))


def _shown(known: Bools, entries: int, rng: np.random.Generator) -> Bools:
    """(q, m) True for the random cells of each row that stay known."""
    turn = np.where(known, rng.random(known.shape), 2.0)
    rank = np.argsort(np.argsort(turn, axis=1), axis=1)
    return known & (rank < entries)


def _errors(value: Floats, truth: Floats, hidden: Bools, scale: Scale) -> list[float]:
    """Mean error of the hidden cells, for each row with hidden cells."""
    unit = np.abs(truth) if scale is Scale.LOG else np.full(truth.shape, 100.0)
    with np.errstate(invalid="ignore"):
        error = np.where(hidden, np.abs(value - truth) / unit, 0.0)
    count = hidden.sum(axis=1)
    return [float(e) for e in error.sum(axis=1)[count > 0] / count[count > 0]]


def _distances(low: Floats, high: Floats, truth: Floats, scale: Scale) -> Floats:
    """Distance of the truth from the middle of its 90 % interval, in standard deviations."""
    ends = (low, high, truth)
    if scale is Scale.LOG:
        with np.errstate(invalid="ignore"):
            ends = (np.log(low), np.log(high), np.log(truth))
    below, above, at = ends
    half = np.maximum((above - below) / 2.0, 1e-12)
    offset: Floats = np.abs(at - (above + below) / 2.0) / half * HALF_WIDTH_90
    return offset


def _summed(errors: Floats, distances: Floats) -> HeldOutErrors:
    return HeldOutErrors(
        rows=errors.size,
        cells=distances.size,
        average=float(errors.mean()),
        p50=float(np.quantile(errors, 0.5)),
        p90=float(np.quantile(errors, 0.9)),
        largest=float(errors.max()),
        covered=float((distances <= HALF_WIDTH_90 * (1.0 + 1e-9)).mean()),
        calibration=tuple(float((distances <= quantile).mean()) for quantile in _QUANTILES),
    )


# two-sided normal quantiles of LEVELS
_QUANTILES: Final = tuple(NormalDist().inv_cdf(0.5 + level / 2.0) for level in LEVELS)


def singular_values(matrix: Matrix) -> tuple[float, ...]:
    """Singular values of the fully known rows around their column means, in comparison space.

    Each is the strength of one similarity concept (Paragon §2.1, P2); empty with fewer than
    two such rows.
    """
    rows = matrix.values[matrix.known.all(axis=1)]
    if len(rows) < 2:
        return ()
    z = np.log(rows) if matrix.name.scale is Scale.LOG else rows
    strengths = np.linalg.svd(z - z.mean(axis=0), compute_uv=False)
    return tuple(float(value) for value in strengths)
