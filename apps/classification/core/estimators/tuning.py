"""Tune member weights and interval width by cross-validation.

Rows are held out by application. With k random known cells, every member predicts the others;
members with lower errors get higher weights, and the width is chosen so that intervals cover 90 %.

Tuning is model selection: it costs about twenty fits, depends little on single rows, and may be
done in the background, stored, and passed to the fit of the next revision.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.estimates import HALF_WIDTH_90
from apps.classification.core.estimators import familiarity
from apps.classification.core.estimators.familiarity import (
    HeldOutErrors,
    Neighbourhood,
    Widening,
    quantile,
    strange_rows,
)
from apps.classification.core.estimators.imputation import imputed
from apps.classification.core.estimators.protocol import (
    FOLDS,
    Members,
    Observed,
    Panel,
    Rows,
    Sparse,
    Spread,
    blended,
)
from apps.inventory.core.snapshot import Bools, Floats, Ints

DRAWS: Final = 150  # held-out rows in total; if there are fewer, each is drawn up to six times
REPEATS: Final = 6
MAX_ERROR: Final = 1.5  # in comparison space: limits the effect of one impossible cell
SMALL_SAMPLE_WIDENING: Final = 0.5  # widening for few applications
# With two applications, one held-out row says nothing about their variance, and widths of 1,000
# have occurred. On the generator, with two rows, intervals of this width cover 91 %.
MAX_WIDTH: Final = 20.0
UNTESTED_WIDTH: Final = 2.0 * HALF_WIDTH_90
MIN_WEIGHT: Final = 0.02  # members below this weight are not used
# If members x rows exceed this number, a member is only kept if it lowers the held-out error of
# the mixture by a share of MIN_GAIN.
MAX_EVALUATIONS: Final = 6000
MIN_GAIN: Final = 0.01


class Tuning(NamedTuple):
    """(M,) weights of the members, sum 1; half width of intervals in deviations, and widening."""

    weight: Floats
    width: float
    widening: Widening = familiarity.NONE

    @property
    def used(self) -> tuple[int, ...]:
        """Indices of the members with positive weight."""
        return tuple(np.flatnonzero(self.weight).tolist())


Tunings = Mapping[int, Tuning]


def to_json(tunings: Tunings) -> dict[str, dict[str, object]]:
    """Return tunings as JSON data, by number of known cells."""
    return {
        str(k): {
            "weight": [float(w) for w in tuning.weight],
            "width": float(tuning.width),
            "widening": {
                "ends": list(tuning.widening.ends),
                "factors": list(tuning.widening.factors),
                "limit": tuning.widening.limit if tuning.widening.ends else None,
            },
        }
        for k, tuning in sorted(tunings.items())
    }


def from_json(stored: Mapping[str, Mapping[str, object]]) -> dict[int, Tuning]:
    """Parse the output of `to_json`.

    Raises
    ------
    ValueError : an invalid weight or width.
    """
    tunings = {}
    for k, data in stored.items():
        weight, width = (
            np.array(data["weight"], dtype=np.float64),
            float(str(data["width"])),
        )
        if weight.ndim != 1 or not (weight >= 0).all() or abs(weight.sum() - 1.0) > 1e-6:
            raise ValueError(f"weight must sum to 1, got {data['weight']} for {k} known cells")
        if not 0 < width < np.inf:
            raise ValueError(f"width must be positive, got {width} for {k} known cells")
        tunings[int(k)] = Tuning(weight, width, _widening(data.get("widening")))
    return tunings


def _widening(stored: object) -> Widening:
    """Parse the widening of a tuning; tunings stored before 2026-11-22 have none."""
    if not isinstance(stored, Mapping) or not stored["ends"]:
        return familiarity.NONE
    ends, factors = (tuple(float(x) for x in stored[name]) for name in ("ends", "factors"))
    return Widening(ends, factors, float(stored["limit"]))


class _HeldOut(NamedTuple):
    """Predictions of S held-out rows by M members: (M, S, m); truth; hidden cells; groups."""

    mean: Floats
    deviation: Floats
    truth: Floats
    cells: Bools
    groups: Ints
    score: Floats

    def errors(self, weight: Floats) -> HeldOutErrors:
        """Return the errors of the members mixed by ``weight``."""
        centre, deviation = blended(Spread(self.mean, self.deviation), weight)
        return HeldOutErrors(self.score, np.abs(centre - self.truth) / deviation, self.cells)


class TuningOptions(NamedTuple):
    """Options of the comparison of members.

    Attributes
    ----------
    sharpness : how fast weight falls with error, with the square root of the number of
        applications: w ∝ error^(-sharpness·√G); inf takes the best member only
    draws : approximate number of rows to predict; at most twice as many
    """

    sharpness: float
    draws: int = DRAWS


def tune(
    members: Members,
    rows: Rows,
    k: int,
    rng: np.random.Generator,
    *,
    options: TuningOptions,
    columns: Ints,
) -> Tuning:
    """Tune the members for rows with k known cells.

    Parameters
    ----------
    columns : (m,) all columns, in an order independent of the caller's

    With a single application nothing can be held out: weights are equal, intervals wide.
    """
    both = _held_out(members, rows, k, rng, _Draw(options.draws, columns))
    if both is None:
        return Tuning(np.full(members.count, 1.0 / members.count), UNTESTED_WIDTH)
    held_out, strange = both
    share, groups = _shares(held_out.groups)
    error = _errors(held_out.mean, held_out, share)
    weight = _weights(error, options.sharpness * np.sqrt(groups))
    weight = np.where(weight >= min(MIN_WEIGHT, weight.max()), weight, 0.0)
    if np.count_nonzero(weight) * len(rows.z) > MAX_EVALUATIONS:
        weight = _frugal(weight, held_out, share)
    weight = weight / weight.sum()
    usual = held_out.errors(weight)
    cells = held_out.cells.sum(axis=1)
    of_cell = np.broadcast_to((share / np.maximum(cells, 1))[:, None], usual.offset.shape)
    width = quantile(usual.offset[held_out.cells], of_cell[held_out.cells], 0.9)
    widening = familiarity.calibrate(usual, strange.errors(weight), share, groups)
    return Tuning(weight, min(width * (1.0 + SMALL_SAMPLE_WIDENING / groups), MAX_WIDTH), widening)


def _shares(groups: Ints) -> tuple[Floats, int]:
    """(S,) weight of each held-out row, sum 1; and the number of applications."""
    _, index, count = np.unique(groups, return_inverse=True, return_counts=True)
    share = count[index].astype(np.float64) ** -0.5
    return share / share.sum(), count.size


def _errors(mean: Floats, held_out: _HeldOut, share: Floats) -> Floats:
    """(M,) mean error of (M, S, m) predictions over the hidden cells."""
    cells = np.maximum(held_out.cells.sum(axis=1), 1)
    off = np.where(held_out.cells, np.minimum(np.abs(mean - held_out.truth), MAX_ERROR), 0.0)
    return np.maximum((off.sum(axis=2) / cells) @ share, 1e-9)


def _frugal(weight: Floats, held_out: _HeldOut, share: Floats) -> Floats:
    """Keep the heaviest member, and others that lower the held-out error enough."""
    first, *others = np.argsort(-weight, kind="stable")[: np.count_nonzero(weight)].tolist()
    kept = np.where(np.arange(weight.size) == first, weight, 0.0)
    error = _errors(held_out.mean[[first]], held_out, share)[0]
    for i in others:
        candidate = kept.copy()
        candidate[i] = weight[i]
        mean = np.einsum("m,msj->sj", candidate / candidate.sum(), held_out.mean)
        new_error = _errors(mean[None], held_out, share)[0]
        if new_error < (1.0 - MIN_GAIN) * error:
            kept, error = candidate, new_error
    return kept


def _weights(error: Floats, power: float) -> Floats:
    if np.isinf(power):
        return np.asarray(np.arange(error.size) == int(np.argmin(error)), dtype=np.float64)
    weight = (error / error.min()) ** -power
    return weight / weight.sum()


class _Draw(NamedTuple):
    """Approximate number of rows to draw, and the column order for drawing cells."""

    rows: int
    columns: Ints


def _held_out(
    members: Members, rows: Rows, k: int, rng: np.random.Generator, draw: _Draw
) -> tuple[_HeldOut, _HeldOut] | None:
    """Predict held-out rows, and strange versions of them, by models that do not know them."""
    has_enough = rows.known.sum(axis=1) > k
    (others,) = rng.spawn(1)
    usual, strange = [], []
    for part in rows.splits:
        if not (has_enough & part.out).any():
            continue
        row, at = _drawn(rows, part.out & has_enough, k, rng, draw)
        panel = members.learn(part.kept, rng, tuple(range(members.count)))
        fold = _Fold(panel, part.kept)
        truth, cells = rows.z[row], rows.known[row]
        np.put_along_axis(cells, at, False, axis=1)
        unlike = strange_rows(truth, part.kept.z.mean(axis=0), others, draw.columns)
        usual.append(fold.predicted(truth, at, cells, rows.groups[row]))
        strange.append(fold.predicted(unlike, at, cells, rows.groups[row]))
    return (_joined(usual), _joined(strange)) if usual else None


class _Fold(NamedTuple):
    """Members trained on the kept rows, and these rows."""

    panel: Panel
    kept: Rows

    def predicted(self, truth: Floats, at: Ints, cells: Bools, groups: Ints) -> _HeldOut:
        """Predict (S, m) rows from their (S, k) known columns."""
        z = np.take_along_axis(truth, at, axis=1)
        observed = Observed(at, z, np.zeros(z.shape))
        each = self.panel.each(observed)
        score = Neighbourhood.of(self.kept).scores(observed)
        return _HeldOut(each.mean, each.deviation, truth, cells, groups, score)


def _joined(parts: Sequence[_HeldOut]) -> _HeldOut:
    return _HeldOut(
        *(np.concatenate([p[i] for p in parts], axis=1) for i in (0, 1)),
        *(np.concatenate([p[i] for p in parts]) for i in (2, 3, 4, 5)),
    )


class _Drawn(NamedTuple):
    """S row indices, possibly repeated, and the (S, k) columns of their known cells."""

    row: Ints
    at: Ints


def _drawn(rows: Rows, out: Bools, k: int, rng: np.random.Generator, draw: _Draw) -> _Drawn:
    row = np.flatnonzero(out)
    limit = max(1, 2 * draw.rows // FOLDS)
    if row.size > limit:
        row = np.sort(rng.choice(row, limit, replace=False))
    row = np.repeat(row, max(1, min(REPEATS, draw.rows // min(len(rows.z), draw.rows))))
    # the k known cells of each row with the smallest number
    number = np.empty((row.size, rows.z.shape[1]))
    number[:, draw.columns] = rng.random(number.shape)
    number[~rows.known[row]] = np.inf
    return _Drawn(row, np.sort(np.argsort(number, axis=1, kind="stable")[:, :k], axis=1))


def rows_of(z: Floats, known: Bools, groups: Ints, sparse: Sparse | None = None) -> Rows:
    """Impute missing cells once, for all members."""
    return Rows(imputed(z, known), known, groups, sparse)
