"""Quantiles of waits, corrected by the errors of earlier estimates.

The simulation of the queue leaves out how long agents take, memory and placement. Its errors of
the last hours are known, so each quantile is moved until it held among the earlier estimates of
waits of about the same length.

Source: conformalized quantile regression (Romano, Patterson and Candès, NeurIPS 2019), one
quantile at a time and local in the predicted wait.
"""

from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Floats

LEVELS: Final = (0.05, 0.5, 0.9, 0.95)
NEAREST: Final = 80  # earlier estimates that correct one
ENOUGH: Final = 30  # earlier estimates without which nothing is corrected
_MEDIAN: Final = LEVELS.index(0.5)


class Scored(NamedTuple):
    """Earlier estimates of jobs that have started.

    Attributes
    ----------
    simulated_s : (n, 4) simulated quantiles of the wait, at `LEVELS`
    waited_s : (n,) what happened
    """

    simulated_s: Floats
    waited_s: Floats


def calibrate(simulated_s: Floats, scored: Scored) -> Floats:
    """Return corrected quantiles of waits. O(n log n + m n), m distinct neighbourhoods.

    Parameters
    ----------
    simulated_s : (k, 4) quantiles at `LEVELS`; infinite ones stay infinite

    Returns
    -------
    (k, 4), at least 0 and ascending in each row
    """
    count = scored.waited_s.size
    if count < ENOUGH or not simulated_s.size:
        return simulated_s
    order = np.argsort(scored.simulated_s[:, _MEDIAN], kind="stable")
    medians = scored.simulated_s[order, _MEDIAN]
    errors = scored.waited_s[order, None] - scored.simulated_s[order]
    width = min(NEAREST, count)
    middles = np.searchsorted(medians, simulated_s[:, _MEDIAN])
    firsts, which = np.unique(np.clip(middles - width // 2, 0, count - width), return_inverse=True)
    shifts = np.array([_shift(errors[first : first + width]) for first in firsts])
    moved = np.maximum(simulated_s + shifts[which.reshape(-1)], 0.0)
    corrected: Floats = np.maximum.accumulate(moved, axis=1)
    return corrected


def _shift(errors: Floats) -> Floats:
    """(4,) the correction of each quantile, from the (n, 4) errors of earlier ones."""
    ranks = np.ceil((len(errors) + 1) * np.array(LEVELS)).astype(np.int64) - 1
    ranks = np.clip(ranks, 0, len(errors) - 1)
    shifts: Floats = np.sort(errors, axis=0)[ranks, np.arange(len(LEVELS))]
    return shifts
