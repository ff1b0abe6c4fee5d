"""An estimator fitted to a library: weighted members, calibrated intervals, known cells kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from apps.classification.core.estimators.flags import Degraded, flags
from apps.classification.core.estimators.library import Library, prepared
from apps.classification.core.estimators.protocol import (
    Fold,
    Members,
    Panel,
    Spread,
    Told,
    backward,
    check_values,
    forward,
    is_measurement,
)
from apps.classification.core.estimators.tuning import DRAWS, How, Tuning, tune
from apps.classification.core.matrix import Scale
from apps.classification.core.profile import HALF_WIDTH_90
from apps.inventory.core.snapshot import Bools, Floats, Ints

# The error that the papers report is relative: |estimate / truth - 1|. For a log-normal cell of
# variance v its expectation is smallest at exp(μ - v), below the median. We go half of the way,
# because v is itself an estimate, and never more than a quarter of a logarithm.
SHIFT: Final = 0.5
LARGEST_VARIANCE: Final = 0.5
LARGEST_K: Final = 16  # more known cells are tuned as 16
LARGEST_ERROR: Final = 100.0  # in logarithms: a cell with it says nothing
# what one row alone says nothing of: a factor of e^(1.645 · 0.5) = 2.3, or 41 points, either way
LONE_DEVIATION: Final = 0.5


@dataclass(frozen=True, slots=True)
class Estimator:
    """A named way to complete rows.

    Attributes
    ----------
    members : what is learnt; a plain method has one
    sharpness : how much better members count more, see `tuning.How`
    shift : share of the variance by which values lie below the median on the log scale
    draws : held-out rows that weigh and calibrate it, about
    linear : whether it works on performance itself, so that runtimes must be inverted first
    """

    members: Members
    sharpness: float = 3.0
    shift: float = 0.0
    draws: int = DRAWS
    linear: bool = False

    def fit(
        self,
        library: Floats,
        *,
        scale: Scale,
        groups: Ints | None = None,
        seed: int = 0,
        tunings: Mapping[int, Tuning] | None = None,
    ) -> "Model":
        """Learn from a library.

        Parameters
        ----------
        library : (n, m) rows, n >= 1, NaN where not measured; rows without a cell are left out
        scale : comparison space
        groups : (n,) the application of each row, None when every row is one; intervals hold for
            rows of applications that are not in the library
        seed : of the rows and cells drawn for the comparison of members
        tunings : of an earlier revision, by number of known cells; others are made when asked for

        Raises
        ------
        EmptyLibraryError : the library has no row with a known cell.
        ValueError : a cell that cannot be a measurement, a column without a known cell, or a
            tuning of another estimator.
        """
        for k, tuning in (tunings or {}).items():
            if tuning.weight.shape != (self.members.count,):
                raise ValueError(
                    f"tunings must weigh {self.members.count} members, "
                    f"got {tuning.weight.size} for {k} known cells"
                )
        ready = prepared(library, scale, groups, np.random.default_rng(seed))
        model = Model(self, ready, scale, seed, dict(tunings or {}))
        for tuning in model.tunings.values():
            model.panel(tuning.used)
        return model


@dataclass(slots=True, eq=False)
class Model:
    """A fitted estimator; answers the same for the same row whatever it is asked together with.

    The order in which rows and columns of a library are given does not matter. Tunings are made
    when a number of known cells first occurs.
    """

    estimator: Estimator
    library: Library
    scale: Scale
    seed: int
    tunings: dict[int, Tuning] = field(default_factory=dict)
    _panels: dict[tuple[int, ...], Panel] = field(default_factory=dict)

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
        values, mask = self._checked(observed, known)
        errors = None if error is None else np.atleast_2d(error)
        if len(values) == 1:
            fold = self._complete(values, mask, errors, int(np.count_nonzero(mask)))
            return Fold(*(part.reshape(observed.shape) for part in fold))
        counts = np.count_nonzero(mask, axis=1)
        answer = Fold(*np.empty((3, *values.shape)))
        for k in np.unique(counts).tolist():
            at = np.flatnonzero(counts == k)
            part = self._complete(values[at], mask[at], None if errors is None else errors[at], k)
            for whole, rows in zip(answer, part, strict=True):
                whole[at] = rows
        return answer

    def flags(self, observed: Floats, known: Bools) -> Sequence[frozenset[Degraded]]:
        """Reasons, for each row, why its estimates may be worse than their intervals say.

        Raises
        ------
        ValueError : as `fold`.
        """
        values, mask = self._checked(observed, known)
        check_values(values, mask, self.scale, name="observed")
        z = np.full(values.shape, np.nan)
        z[mask] = forward(values[mask], self.scale)
        return flags(z, self.library.seen)

    def weights(self, k: int) -> Floats:
        """(M,) how much each member counts for rows of k known cells."""
        return self.tuned(k).weight

    def tuned(self, k: int) -> Tuning:
        """Weights and width for rows of k known cells; made when first asked for."""
        k = min(k, LARGEST_K, self.library.rows.z.shape[1] - 1)
        if k not in self.tunings:
            rng = np.random.default_rng([self.seed, k])
            self.tunings[k] = tune(
                self.estimator.members,
                self.library.rows,
                k,
                rng,
                how=How(self.estimator.sharpness, self.estimator.draws),
                columns=self.library.columns,
            )
        return self.tunings[k]

    def panel(self, used: tuple[int, ...]) -> Panel:
        """Give the members of these numbers, which have learnt from the whole library."""
        if used not in self._panels:
            rng = np.random.default_rng(self.seed)
            self._panels[used] = self.estimator.members.learn(self.library.rows, rng, used)
        return self._panels[used]

    def _checked(self, observed: Floats, known: Bools) -> tuple[Floats, Bools]:
        values, mask = np.atleast_2d(observed), np.atleast_2d(known)
        m = self.library.columns.size
        if values.shape[1] != m or mask.shape != values.shape:
            raise ValueError(
                f"observed and known must have {m} columns, got {observed.shape}, {known.shape}"
            )
        return values, mask

    def _complete(self, values: Floats, known: Bools, error: Floats | None, k: int) -> Fold:
        """Complete rows that all have k known cells."""
        cells = np.flatnonzero(known)
        seen = values.reshape(-1)[cells]
        if not is_measurement(seen, self.scale).all():
            check_values(values, known, self.scale, name="observed")
        z = forward(seen, self.scale)
        off = self._errors(seen, error, cells)
        q, m = values.shape
        told = Told((cells % m).reshape(q, k), z.reshape(q, k), off.reshape(q, k))
        (mean, deviation), width = self._spread(told, k)
        half = width * deviation
        value = backward(self._shifted(mean, half), self.scale)
        low = np.minimum(backward(mean - half, self.scale), value)
        high = np.maximum(backward(mean + half, self.scale), value)
        value.reshape(-1)[cells] = seen
        low.reshape(-1)[cells] = np.minimum(backward(z - HALF_WIDTH_90 * off, self.scale), seen)
        high.reshape(-1)[cells] = np.maximum(backward(z + HALF_WIDTH_90 * off, self.scale), seen)
        return Fold(value, low, high)

    def _shifted(self, mean: Floats, half: Floats) -> Floats:
        """Where the expected relative error is smallest; one row alone knows no variance."""
        if self.scale is not Scale.LOG or not self.estimator.shift or self._is_alone:
            return mean
        variance = np.minimum((half / HALF_WIDTH_90) ** 2, LARGEST_VARIANCE)
        return mean - self.estimator.shift * variance

    @property
    def _is_alone(self) -> bool:
        return self.library.seen.rows == 1

    def _spread(self, told: Told, k: int) -> tuple[Spread, float]:
        """(q, m) centres and deviations, and the half width of intervals in deviations."""
        if self._is_alone:
            row = self.library.rows.z[:1]
            away = told.z - row[0][told.at]
            mean = row + away.sum(axis=1, keepdims=True) / max(k, 1)
            return Spread(mean, np.full(mean.shape, LONE_DEVIATION)), HALF_WIDTH_90
        tuning = self.tuned(k)
        used = tuning.used
        return self.panel(used).blend(told, tuning.weight[list(used)]), tuning.width

    def _errors(self, seen: Floats, error: Floats | None, cells: Ints) -> Floats:
        if error is None:
            return np.zeros(seen.size)
        given = error.reshape(-1)[cells]
        if not ((given >= 0) & (given < np.inf)).all():
            raise ValueError(f"error must be finite and >= 0, got {given.min()}..{given.max()}")
        if self.scale is not Scale.LOG:
            return forward(given, self.scale)
        with np.errstate(over="ignore"):  # by a cell near 0
            return np.minimum(given / seen, LARGEST_ERROR)
