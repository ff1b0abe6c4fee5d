"""Confidence intervals shown next to a number."""

import math


def wilson(successes: int, trials: int, *, z: float = 1.96) -> tuple[float, float]:
    """Return the confidence interval of a share, within [0, 1]; (0, 1) without trials.

    Source: Wilson 1927; z = 1.96 gives 95 %.
    """
    if trials == 0:
        return 0.0, 1.0
    share = successes / trials
    centre = share + z * z / (2 * trials)
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)
