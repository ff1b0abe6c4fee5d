"""When predictions of an application have gone wrong for good (Quasar §4.1, Paragon P7).

Standardised innovations z (`core.feedback`) are standard normal while the belief is right. Two
cumulated sums (Page 1954) add up what lies beyond k deviations on either side; one that reaches h
says that the mean has moved. Learning takes up what is small or new, the sums find what learning
cannot follow: an application that is not any more what was measured.

Source: Page, Continuous inspection schemes (1954); run length after Siegmund, Sequential Analysis
(1985), Eq. 2.56, with the correction 1.166 for the overshoot.
"""

import math
from dataclasses import dataclass
from typing import Final

from apps.inventory.core.snapshot import Floats

REASON: Final = "drift"  # of the profiling runs that it asks for
# k: a mean that is off by less than one deviation is for learning to follow, and never adds up;
# shifts of two and more are found soonest
SLACK: Final = 1.0
LIMIT: Final = 6.0  # h: one false alarm in 400,000 observations, would they be normal
CLIPPED: Final = 3.0  # one observation adds at most this less k, so that at least three must agree
MEMORY: Final = 0.2  # weight of the newest error in the moving mean
_OVERSHOOT: Final = 1.166


@dataclass(frozen=True, slots=True)
class Sums:
    """Where the sums stand after k observations.

    Attributes
    ----------
    observations : k
    faster, slower : cumulated sums, >= 0, of jobs that went faster and slower than expected
    mean_error : moving mean of ln(measured / expected)
    is_flagged : whether either sum reached the limit at any of them
    """

    observations: int = 0
    faster: float = 0.0
    slower: float = 0.0
    mean_error: float = 0.0
    is_flagged: bool = False


def summed(innovations: Floats, errors: Floats) -> Sums:
    """Sum up observations in their order.

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
        # the mean of all at first, so that it does not start at 0 by decree
        mean += max(MEMORY, 1.0 / count) * (error - mean)
    return Sums(int(innovations.size), faster, slower, mean, is_flagged)


def mean_run_length(slack: float = SLACK, limit: float = LIMIT) -> float:
    """Observations between false alarms of the two sums together, z being standard normal."""
    reach = 2.0 * slack * (limit + _OVERSHOOT)
    one_sided = (math.exp(reach) - reach - 1.0) / (2.0 * slack**2)
    return one_sided / 2.0
