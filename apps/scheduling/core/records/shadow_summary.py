"""Agreement and predicted regret of a shadow over many decisions, with 95 % intervals.

Shares have Wilson's interval. Means have a normal interval whose variance is that of the sums of
the batches: the decisions of one batch see the same cluster, so they are not independent.
"""

import math
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

import numpy as np

from apps.common.core.intervals import wilson
from apps.inventory.core.snapshot import Bools, Floats, Ints

Z: Final = 1.96  # 95 %
MIN_BATCHES: Final = 10  # with fewer, a mean has no interval


class Estimate(NamedTuple):
    """A share or mean with its 95 % interval; None = it cannot be computed."""

    value: float | None
    low: float | None
    high: float | None

    def as_json(self) -> dict[str, float | None]:
        """JSON form."""
        return self._asdict()


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """n compared decisions, by column.

    Attributes
    ----------
    batch : (n,) number of the batch that a decision was made in
    live_placed, shadow_placed : (n,) at least one of them
    same_units, same_servers, same_platforms : (n,)
    job, neighbours : (n,) parts of the regret; NaN unless both placed the job
    """

    batch: Ints
    live_placed: Bools
    shadow_placed: Bools
    same_units: Bools
    same_servers: Bools
    same_platforms: Bools
    job: Floats
    neighbours: Floats

    def where(self, mask: Bools) -> "Compared":
        """Return a part of the decisions."""
        return Compared(**{each.name: getattr(self, each.name)[mask] for each in fields(self)})


@dataclass(frozen=True, slots=True)
class Summary:
    """Agreement and predicted regret of a shadow policy.

    Attributes
    ----------
    decisions : on which at least one of both placed the job
    both, only_live, only_shadow : numbers of decisions by who placed the job
    same_units, same_servers, same_platforms : shares of all decisions
    regret : mean over the decisions where both placed the job; ``job`` + ``neighbours``
    """

    decisions: int
    both: int
    only_live: int
    only_shadow: int
    same_units: Estimate
    same_servers: Estimate
    same_platforms: Estimate
    regret: Estimate
    job: Estimate
    neighbours: Estimate

    def as_json(self) -> dict[str, Any]:
        """JSON form."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {n: v.as_json() if isinstance(v, Estimate) else v for n, v in values.items()}


def summary(compared: Compared) -> Summary:
    """Return agreement and mean regret. O(n log n)."""
    both = compared.live_placed & compared.shadow_placed
    placed = compared.where(both)
    return Summary(
        decisions=both.size,
        both=int(both.sum()),
        only_live=int((compared.live_placed & ~both).sum()),
        only_shadow=int((compared.shadow_placed & ~both).sum()),
        same_units=share(compared.same_units),
        same_servers=share(compared.same_servers),
        same_platforms=share(compared.same_platforms),
        regret=mean(placed.job + placed.neighbours, placed.batch),
        job=mean(placed.job, placed.batch),
        neighbours=mean(placed.neighbours, placed.batch),
    )


def share(is_true: Bools) -> Estimate:
    """Return the share of true values, with Wilson's interval."""
    if not is_true.size:
        return Estimate(None, None, None)
    low, high = wilson(int(is_true.sum()), is_true.size, z=Z)
    return Estimate(float(is_true.mean()), low, high)


def mean(values: Floats, groups: Ints) -> Estimate:
    """Return the mean of (n,) values, with a normal interval for (n,) groups that are independent.

    The variance of the mean is G / (G - 1) times the sum, over the G groups, of the squared sum of
    the group's deviations, over n².

    Source: Cameron, Miller, "A Practitioner's Guide to Cluster-Robust Inference", 2015, Eq. 11.
    """
    if not values.size:
        return Estimate(None, None, None)
    value = float(values.mean())
    _, group = np.unique(groups, return_inverse=True)
    sums = np.bincount(group, weights=values - value)
    if sums.size < MIN_BATCHES:
        return Estimate(value, None, None)
    variance = float((sums**2).sum()) * sums.size / (sums.size - 1) / values.size**2
    half = Z * math.sqrt(variance)
    return Estimate(value, value - half, value + half)
