"""Estimators of utility matrices behind one protocol; the default was chosen by measured error."""

from typing import Final

import numpy as np

from apps.classification.core.estimators.baselines import Single, column_mean, nearest_rows
from apps.classification.core.estimators.factors import Bias, alternating, reconstruction
from apps.classification.core.estimators.flags import Degraded
from apps.classification.core.estimators.gaussian import gaussian, principal, student
from apps.classification.core.estimators.local import Family, Level, Local
from apps.classification.core.estimators.matrix_completion import (
    Completion,
    applications,
    complete,
    completion,
)
from apps.classification.core.estimators.model import SHIFT, Estimator, Model
from apps.classification.core.estimators.protocol import EmptyLibraryError

__all__ = [
    "DEFAULT",
    "ESTIMATORS",
    "Completion",
    "Degraded",
    "EmptyLibraryError",
    "Estimator",
    "Model",
    "applications",
    "complete",
    "completion",
]

NEIGHBOURS: Final = 5
WIDTHS: Final = (0.08, 0.2, 0.4, 0.8)
RETRAINED: Final = 20  # draws of a method that is retrained for every row
BANDWIDTHS: Final = (0.15, 0.25, 0.4, 0.6, 0.85)

_KERNELS: Final = tuple(
    Local(width, Level.DEPENDENT, tail=np.inf, by_application=0.0, west=False, prior_rows=0.0)
    for width in BANDWIDTHS
)
_SHRUNK: Final = tuple(
    Local(width, Level.DEPENDENT, tail=np.inf, by_application=0.0, prior_rows=0.0)
    for width in (0.25, 0.5)
)
# Includes kernel densities without a prior: with about twenty similar rows their error is 1-4 %
# lower than that of members with a prior. The two that shrink towards the mean gain 0.5 % with 400
# rows.
_BLEND: Final = Family(
    (*(Local(width, level) for level in Level for width in WIDTHS), *_KERNELS, *_SHRUNK)
)


def _reconstruction(bias: Bias, *, aligned: bool) -> Estimator:
    return Estimator(Single(reconstruction(bias, aligned=aligned)), draws=RETRAINED, linear=True)


ESTIMATORS: Final[dict[str, Estimator]] = {
    "blend": Estimator(_BLEND, sharpness=8.0, shift=SHIFT),
    "blend_median": Estimator(_BLEND, sharpness=8.0),
    "kde": Estimator(Family(_KERNELS), sharpness=np.inf),
    "gaussian": Estimator(Single(gaussian)),
    "student": Estimator(Single(student)),
    "ppca": Estimator(Single(principal)),
    "knn": Estimator(Single(nearest_rows(NEIGHBOURS))),
    "knn_plain": Estimator(Single(nearest_rows(NEIGHBOURS, moved=False))),
    "als": Estimator(Single(alternating)),
    "pq_paragon": _reconstruction(Bias.NONE, aligned=False),
    "pq_quasar": _reconstruction(Bias.ROW, aligned=False),
    "pq_biased": _reconstruction(Bias.ROW_AND_COLUMN, aligned=True),
    "pq_aligned": _reconstruction(Bias.NONE, aligned=True),
    "column_mean": Estimator(Single(column_mean)),
}
DEFAULT: Final = "blend"
