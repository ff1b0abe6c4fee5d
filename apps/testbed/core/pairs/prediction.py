"""Predicted slowdown of an application next to another one, from what both tolerate and cause.

N = 10 sources of interference. The model is that of placement (`scheduling.core.loss`), and its
pressure is Tarcil's Eq. 3: the units of the neighbour, over all units of the server but one. Only
the neighbour presses; units of the application itself are no interference.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.classification.core.cells import KnownCell
from apps.classification.core.estimates import HALF_WIDTH_90, Estimate, Estimates
from apps.classification.core.matrix import MatrixName
from apps.classification.core.profile import Profile
from apps.common.core.interference import SOURCES
from apps.inventory.core.snapshot import Floats
from apps.scheduling.core.loss import log_performance

FULL: Final = 100.0
DRAWS: Final = 4_000
TAILS: Final = (0.05, 0.95)


@dataclass(frozen=True, slots=True, eq=False)
class PairScores:
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


def scores_of_profile(profile: Profile) -> PairScores:
    """Return the scores of a profile, measured and inferred."""
    return PairScores(profile.tolerated, profile.caused)


def scores_of_cells(cells: Iterable[KnownCell]) -> PairScores | None:
    """Return the scores of known cells without a profile; None if there is none.

    A source without a cell counts as tolerated and not caused, as in placement.
    """
    known = list(cells)
    tolerated = _row(known, MatrixName.TOLERATED, FULL)
    caused = _row(known, MatrixName.CAUSED, 0.0)
    if not tolerated.measured.any() and not caused.measured.any():
        return None
    return PairScores(tolerated, caused)


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


def predicted_slowdown(
    own: PairScores,
    neighbour: PairScores,
    *,
    units: int,
    server_units: int,
    rng: np.random.Generator,
) -> Estimate:
    """Return the time next to the neighbour over the time alone, with its 90 % interval.

    The interval has the errors of all scores, drawn independently; not that of the model's form.

    Parameters
    ----------
    units : of the neighbour
    server_units : of the server, more than `units`
    rng : of the draws

    Raises
    ------
    ValueError : the server has no unit for the application.
    """
    if not 1 <= units < server_units:
        raise ValueError(f"units must lie between 1 and {server_units - 1}, got {units}")
    share = units / (server_units - 1)
    value = _slowdown(own.tolerated.value, neighbour.caused.value * share)
    draws = _slowdown(
        _drawn(own.tolerated, rng), _drawn(neighbour.caused, rng) * share
    )  # fmt: skip
    low, high = np.quantile(draws, TAILS)
    return Estimate(float(value), float(min(low, value)), float(max(high, value)))


def _slowdown(tolerated: Floats, pressure: Floats) -> Floats:
    """(...) slowdown for (..., N) scores."""
    logs = log_performance(np.minimum(pressure, FULL), tolerated)
    slowdown: Floats = np.exp(-logs.sum(axis=-1))
    return slowdown


def _drawn(estimates: Estimates, rng: np.random.Generator) -> Floats:
    """(DRAWS, N) scores: normal on each side of the estimate, within 0-100."""
    value, low, high = estimates.ends
    standard = rng.standard_normal((DRAWS, value.size)) / HALF_WIDTH_90
    spread = np.where(standard < 0.0, value - low, high - value)
    return np.clip(value + standard * spread, 0.0, FULL)
