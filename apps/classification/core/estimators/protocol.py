"""What every estimator of a utility matrix takes and answers.

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

# so that a typical difference between applications has about the same size on both scales
SCORE_UNIT: Final = 50.0
FOLDS: Final = 10

Singles = NDArray[np.float32]


class EmptyLibraryError(ValueError):
    """There is no row to compare with."""


class Fold(NamedTuple):
    """Full rows: values and the ends of their 90 % intervals, in the unit of the matrix."""

    value: Floats
    low: Floats
    high: Floats


class Sparse(NamedTuple):
    """Rows with so few cells that they say something of all rows, and cannot stand for one.

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
    """What a learner may learn from.

    Attributes
    ----------
    z : (n, m) float64 in comparison space, missing cells filled
    known : (n, m) True where z was measured, not filled
    groups : (n,) int, the application of each row: rows of one application resemble each other
    sparse : rows beside them, None when there are none
    """

    z: Floats
    known: Bools
    groups: Ints
    sparse: Sparse | None = None

    @cached_property
    def parts(self) -> "tuple[Part, ...]":
        """All applications held out in turn, in at most `FOLDS` parts; none of a single one."""
        names, index = np.unique(self.groups, return_inverse=True)
        folds = min(FOLDS, names.size) if names.size > 1 else 0
        outs = [np.asarray(index % folds == fold) for fold in range(folds)]
        return tuple(
            Part(out, self.without(out, names[fold::folds])) for fold, out in enumerate(outs)
        )

    def without(self, out: Bools, groups: Ints) -> "Rows":
        """Leave out (n,) rows, and all sparse ones of their applications."""
        kept = Rows(self.z[~out], self.known[~out], self.groups[~out])
        if self.sparse is None:
            return kept
        rest = ~np.isin(self.sparse.groups, groups)
        if not rest.any():
            return kept
        z, known, names = self.sparse
        return replace(kept, sparse=Sparse(z[rest], known[rest], names[rest]))


class Part(NamedTuple):
    """(n,) rows held out, and the others."""

    out: Bools
    kept: Rows


class Told(NamedTuple):
    """The k known cells of each of q rows, k the same for all, maybe 0.

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
    """A learner that has learnt."""

    def predict(self, told: Told) -> Spread:
        """Predict all m cells of q rows."""
        ...


Learner = Callable[[Rows, np.random.Generator], Predictor]


class Panel(Protocol):
    """Members that have learnt from the same rows."""

    def each(self, told: Told) -> Spread:
        """(M, q, m) what every member predicts."""
        ...

    def blend(self, told: Told, share: Floats) -> Spread:
        """(q, m) mixture of the members by ``share`` (M,) > 0, sum 1."""
        ...


class Members(Protocol):
    """Learners that an estimator compares and mixes."""

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    def learn(self, rows: Rows, rng: np.random.Generator, which: tuple[int, ...]) -> Panel:
        """Learn some of them."""
        ...


def forward(values: Floats, scale: Scale) -> Floats:
    """Into comparison space."""
    return np.log(values) if scale is Scale.LOG else values / SCORE_UNIT


def backward(z: Floats, scale: Scale) -> Floats:
    """Back into the unit of the matrix; scores stay within 0-100."""
    if scale is Scale.LOG:
        # e^700 is the largest power of ten a float holds
        return np.exp(np.minimum(np.maximum(z, -700.0), 700.0))
    return np.minimum(np.maximum(z * SCORE_UNIT, 0.0), 100.0)


def is_measurement(values: Floats, scale: Scale) -> Bools:
    """Whether each value can be one; NaN cannot."""
    if scale is Scale.LOG:
        return (values > 0) & (values < np.inf)
    return (values >= 0) & (values <= 100)


def check_values(values: Floats, known: Bools, scale: Scale, *, name: str) -> None:
    """Refuse what cannot be a measurement.

    Raises
    ------
    ValueError : names the argument, the place and the value seen.
    """
    bad = known & ~is_measurement(values, scale)
    what = "positive and finite" if scale is Scale.LOG else "between 0 and 100"
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"{name} must be {what}, got {values[at]} at {at}")


def blended(each: Spread, share: Floats) -> Spread:
    """(q, m) centre and deviation of a mixture of (M, q, m) members."""
    centre = np.einsum("m,mqj->qj", share, each.mean)
    variance = np.einsum("m,mqj->qj", share, each.deviation**2 + (each.mean - centre) ** 2)
    return Spread(centre, np.sqrt(variance))
