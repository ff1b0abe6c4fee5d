"""What rows held out of the library say: which members to believe, and how wide to answer.

Rows are held out by application. With k known cells drawn at random, every member predicts the
rest; members that err less weigh more, and the intervals get the width that held 90 %.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.estimators.gaps import filled
from apps.classification.core.estimators.protocol import Learner, Rows, Spread
from apps.classification.core.profile import HALF_WIDTH_90
from apps.inventory.core.snapshot import Bools, Floats, Ints

FOLDS: Final = 10
DRAWS: Final = 150  # held-out rows wanted in all; few rows are drawn up to six times
REPEATS: Final = 6
WORST: Final = 1.5  # in comparison space: one impossible cell does not decide
FEW: Final = 1.0  # how much wider for few applications: the quantile is itself an estimate
UNTESTED: Final = 2.0 * HALF_WIDTH_90


class Tuning(NamedTuple):
    """(M,) weights of the members, sum 1, and the half width of intervals in deviations."""

    weight: Floats
    width: float


class _HeldOut(NamedTuple):
    """Predictions of S held-out rows by M members: (M, S, m); truth; which cells count; groups."""

    mean: Floats
    deviation: Floats
    truth: Floats
    cells: Bools
    groups: Ints


def tune(
    members: Sequence[Learner],
    rows: Rows,
    k: int,
    rng: np.random.Generator,
    *,
    sharpness: float,
    draws: int = DRAWS,
) -> Tuning:
    """Weigh the members for rows with k known cells.

    Parameters
    ----------
    sharpness : how fast weight falls with error, with the square root of the number of
        applications: w ∝ error^(-sharpness·√G); inf takes the best member only
    draws : rows to predict, about; at most twice as many

    With a single application nothing can be held out: equal weights, wide intervals.
    """
    held = _held_out(members, rows, k, rng, draws)
    if held is None:
        return Tuning(np.full(len(members), 1.0 / len(members)), UNTESTED)
    _, index, count = np.unique(held.groups, return_inverse=True, return_counts=True)
    share = count[index].astype(np.float64) ** -0.5
    share = share / share.sum()
    cells = np.maximum(held.cells.sum(axis=1), 1)
    error = np.minimum(np.abs(held.mean - held.truth), WORST)
    error = np.maximum((np.where(held.cells, error, 0.0).sum(axis=2) / cells) @ share, 1e-9)
    weight = _weights(error, sharpness * np.sqrt(count.size))
    centre, deviation = combined(held.mean, held.deviation, weight)
    away = np.abs(centre - held.truth) / deviation
    of_cell = np.broadcast_to((share / cells)[:, None], away.shape)
    width = _quantile(away[held.cells], of_cell[held.cells], 0.9)
    return Tuning(weight, width * (1.0 + FEW / count.size))


def combined(mean: Floats, deviation: Floats, weight: Floats) -> Spread:
    """(S, m) centre and deviation of a mixture of (M, S, m) members."""
    centre = np.einsum("m,msj->sj", weight, mean)
    variance = np.einsum("m,msj->sj", weight, deviation**2 + (mean - centre) ** 2)
    return Spread(centre, np.sqrt(variance))


def _weights(error: Floats, power: float) -> Floats:
    if np.isinf(power):
        return np.asarray(np.arange(error.size) == int(np.argmin(error)), dtype=np.float64)
    weight = (error / error.min()) ** -power
    return weight / weight.sum()


def _quantile(values: Floats, weight: Floats, share: float) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    at = int(np.searchsorted(reached, share * reached[-1]))
    return float(values[order[min(at, values.size - 1)]])


def _held_out(
    members: Sequence[Learner], rows: Rows, k: int, rng: np.random.Generator, draws: int
) -> _HeldOut | None:
    parts = [
        _one_fold(members, rows, _drawn(rows, out, k, rng, draws), out, rng)
        for out in _folds(rows.groups)
        if ((rows.known.sum(axis=1) > k) & out).any()
    ]
    if not parts:
        return None
    return _HeldOut(
        *(np.concatenate([p[i] for p in parts], axis=1) for i in (0, 1)),
        *(np.concatenate([p[i] for p in parts]) for i in (2, 3, 4)),
    )


def _folds(groups: Ints) -> Iterator[Bools]:
    names = np.unique(groups)
    if names.size < 2:
        return
    folds = min(FOLDS, names.size)
    for fold in range(folds):
        yield np.isin(groups, names[fold::folds])


class _Drawn(NamedTuple):
    """S row numbers, some repeated, and the (S, m) cells taken as known."""

    at: Ints
    known: Bools


def _drawn(rows: Rows, out: Bools, k: int, rng: np.random.Generator, draws: int) -> _Drawn:
    at = np.flatnonzero(out & (rows.known.sum(axis=1) > k))
    most = max(1, 2 * draws // FOLDS)
    if at.size > most:
        at = np.sort(rng.choice(at, most, replace=False))
    at = np.repeat(at, max(1, min(REPEATS, draws // min(len(rows.z), draws))))
    # the k known cells of each row with the smallest draw
    draw = np.where(rows.known[at], rng.random((at.size, rows.z.shape[1])), np.inf)
    chosen = np.argsort(draw, axis=1, kind="stable")[:, :k]
    known = np.zeros(draw.shape, dtype=np.bool_)
    np.put_along_axis(known, chosen, True, axis=1)
    return _Drawn(at, known)


def _one_fold(
    members: Sequence[Learner], rows: Rows, drawn: _Drawn, out: Bools, rng: np.random.Generator
) -> _HeldOut:
    at, known = drawn
    kept = Rows(rows.z[~out], rows.known[~out], rows.groups[~out])
    z = np.where(known, rows.z[at], 0.0)
    spreads = [learn(kept, rng).predict(z, known, np.zeros(z.shape)) for learn in members]
    return _HeldOut(
        np.array([s.mean for s in spreads]),
        np.array([s.deviation for s in spreads]),
        rows.z[at],
        rows.known[at] & ~known,
        rows.groups[at],
    )


def rows_of(z: Floats, known: Bools, groups: Ints) -> Rows:
    """Fill the gaps once, for all members."""
    return Rows(filled(z, known), known, groups)
