"""An estimator fitted to a library: weighted members, calibrated intervals, known cells kept."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from apps.classification.core.estimators.protocol import (
    EmptyLibraryError,
    Fold,
    Learner,
    Predictor,
    Rows,
    backward,
    check_values,
    forward,
)
from apps.classification.core.estimators.tuning import DRAWS, Tuning, combined, rows_of, tune
from apps.classification.core.matrix import Scale
from apps.classification.core.profile import HALF_WIDTH_90
from apps.inventory.core.snapshot import Bools, Floats, Ints

# The error that the papers report is relative: |estimate / truth - 1|. For a log-normal cell of
# variance v its expectation is smallest at exp(μ - v), below the median. We go half of the way,
# because v is itself an estimate, and never more than a quarter of a logarithm.
SHIFT: Final = 0.5
LARGEST_VARIANCE: Final = 0.5
LARGEST_K: Final = 16  # more known cells are tuned as 16
# More rows are thinned to this many. On the generator, 40 columns and 5,000 rows, all of them err
# 1.018 times as much as exact Bayes, 1,000 of them 1.035, 250 of them 1.062.
LARGEST_LIBRARY: Final = 1000
LEAST_WEIGHT: Final = 0.02  # members that count less are not asked
# what one row alone says nothing of: a factor of e^(1.645 · 0.5) = 2.3, or 41 points, either way
LONE_DEVIATION: Final = 0.5


@dataclass(frozen=True, slots=True)
class Estimator:
    """A named way to complete rows.

    Attributes
    ----------
    members : what is learnt; a plain method has one
    sharpness : how much better members count more, see `tuning.tune`
    shift : share of the variance by which values lie below the median on the log scale
    draws : held-out rows that weigh and calibrate it, about
    linear : whether it works on performance itself, so that runtimes must be inverted first
    """

    members: tuple[Learner, ...]
    sharpness: float = 3.0
    shift: float = 0.0
    draws: int = DRAWS
    linear: bool = False

    def fit(
        self, library: Floats, *, scale: Scale, groups: Ints | None = None, seed: int = 0
    ) -> "Model":
        """Learn from a library.

        Parameters
        ----------
        library : (n, m) rows, n >= 1, NaN where not measured; rows without a cell are left out
        scale : comparison space
        groups : (n,) the application of each row, None when every row is one; intervals hold for
            rows of applications that are not in the library
        seed : of the rows and cells drawn for the comparison of members

        Raises
        ------
        EmptyLibraryError : the library has no row with a known cell.
        ValueError : a cell that cannot be a measurement, or a column without a known cell.
        """
        rows, columns = _canonical(library, scale, groups, np.random.default_rng(seed))
        return Model(self, rows, columns, scale, seed)


@dataclass(slots=True, eq=False)
class Model:
    """A fitted estimator; answers the same for the same row whatever it is asked together with.

    Rows and columns are kept in an order of their own (`_canonical`), so that the order in which
    a library is given never matters. Tunings are made when a number of known cells first occurs.
    """

    estimator: Estimator
    rows: Rows
    columns: Ints
    scale: Scale
    seed: int
    _tunings: dict[int, Tuning] = field(default_factory=dict)
    _learnt: list[Predictor] = field(default_factory=list)

    def fold(self, observed: Floats, known: Bools, *, error: Floats | None = None) -> Fold:
        """Complete rows.

        Parameters
        ----------
        observed : (q, m) or (m,) values, ignored where not ``known``
        known : same shape, True where measured; none may be
        error : same shape, standard errors of the known cells in the unit of ``observed``

        Returns
        -------
        Arrays of the same shape. Known cells keep their value, with the interval of their error.

        Raises
        ------
        ValueError : shapes that disagree, or a cell that cannot be a measurement.
        """
        values, mask = np.atleast_2d(observed), np.atleast_2d(known)
        m = self.columns.size
        if values.shape[1] != m or mask.shape != values.shape:
            raise ValueError(
                f"observed and known must have {m} columns, got {observed.shape}, {known.shape}"
            )
        check_values(values, mask, self.scale, name="observed")
        relative = self._errors(values, mask, error)
        z = np.where(mask, forward(np.where(mask, values, 1.0), self.scale), 0.0)
        centre, value, half = np.zeros(z.shape), np.zeros(z.shape), np.zeros(z.shape)
        counts = mask.sum(axis=1)
        order = self.columns
        for k in np.unique(counts):
            at = np.flatnonzero(counts == k)
            cells = np.ix_(at, order)
            centre[cells], value[cells], half[cells] = self._complete(
                z[cells], mask[cells], relative[cells], int(k)
            )
        centre, value = np.where(mask, z, centre), np.where(mask, z, value)
        half = np.where(mask, HALF_WIDTH_90 * relative, half)
        return self._in_unit(centre, value, half, values, mask, observed.shape)

    def weights(self, k: int) -> Floats:
        """(M,) how much each member counts for rows of k known cells."""
        return self._tuning(k).weight

    def _in_unit(
        self,
        centre: Floats,
        value: Floats,
        half: Floats,
        observed: Floats,
        known: Bools,
        shape: tuple[int, ...],
    ) -> Fold:
        answer = np.where(known, observed, backward(value, self.scale))
        low = np.minimum(backward(centre - half, self.scale), answer)
        high = np.maximum(backward(centre + half, self.scale), answer)
        return Fold(answer.reshape(shape), low.reshape(shape), high.reshape(shape))

    def _errors(self, values: Floats, known: Bools, error: Floats | None) -> Floats:
        if error is None:
            return np.zeros(values.shape)
        given = np.where(known, np.atleast_2d(error), 0.0)
        if not (np.isfinite(given) & (given >= 0)).all():
            raise ValueError(f"error must be finite and >= 0, got {given.min()}..{given.max()}")
        unit = values if self.scale is Scale.LOG else 1.0 / forward(np.ones(1), self.scale)
        return np.where(known, given / np.where(known, unit, 1.0), 0.0)

    def _complete(
        self, z: Floats, known: Bools, error: Floats, k: int
    ) -> tuple[Floats, Floats, Floats]:
        """Centre, value and half width of rows that all have k known cells."""
        if self.rows.z.shape[0] == 1:
            level = np.where(known, z - self.rows.z, 0.0).sum(axis=1, keepdims=True) / max(k, 1)
            mean = self.rows.z + level
            return mean, mean, np.full(mean.shape, HALF_WIDTH_90 * LONE_DEVIATION)
        tuning = self._tuning(k)
        used = np.flatnonzero(tuning.weight >= min(LEAST_WEIGHT, tuning.weight.max()))
        weight = tuning.weight[used] / tuning.weight[used].sum()
        spreads = [self._members()[i].predict(z, known, error) for i in used.tolist()]
        mean, deviation = combined(
            np.array([s.mean for s in spreads]), np.array([s.deviation for s in spreads]), weight
        )
        half = tuning.width * deviation
        if self.scale is not Scale.LOG:
            return mean, mean, half
        variance = np.minimum((half / HALF_WIDTH_90) ** 2, LARGEST_VARIANCE)
        return mean, mean - self.estimator.shift * variance, half

    def _tuning(self, k: int) -> Tuning:
        k = min(k, LARGEST_K, self.columns.size - 1)
        if k not in self._tunings:
            rng = np.random.default_rng([self.seed, k])
            how = self.estimator
            self._tunings[k] = tune(
                how.members, self.rows, k, rng, sharpness=how.sharpness, draws=how.draws
            )
        return self._tunings[k]

    def _members(self) -> Sequence[Predictor]:
        if not self._learnt:
            rng = np.random.default_rng(self.seed)
            self._learnt = [learn(self.rows, rng) for learn in self.estimator.members]
        return self._learnt


def _canonical(
    library: Floats, scale: Scale, groups: Ints | None, rng: np.random.Generator
) -> tuple[Rows, Ints]:
    """Rows and columns in an order that depends on their cells only; and that of the columns."""
    if library.ndim != 2:
        raise ValueError(f"library must have two dimensions, got shape {library.shape}")
    known = ~np.isnan(library)
    kept = known.any(axis=1)
    if not kept.any():
        raise EmptyLibraryError("the library has no row to compare with")
    empty = np.flatnonzero(~known.any(axis=0))
    if empty.size:
        raise ValueError(
            f"library must have a known cell in every column, column {empty[0]} has none"
        )
    check_values(library, known, scale, name="library")
    of_row = np.arange(len(library)) if groups is None else np.asarray(groups)
    if of_row.shape != (len(library),):
        raise ValueError(f"groups must name {len(library)} applications, got {of_row.shape}")
    z = forward(library[kept], scale)
    known, of_row = known[kept], of_row[kept]
    if np.unique(of_row).size < 2:
        of_row = np.arange(len(z))  # one application only: hold out its rows instead
    rows, columns = _by_cells(z), _by_cells(z.T)
    if rows.size > LARGEST_LIBRARY:
        thinned = np.sort(rng.choice(rows, LARGEST_LIBRARY, replace=False))
        rows = thinned if known[thinned].any(axis=0).all() else rows
    z, known = z[np.ix_(rows, columns)], known[np.ix_(rows, columns)]
    first = {name: i for i, name in reversed(list(enumerate(of_row[rows].tolist())))}
    names = np.array([first[name] for name in of_row[rows].tolist()], dtype=np.int64)
    return rows_of(z, known, names), columns


def _by_cells(z: Floats) -> Ints:
    """Order of the rows by their sorted cells: however the columns lie, the same."""
    keys = np.sort(z, axis=1)  # NaN last
    return np.lexsort(np.where(np.isnan(keys), np.inf, keys).T[::-1])
