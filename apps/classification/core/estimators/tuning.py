"""What rows held out of the library say: which members to believe, and how wide to answer.

Rows are held out by application. With k known cells drawn at random, every member predicts the
rest; members that err less weigh more, and the intervals get the width that held 90 %.

Tuning is model selection: it costs some twenty fits, depends little on single rows, and may be
done in the background, stored, and handed to the fit of the next revision.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.estimators.gaps import filled
from apps.classification.core.estimators.protocol import (
    FOLDS,
    Members,
    Rows,
    Sparse,
    Spread,
    Told,
    blended,
)
from apps.classification.core.profile import HALF_WIDTH_90
from apps.inventory.core.snapshot import Bools, Floats, Ints

DRAWS: Final = 150  # held-out rows wanted in all; few rows are drawn up to six times
REPEATS: Final = 6
WORST: Final = 1.5  # in comparison space: one impossible cell does not decide
FEW: Final = 0.5  # how much wider for few applications: the quantile is itself an estimate
# With one application held out of two, the other says nothing of how they differ, and the width
# has come out as 1,000. On the generator, of two rows, intervals this wide hold 91 %.
WIDEST: Final = 20.0
UNTESTED: Final = 2.0 * HALF_WIDTH_90
LEAST_WEIGHT: Final = 0.02  # members that count less are not asked
# Where every member looking at every row makes more looks than this, a member is only kept when
# the held-out error of the mixture falls by a share of WORTH with it.
LOOKS: Final = 6000
WORTH: Final = 0.01


class Tuning(NamedTuple):
    """(M,) weights of the members, sum 1, and the half width of intervals in deviations."""

    weight: Floats
    width: float

    @property
    def used(self) -> tuple[int, ...]:
        """Numbers of the members that are asked."""
        return tuple(np.flatnonzero(self.weight).tolist())


Tunings = Mapping[int, Tuning]


def to_json(tunings: Tunings) -> dict[str, dict[str, object]]:
    """Plain data of tunings by their number of known cells."""
    return {
        str(k): {"weight": [float(w) for w in tuning.weight], "width": float(tuning.width)}
        for k, tuning in sorted(tunings.items())
    }


def from_json(stored: Mapping[str, Mapping[str, object]]) -> dict[int, Tuning]:
    """Tunings that `to_json` wrote.

    Raises
    ------
    ValueError : a weight or width that none can have.
    """
    tunings = {}
    for k, one in stored.items():
        weight, width = np.array(one["weight"], dtype=np.float64), float(str(one["width"]))
        if weight.ndim != 1 or not (weight >= 0).all() or abs(weight.sum() - 1.0) > 1e-6:
            raise ValueError(f"weight must sum to 1, got {one['weight']} for {k} known cells")
        if not 0 < width < np.inf:
            raise ValueError(f"width must be positive, got {width} for {k} known cells")
        tunings[int(k)] = Tuning(weight, width)
    return tunings


class _HeldOut(NamedTuple):
    """Predictions of S held-out rows by M members: (M, S, m); truth; which cells count; groups."""

    mean: Floats
    deviation: Floats
    truth: Floats
    cells: Bools
    groups: Ints


class How(NamedTuple):
    """How members are compared.

    Attributes
    ----------
    sharpness : how fast weight falls with error, with the square root of the number of
        applications: w ∝ error^(-sharpness·√G); inf takes the best member only
    draws : rows to predict, about; at most twice as many
    """

    sharpness: float
    draws: int = DRAWS


def tune(
    members: Members, rows: Rows, k: int, rng: np.random.Generator, *, how: How, columns: Ints
) -> Tuning:
    """Weigh the members for rows with k known cells.

    Parameters
    ----------
    columns : (m,) all columns, in an order that does not hang on the caller's

    With a single application nothing can be held out: equal weights, wide intervals.
    """
    held = _held_out(members, rows, k, rng, _Draw(how.draws, columns))
    if held is None:
        return Tuning(np.full(members.count, 1.0 / members.count), UNTESTED)
    share, groups = _shares(held.groups)
    error = _errors(held.mean, held, share)
    weight = _weights(error, how.sharpness * np.sqrt(groups))
    weight = np.where(weight >= min(LEAST_WEIGHT, weight.max()), weight, 0.0)
    if np.count_nonzero(weight) * len(rows.z) > LOOKS:
        weight = _frugal(weight, held, share)
    weight = weight / weight.sum()
    centre, deviation = blended(Spread(held.mean, held.deviation), weight)
    away = np.abs(centre - held.truth) / deviation
    cells = held.cells.sum(axis=1)
    of_cell = np.broadcast_to((share / np.maximum(cells, 1))[:, None], away.shape)
    width = _quantile(away[held.cells], of_cell[held.cells], 0.9)
    return Tuning(weight, min(width * (1.0 + FEW / groups), WIDEST))


def _shares(groups: Ints) -> tuple[Floats, int]:
    """(S,) how much each held-out row counts, sum 1; and the number of applications."""
    _, index, count = np.unique(groups, return_inverse=True, return_counts=True)
    share = count[index].astype(np.float64) ** -0.5
    return share / share.sum(), count.size


def _errors(mean: Floats, held: _HeldOut, share: Floats) -> Floats:
    """(M,) error of (M, S, m) predictions over the cells that count."""
    cells = np.maximum(held.cells.sum(axis=1), 1)
    off = np.where(held.cells, np.minimum(np.abs(mean - held.truth), WORST), 0.0)
    return np.maximum((off.sum(axis=2) / cells) @ share, 1e-9)


def _frugal(weight: Floats, held: _HeldOut, share: Floats) -> Floats:
    """Weights of the heaviest member and of those that are worth asking beside it."""
    first, *others = np.argsort(-weight, kind="stable")[: np.count_nonzero(weight)].tolist()
    kept = np.where(np.arange(weight.size) == first, weight, 0.0)
    error = _errors(held.mean[[first]], held, share)[0]
    for i in others:
        tried = kept.copy()
        tried[i] = weight[i]
        mean = np.einsum("m,msj->sj", tried / tried.sum(), held.mean)
        found = _errors(mean[None], held, share)[0]
        if found < (1.0 - WORTH) * error:
            kept, error = tried, found
    return kept


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


class _Draw(NamedTuple):
    """About how many rows to draw, and the columns in the order cells are drawn in."""

    rows: int
    columns: Ints


def _held_out(
    members: Members, rows: Rows, k: int, rng: np.random.Generator, draw: _Draw
) -> _HeldOut | None:
    enough = rows.known.sum(axis=1) > k
    parts = [
        _one_fold(members, rows, _drawn(rows, part.out & enough, k, rng, draw), part.kept, rng)
        for part in rows.parts
        if (enough & part.out).any()
    ]
    if not parts:
        return None
    return _HeldOut(
        *(np.concatenate([p[i] for p in parts], axis=1) for i in (0, 1)),
        *(np.concatenate([p[i] for p in parts]) for i in (2, 3, 4)),
    )


class _Drawn(NamedTuple):
    """S row numbers, some repeated, and the (S, k) columns of the cells taken as known."""

    row: Ints
    at: Ints


def _drawn(rows: Rows, out: Bools, k: int, rng: np.random.Generator, draw: _Draw) -> _Drawn:
    row = np.flatnonzero(out)
    most = max(1, 2 * draw.rows // FOLDS)
    if row.size > most:
        row = np.sort(rng.choice(row, most, replace=False))
    row = np.repeat(row, max(1, min(REPEATS, draw.rows // min(len(rows.z), draw.rows))))
    # the k known cells of each row with the smallest number
    number = np.empty((row.size, rows.z.shape[1]))
    number[:, draw.columns] = rng.random(number.shape)
    number[~rows.known[row]] = np.inf
    return _Drawn(row, np.sort(np.argsort(number, axis=1, kind="stable")[:, :k], axis=1))


def _one_fold(
    members: Members, rows: Rows, drawn: _Drawn, kept: Rows, rng: np.random.Generator
) -> _HeldOut:
    row, at = drawn
    truth, cells = rows.z[row], rows.known[row]
    np.put_along_axis(cells, at, False, axis=1)
    z = np.take_along_axis(truth, at, axis=1)
    panel = members.learn(kept, rng, tuple(range(members.count)))
    each = panel.each(Told(at, z, np.zeros(z.shape)))
    return _HeldOut(each.mean, each.deviation, truth, cells, rows.groups[row])


def rows_of(z: Floats, known: Bools, groups: Ints, sparse: Sparse | None = None) -> Rows:
    """Fill the gaps once, for all members."""
    return Rows(filled(z, known), known, groups, sparse)
