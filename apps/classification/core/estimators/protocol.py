"""Types and protocols shared by all estimators of utility matrices.

n rows of the library, m columns, q rows to complete, k known cells; z are cells in comparison
space: logarithms for rates and speed-ups, points / 50 for 0-100 scores. NaN is a missing cell.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from apps.classification.core.matrix import Scale
from apps.inventory.core.snapshot import Bools, Floats, Ints

# makes typical differences between applications about equal on both scales
SCORE_UNIT: Final = 50.0
FOLDS: Final = 10

Singles = NDArray[np.float32]


class EmptyLibraryError(ValueError):
    """The library has no row with a known cell."""


class Sparse(NamedTuple):
    """Rows with too few cells to serve as training rows; they only inform the covariance.

    Attributes
    ----------
    z : (s, m) float64 in comparison space, 0 where not known
    known : (s, m)
    groups : (s,) int, as of the full rows
    """

    z: Floats
    known: Bools
    groups: Ints


@dataclass(frozen=True, eq=False)
class Rows:
    """Training rows.

    Attributes
    ----------
    z : (n, m) float64 in comparison space, missing cells imputed
    known : (n, m) True for measured cells, False for imputed ones
    groups : (n,) int, the application of each row: rows of one application are correlated
    sparse : additional sparse rows, if any
    """

    z: Floats
    known: Bools
    groups: Ints
    sparse: Sparse | None = None

    @cached_property
    def splits(self) -> "tuple[Split, ...]":
        """Cross-validation splits by application, at most `FOLDS`; empty for one application."""
        names, index = np.unique(self.groups, return_inverse=True)
        folds = min(FOLDS, names.size) if names.size > 1 else 0
        outs = [np.asarray(index % folds == fold) for fold in range(folds)]
        return tuple(
            Split(out, self.without(out, names[fold::folds])) for fold, out in enumerate(outs)
        )

    def without(self, out: Bools, groups: Ints) -> "Rows":
        """Return the rows without ``out`` (n,) and sparse rows of the same applications."""
        kept = Rows(self.z[~out], self.known[~out], self.groups[~out])
        if self.sparse is None:
            return kept
        rest = ~np.isin(self.sparse.groups, groups)
        if not rest.any():
            return kept
        z, known, names = self.sparse
        return replace(kept, sparse=Sparse(z[rest], known[rest], names[rest]))


class Split(NamedTuple):
    """(n,) mask of held-out rows, and the remaining rows."""

    out: Bools
    kept: Rows


class Observed(NamedTuple):
    """The k known cells of each of q rows; k is equal for all rows, and may be 0.

    Attributes
    ----------
    at : (q, k) their columns, ascending
    z : (q, k) in comparison space
    error : (q, k) standard errors in comparison space, >= 0
    """

    at: Ints
    z: Floats
    error: Floats


class Spread(NamedTuple):
    """(q, m) centres and (q, m) deviations > 0, in comparison space; (M, q, m) of M members."""

    mean: Floats
    deviation: Floats


class Predictor(Protocol):
    """A trained learner."""

    def predict(self, observed: Observed) -> Spread:
        """Predict all m cells of q rows."""
        ...


Learner = Callable[[Rows, np.random.Generator], Predictor]


class Panel(Protocol):
    """Members trained on the same rows."""

    def each(self, observed: Observed) -> Spread:
        """(M, q, m) predictions of every member."""
        ...

    def blend(self, observed: Observed, share: Floats) -> Spread:
        """(q, m) mixture of the members by ``share`` (M,) > 0, sum 1."""
        ...


class Members(Protocol):
    """Learners that an estimator weights and mixes."""

    @property
    def count(self) -> int:
        """Number of members."""
        ...

    def learn(self, rows: Rows, rng: np.random.Generator, which: tuple[int, ...]) -> Panel:
        """Train some members."""
        ...


def forward(values: Floats, scale: Scale) -> Floats:
    """Convert to comparison space."""
    return np.log(values) if scale is Scale.LOG else values / SCORE_UNIT


def backward(z: Floats, scale: Scale) -> Floats:
    """Convert back to the unit of the matrix; scores are limited to 0-100."""
    if scale is Scale.LOG:
        # e^709 is the limit of a float
        return np.exp(np.minimum(np.maximum(z, -700.0), 700.0))
    return np.minimum(np.maximum(z * SCORE_UNIT, 0.0), 100.0)


def is_measurement(values: Floats, scale: Scale) -> Bools:
    """Return whether each value is a possible measurement; NaN is not."""
    if scale is Scale.LOG:
        return (values > 0) & (values < np.inf)
    return (values >= 0) & (values <= 100)


def check_values(values: Floats, known: Bools, scale: Scale, *, name: str) -> None:
    """Reject impossible values.

    Raises
    ------
    ValueError : names the argument, the index and the value.
    """
    bad = known & ~is_measurement(values, scale)
    accepted = "positive and finite" if scale is Scale.LOG else "between 0 and 100"
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"{name} must be {accepted}, got {values[at]} at {at}")


def blended(each: Spread, share: Floats) -> Spread:
    """(q, m) centre and deviation of a mixture of (M, q, m) members."""
    centre = np.einsum("m,mqj->qj", share, each.mean)
    variance = np.einsum("m,mqj->qj", share, each.deviation**2 + (each.mean - centre) ** 2)
    return Spread(centre, np.sqrt(variance))
