"""Estimators and fitted models: weighted members and calibrated intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from apps.classification.core.estimates import HALF_WIDTH_90, Estimates
from apps.classification.core.estimators.familiarity import NONE, Neighbourhood, Widening
from apps.classification.core.estimators.flags import Degraded, flags
from apps.classification.core.estimators.library import SortedRows, prepared
from apps.classification.core.estimators.protocol import (
    Members,
    Observed,
    Panel,
    Spread,
    backward,
    check_values,
    forward,
    is_measurement,
)
from apps.classification.core.estimators.tuning import (
    DRAWS,
    MAX_WIDTH,
    Tuning,
    TuningOptions,
    tune,
)
from apps.classification.core.matrix import Scale
from apps.inventory.core.snapshot import Bools, Floats, Ints

# The error that the papers report is relative: |estimate / truth - 1|. For a log-normal cell of
# variance v its expectation is smallest at exp(μ - v), below the median. Shift by half of v,
# because v is itself an estimate, and by a quarter of a logarithm at most.
SHIFT: Final = 0.5
MAX_VARIANCE: Final = 0.5
MAX_K: Final = 16  # more known cells use the tuning for 16
MAX_ERROR: Final = 100.0  # in logarithms: such a cell carries no information
# deviation with a single row: a factor of e^(1.645 · 0.5) = 2.3, or 41 points, either way
LONE_DEVIATION: Final = 0.5


@dataclass(frozen=True, slots=True)
class Estimator:
    """A method to complete rows.

    Attributes
    ----------
    members : learners to train; a plain method has one
    sharpness : how fast a member's weight falls with its error, see `tuning.TuningOptions`
    shift : share of the variance by which values lie below the median on the log scale
    draws : approximate number of held-out rows for weighting and calibration
    linear : whether it works on performance, so that runtimes must be inverted first
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
        """Fit to a library.

        Parameters
        ----------
        library : (n, m) rows, n >= 1, NaN if not measured; rows without a cell are ignored
        scale : comparison space
        groups : (n,) the application of each row, None if each row is its own application;
            intervals hold for rows of applications that are not in the library
        seed : of the rows and cells drawn for the comparison of members
        tunings : of an earlier revision, by number of known cells; others are made on first use

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
        rows = prepared(library, scale, groups, np.random.default_rng(seed))
        model = Model(self, rows, scale, seed, dict(tunings or {}))
        for tuning in model.tunings.values():
            model.panel(tuning.used)
        return model


@dataclass(slots=True, eq=False)
class Model:
    """A fitted estimator; the result for a row does not depend on the other rows of a call.

    The result does not depend on the order of the library's rows and columns. Each number of known
    cells is tuned on first use.
    """

    estimator: Estimator
    library: SortedRows
    scale: Scale
    seed: int
    tunings: dict[int, Tuning] = field(default_factory=dict)
    _panels: dict[tuple[int, ...], Panel] = field(default_factory=dict)
    _prepared: list[Neighbourhood] = field(default_factory=list)  # at most one

    def fold(self, observed: Floats, known: Bools, *, error: Floats | None = None) -> Estimates:
        """Complete rows.

        Parameters
        ----------
        observed : (q, m) or (m,) values, ignored where not ``known``
        known : same shape, True where measured; may be all False
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
            ends = self._complete(values, mask, errors, int(np.count_nonzero(mask)))
            value, low, high = (part.reshape(observed.shape) for part in ends)
            return Estimates(value, low, high, mask.reshape(observed.shape))
        counts = np.count_nonzero(mask, axis=1)
        whole = np.empty((3, *values.shape))
        for k in np.unique(counts).tolist():
            at = np.flatnonzero(counts == k)
            part = self._complete(values[at], mask[at], None if errors is None else errors[at], k)
            whole[:, at] = part
        return Estimates(whole[0], whole[1], whole[2], mask.view())

    def flags(
        self, observed: Floats, known: Bools, *, error: Floats | None = None
    ) -> Sequence[frozenset[Degraded]]:
        """Return, for each row, the reasons why its estimates may be worse than their intervals.

        Takes the arguments of `fold`.

        Raises
        ------
        ValueError : as `fold`.
        """
        values, mask = self._checked(observed, known)
        check_values(values, mask, self.scale, name="observed")
        z = np.full(values.shape, np.nan)
        z[mask] = forward(values[mask], self.scale)
        errors = None if error is None else np.atleast_2d(error)
        return flags(z, self.library.bounds, self._unfamiliar(values, mask, errors))

    def _unfamiliar(self, values: Floats, known: Bools, error: Floats | None) -> Bools:
        """(q,) True for rows whose known cells are unlike the library, if any cell is hidden."""
        counts = np.count_nonzero(known, axis=1)
        result = np.zeros(len(values), dtype=np.bool_)
        if self._is_alone:
            return result
        has_both = (counts > 0) & (counts < known.shape[1])
        for k in np.unique(counts[has_both]).tolist():
            at = np.flatnonzero(counts == k)
            row_error = None if error is None else error[at]
            observations = self._observations(values[at], known[at], row_error, k)
            result[at] = self._scores(observations, k) > self.tuned(k).widening.limit
        return result

    def _scores(self, observations: Observed, k: int) -> Floats:
        """(q,) scores, per cell as for the number of known cells of the tuning."""
        return self._neighbourhood.scores(observations) * min(1.0, MAX_K / max(k, 1))

    def weights(self, k: int) -> Floats:
        """(M,) weights of the members for rows with k known cells."""
        return self.tuned(k).weight

    def tuned(self, k: int) -> Tuning:
        """Return weights and width for rows with k known cells; tuned on first use."""
        k = min(k, MAX_K, self.library.rows.z.shape[1] - 1)
        if k not in self.tunings:
            rng = np.random.default_rng([self.seed, k])
            self.tunings[k] = tune(
                self.estimator.members,
                self.library.rows,
                k,
                rng,
                options=TuningOptions(self.estimator.sharpness, self.estimator.draws),
                columns=self.library.columns,
            )
        return self.tunings[k]

    def panel(self, used: tuple[int, ...]) -> Panel:
        """Return the members with these indices, trained on the whole library."""
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

    def _complete(
        self, values: Floats, known: Bools, error: Floats | None, k: int
    ) -> tuple[Floats, Floats, Floats]:
        """Return values, low and high ends of rows that all have k known cells."""
        cells = np.flatnonzero(known)
        measured = values.reshape(-1)[cells]
        if not is_measurement(measured, self.scale).all():
            check_values(values, known, self.scale, name="observed")
        observations = self._observations(values, known, error, k)
        z, errors = observations.z.reshape(-1), observations.error.reshape(-1)
        (mean, deviation), width, widening = self._spread(observations, k)
        half = width * deviation
        value = backward(self._shifted(mean, half), self.scale)
        if widening.ends:
            factor = widening.of(self._scores(observations, k))
            half = np.minimum(width * factor, MAX_WIDTH)[:, None] * deviation
        low = np.minimum(backward(mean - half, self.scale), value)
        high = np.maximum(backward(mean + half, self.scale), value)
        value.reshape(-1)[cells] = measured
        low.reshape(-1)[cells] = np.minimum(
            backward(z - HALF_WIDTH_90 * errors, self.scale), measured
        )
        high.reshape(-1)[cells] = np.maximum(
            backward(z + HALF_WIDTH_90 * errors, self.scale), measured
        )
        return value, low, high

    def _observations(
        self, values: Floats, known: Bools, error: Floats | None, k: int
    ) -> Observed:
        """Known cells of rows that all have k known cells, in comparison space."""
        cells = np.flatnonzero(known)
        measured = values.reshape(-1)[cells]
        q, m = values.shape
        return Observed(
            (cells % m).reshape(q, k),
            forward(measured, self.scale).reshape(q, k),
            self._errors(measured, error, cells).reshape(q, k),
        )

    def _shifted(self, mean: Floats, half: Floats) -> Floats:
        """Shift to the minimum of the expected relative error; a single row has no variance."""
        if self.scale is not Scale.LOG or not self.estimator.shift or self._is_alone:
            return mean
        variance = np.minimum((half / HALF_WIDTH_90) ** 2, MAX_VARIANCE)
        return mean - self.estimator.shift * variance

    @property
    def _neighbourhood(self) -> Neighbourhood:
        if not self._prepared:
            self._prepared.append(Neighbourhood.of(self.library.rows))
        return self._prepared[0]

    @property
    def _is_alone(self) -> bool:
        return self.library.bounds.rows == 1

    def _spread(self, observations: Observed, k: int) -> tuple[Spread, float, Widening]:
        """(q, m) centres and deviations; half width of intervals in deviations, and widening."""
        if self._is_alone:
            row = self.library.rows.z[:1]
            offset = observations.z - row[0][observations.at]
            mean = row + offset.sum(axis=1, keepdims=True) / max(k, 1)
            return Spread(mean, np.full(mean.shape, LONE_DEVIATION)), HALF_WIDTH_90, NONE
        tuning = self.tuned(k)
        used = tuning.used
        spread = self.panel(used).blend(observations, tuning.weight[list(used)])
        return spread, tuning.width, tuning.widening

    def _errors(self, measured: Floats, error: Floats | None, cells: Ints) -> Floats:
        if error is None:
            return np.zeros(measured.size)
        row_error = error.reshape(-1)[cells]
        if not ((row_error >= 0) & (row_error < np.inf)).all():
            raise ValueError(
                f"error must be finite and >= 0, got {row_error.min()}..{row_error.max()}"
            )
        if self.scale is not Scale.LOG:
            return forward(row_error, self.scale)
        with np.errstate(over="ignore"):  # by a cell near 0
            return np.minimum(row_error / measured, MAX_ERROR)
