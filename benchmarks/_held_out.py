"""Hide most cells of applications that are not in the library, and score the estimates."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.estimates import Estimates
from apps.classification.core.estimators import Estimator
from apps.classification.core.matrix import Scale
from apps.inventory.core.snapshot import Bools, Floats, Ints
from benchmarks._datasets import Block

FOLDS: Final = 10
DRAWS: Final = 6  # of the known cells of one row; fewer where there are many rows
MANY_ROWS: Final = 100
NEAR_BEST: Final = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A library and rows of other applications.

    Attributes
    ----------
    library : (n, m) NaN where not measured
    groups : (n,) application of each row of the library
    truth : (q, m) NaN where never measured
    observed : (q, m) values measured by the profiling run
    known : (q, m) True where the estimator sees the cell
    applications : (q,) of the held-out rows
    """

    library: Floats
    groups: Ints
    truth: Floats
    observed: Floats
    known: Bools
    applications: Ints
    scale: Scale


class Scores(NamedTuple):
    """Scores of each held-out row; all (q,).

    Attributes
    ----------
    application : number of the application it is of
    error : mean relative error of its hidden cells
    hit, near : 1 where the best column was found, or one within 5 % of it
    rank : Spearman's correlation over its hidden cells
    covered : share of the hidden cells inside the interval
    """

    application: Ints
    error: Floats
    hit: Floats
    near: Floats
    rank: Floats
    covered: Floats


Method = Callable[[Case], Estimates]


def method(estimator: Estimator, seed: int) -> Method:
    """Fit to the library of the case and complete its rows."""

    def answer(case: Case) -> Estimates:
        model = estimator.fit(case.library, scale=case.scale, groups=case.groups, seed=seed)
        return model.fold(np.where(case.known, case.observed, 1.0), case.known)

    return answer


def cases(block: Block, k: int, rng: np.random.Generator) -> Iterator[Case]:
    """Hold out each application once, up to ten parts; every row with k random cells known."""
    names, groups = np.unique(np.array(block.groups), return_inverse=True)
    order = rng.permutation(names.size)
    folds = min(FOLDS, names.size)
    draws = max(1, min(DRAWS, DRAWS * MANY_ROWS // len(block.rows)))
    for fold in range(folds):
        out = np.isin(groups, order[fold::folds])
        columns = (~np.isnan(block.values[~out])).any(axis=0)
        truth = np.repeat(block.values[out][:, columns], draws, axis=0)
        applications = np.repeat(groups[out], draws)
        enough = (~np.isnan(truth)).sum(axis=1) >= k + 2
        if enough.any():
            known = random_cells(truth[enough], k, rng)
            yield Case(
                block.values[~out][:, columns],
                groups[~out],
                truth[enough],
                truth[enough],
                known,
                applications[enough],
                block.scale,
            )


def random_cells(values: Floats, k: int, rng: np.random.Generator) -> Bools:
    """(q, m) True at k measured cells of each row."""
    draw = np.where(np.isnan(values), np.inf, rng.random(values.shape))
    known = np.zeros(values.shape, dtype=np.bool_)
    np.put_along_axis(known, np.argsort(draw, axis=1)[:, :k], True, axis=1)
    return known


def scores(case: Case, fold: Estimates) -> Scores:
    """Score the hidden cells of every row; relative errors, on scores points / 100."""
    hidden = ~case.known & ~np.isnan(case.truth)
    unit = case.truth if case.scale is Scale.LOG else 100.0
    off = np.where(hidden, np.abs(fold.value - case.truth) / unit, 0.0)
    inside = hidden & (fold.low <= case.truth) & (fold.high >= case.truth)
    cells = hidden.sum(axis=1)
    known_value = np.where(case.known, case.observed, fold.value)
    known_or_least = np.where(np.isnan(case.truth), -np.inf, known_value)
    truth = np.where(np.isnan(case.truth), -np.inf, case.truth)
    chosen = truth[np.arange(len(truth)), known_or_least.argmax(axis=1)]
    best = truth.max(axis=1)
    return Scores(
        case.applications,
        off.sum(axis=1) / cells,
        (chosen >= best).astype(np.float64),
        (chosen >= NEAR_BEST * best).astype(np.float64),
        np.array([_agreement(t[h], v[h]) for t, v, h in _rows(case.truth, fold.value, hidden)]),
        inside.sum(axis=1) / cells,
    )


def _rows(truth: Floats, value: Floats, hidden: Bools) -> Iterator[tuple[Floats, Floats, Bools]]:
    return zip(truth, value, hidden, strict=True)


def _agreement(truth: Floats, value: Floats) -> float:
    """Spearman's rank correlation; 0 when one side is flat."""
    a, b = (np.argsort(np.argsort(x, kind="stable")).astype(np.float64) for x in (truth, value))
    a, b = a - a.mean(), b - b.mean()
    if np.ptp(value) == 0 or np.ptp(truth) == 0:
        return 0.0
    return float((a * b).sum() / np.sqrt((a**2).sum() * (b**2).sum()))
