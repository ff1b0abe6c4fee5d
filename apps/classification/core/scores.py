"""Scores of interference of one application: what it tolerates and causes.

N = 10 sources, in the order of `SOURCES`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.classification.core.cells import KnownCell
from apps.classification.core.estimates import HALF_WIDTH_90, Estimates
from apps.classification.core.matrix import MatrixName
from apps.classification.core.profile import Profile
from apps.common.core.interference import SOURCES

FULL: Final = 100.0


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Scores of one application, in the order of `SOURCES`.

    Attributes
    ----------
    tolerated, caused : (N,) scores 0-100 with 90 % intervals; `measured` says which are known
    """

    tolerated: Estimates
    caused: Estimates

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Sources whose tolerance is inferred or assumed."""
        pairs = zip(SOURCES, self.tolerated.measured.tolist(), strict=True)
        return tuple(name for name, is_measured in pairs if not is_measured)


def scores_of_profile(profile: Profile) -> Scores:
    """Return the scores of a profile, measured and inferred."""
    return Scores(profile.tolerated, profile.caused)


def scores_of_cells(cells: Iterable[KnownCell]) -> Scores | None:
    """Return the scores of known cells without a profile; None if there is none.

    A source without a cell counts as tolerated and not caused, as in placement.
    """
    known = list(cells)
    tolerated = _row(known, MatrixName.TOLERATED, FULL)
    caused = _row(known, MatrixName.CAUSED, 0.0)
    if not tolerated.measured.any() and not caused.measured.any():
        return None
    return Scores(tolerated, caused)


def _row(cells: Iterable[KnownCell], matrix: MatrixName, default: float) -> Estimates:
    value, half = np.full(len(SOURCES), default), np.zeros(len(SOURCES))
    measured = np.zeros(len(SOURCES), dtype=np.bool_)
    for cell in cells:
        if cell.matrix is matrix and cell.column in SOURCES:
            place = SOURCES.index(cell.column)
            value[place], half[place] = cell.value, HALF_WIDTH_90 * cell.standard_error
            measured[place] = True
    low, high = np.clip(value - half, 0.0, FULL), np.clip(value + half, 0.0, FULL)
    return Estimates(value, low, high, measured)
