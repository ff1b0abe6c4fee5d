"""What every estimator of a utility matrix takes and answers.

n rows of the library, m columns, q rows to complete, k known cells; z are cells in comparison
space: logarithms for rates and speed-ups, points / 50 for 0-100 scores. NaN is a missing cell.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np

from apps.classification.core.matrix import Scale
from apps.inventory.core.snapshot import Bools, Floats, Ints

# so that a typical difference between applications has about the same size on both scales
SCORE_UNIT: Final = 50.0


class EmptyLibraryError(ValueError):
    """There is no row to compare with."""


class Fold(NamedTuple):
    """Full rows: values and the ends of their 90 % intervals, in the unit of the matrix."""

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What a learner may learn from.

    Attributes
    ----------
    z : (n, m) float64 in comparison space, missing cells filled
    known : (n, m) True where z was measured, not filled
    groups : (n,) int, the application of each row: rows of one application resemble each other
    """

    z: Floats
    known: Bools
    groups: Ints


class Spread(NamedTuple):
    """(q, m) centres and (q, m) deviations > 0, in comparison space."""

    mean: Floats
    deviation: Floats


class Predictor(Protocol):
    """A learner that has learnt."""

    def predict(self, z: Floats, known: Bools, error: Floats) -> Spread:
        """Predict all cells of q rows.

        Parameters
        ----------
        z : (q, m) in comparison space, 0 where not ``known``
        known : (q, m) True where measured; the same number k of cells in every row, maybe 0
        error : (q, m) standard errors in comparison space, 0 where not ``known``
        """
        ...


Learner = Callable[[Rows, np.random.Generator], Predictor]


def forward(values: Floats, scale: Scale) -> Floats:
    """Into comparison space."""
    return np.log(values) if scale is Scale.LOG else values / SCORE_UNIT


def backward(z: Floats, scale: Scale) -> Floats:
    """Back into the unit of the matrix; scores stay within 0-100."""
    if scale is Scale.LOG:
        # e^700 is the largest power of ten a float holds
        return np.exp(np.clip(z, -700.0, 700.0))
    return np.clip(z * SCORE_UNIT, 0.0, 100.0)


def check_values(values: Floats, known: Bools, scale: Scale, *, name: str) -> None:
    """Refuse what cannot be a measurement.

    Raises
    ------
    ValueError : names the argument, the place and the value seen.
    """
    bad = known & ~np.isfinite(values)
    if scale is Scale.LOG:
        bad |= known & ~(values > 0)
        what = "positive and finite"
    else:
        bad |= known & ((values < 0) | (values > 100))
        what = "between 0 and 100"
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"{name} must be {what}, got {values[at]} at {at}")


def known_columns(known: Bools) -> Ints:
    """(q, k) columns of the known cells of rows that all have k of them."""
    k = int(known[0].sum()) if known.shape[0] else 0
    return np.nonzero(known)[1].reshape(known.shape[0], k)
