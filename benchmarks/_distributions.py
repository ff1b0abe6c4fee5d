"""Two samples of durations that are paired by job and grouped by seed: how far they are apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import stats

from apps.inventory.core.snapshot import Floats
from apps.testbed.core.fitting import ks_distance

QUANTILES: Final = (0.5, 0.9, 0.99)
COVERAGE: Final = 0.95
DRAWS: Final = 2_000
SIGNIFICANCE: Final = 0.05


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Distance:
    """How far the second sample is from the first.

    Attributes
    ----------
    ks : largest distance between the distribution functions, 0-1
    limit : two independent samples of one distribution are farther apart in 5 % of the cases
    mean : mean of second minus first, in the unit of the samples
    """

    ks: float
    limit: float
    mean: Interval

    @property
    def is_distinguishable(self) -> bool:
        """Whether the samples differ more than two samples of one distribution would."""
        return self.ks > self.limit


def quantiles(groups: Sequence[Floats], *, rng: np.random.Generator) -> list[Interval]:
    """Return the quantiles of `QUANTILES` of all groups together, with bootstrap intervals.

    The bootstrap draws groups, then values within each: runs of one seed share their load.

    Parameters
    ----------
    groups : (n,) each; one group for each seed
    """
    draws = np.array([np.quantile(_resampled(groups, rng), QUANTILES) for _ in range(DRAWS)])
    tail = (1.0 - COVERAGE) / 2.0
    low, high = np.quantile(draws, (tail, 1.0 - tail), axis=0)
    values = np.quantile(np.concatenate(groups), QUANTILES)
    return [Interval(*row) for row in np.column_stack([values, low, high]).tolist()]


def _resampled(groups: Sequence[Floats], rng: np.random.Generator) -> Floats:
    chosen = rng.integers(0, len(groups), len(groups))
    return np.concatenate(
        [groups[k][rng.integers(0, groups[k].size, groups[k].size)] for k in chosen]
    )


def distance(first: Sequence[Floats], second: Sequence[Floats]) -> Distance:
    """Compare two samples; group k of both has the same jobs in the same order.

    The interval of the mean is Student's t over the means of the groups.

    Raises
    ------
    ValueError : fewer than two groups, or a group has different numbers of jobs.
    """
    if len(first) < 2:
        raise ValueError(f"at least two groups are needed, got {len(first)}")
    if [each.size for each in first] != [each.size for each in second]:
        raise ValueError("both samples must have the same jobs in each group")
    pooled, other = np.concatenate(first), np.concatenate(second)
    differences = np.array([float((b - a).mean()) for a, b in zip(first, second, strict=True)])
    centre = float(differences.mean())
    spread = float(differences.std(ddof=1)) / np.sqrt(differences.size)
    reach = float(stats.t.ppf(0.5 + COVERAGE / 2.0, differences.size - 1)) * spread
    return Distance(
        ks_distance(pooled, other),
        ks_limit(pooled.size, other.size),
        Interval(centre, centre - reach, centre + reach),
    )


def ks_limit(first: int, second: int) -> float:
    """Return the distance that two samples of one distribution exceed in 5 % of the cases.

    Source: Smirnov (1948), asymptotic: sqrt(-ln(a/2) / 2) · sqrt((n + m) / (n m)).
    """
    factor = np.sqrt(-np.log(SIGNIFICANCE / 2.0) / 2.0)
    return float(factor * np.sqrt((first + second) / (first * second)))
