"""Detect drift: lasting prediction errors of an application (Quasar §4.1, Paragon P7).

Standardised innovations z (`core.feedback`) are standard normal while the belief is correct. Two
cumulative sums (Page 1954) accumulate deviations beyond k on either side; drift is detected when
one reaches h. Feedback corrects small and early errors; the sums detect changes of behaviour.

Source: Page, Continuous inspection schemes (1954); run length after Siegmund, Sequential Analysis
(1985), Eq. 2.56, with the correction 1.166 for the overshoot.
"""

import math
from dataclasses import dataclass
from typing import Final

from apps.inventory.core.snapshot import Floats

REASON: Final = "drift"  # of profiling runs requested after drift
# k: feedback corrects mean errors below one deviation, so they never accumulate; shifts of two
# deviations and more are detected fastest
SLACK: Final = 1.0
LIMIT: Final = 6.0  # h: one false alarm in 400,000 observations if they were normal
CLIPPED: Final = 3.0  # one observation adds at most this minus k, so at least three must agree
MEMORY: Final = 0.2  # weight of the newest error in the moving mean
_OVERSHOOT: Final = 1.166


@dataclass(frozen=True, slots=True)
class Cusum:
    """State of the cumulative sums after k observations.

    Attributes
    ----------
    observations : k
    faster, slower : cumulative sums, >= 0, of jobs faster and slower than predicted
    mean_error : moving mean of ln(measured / expected)
    is_flagged : whether either sum has reached the limit
    """

    observations: int = 0
    faster: float = 0.0
    slower: float = 0.0
    mean_error: float = 0.0
    is_flagged: bool = False


def cusum(innovations: Floats, errors: Floats) -> Cusum:
    """Accumulate observations in order.

    Parameters
    ----------
    innovations : (k,) in deviations
    errors : (k,) ln(measured / expected)
    """
    faster = slower = mean = 0.0
    is_flagged = False
    for count, (innovation, error) in enumerate(
        zip(innovations.tolist(), errors.tolist(), strict=True), start=1
    ):
        z = min(max(innovation, -CLIPPED), CLIPPED)
        faster = max(0.0, faster + z - SLACK)
        slower = max(0.0, slower - z - SLACK)
        is_flagged = is_flagged or max(faster, slower) >= LIMIT
        # starts as the plain mean, so that the initial 0 has no weight
        mean += max(MEMORY, 1.0 / count) * (error - mean)
    return Cusum(int(innovations.size), faster, slower, mean, is_flagged)


def mean_run_length(slack: float = SLACK, limit: float = LIMIT) -> float:
    """Mean number of observations between false alarms of both sums, for standard normal z."""
    reach = 2.0 * slack * (limit + _OVERSHOOT)
    one_sided = (math.exp(reach) - reach - 1.0) / (2.0 * slack**2)
    return one_sided / 2.0
