"""Predicted rates of every size of a job on every platform (Quasar §3.3, Q4).

m units 1..64, P platforms; rates are work per second.
"""

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.profile import Profile, scale_factors
from apps.common.core.arrays import as_readonly
from apps.inventory.core.snapshot import Floats, Ints
from apps.scheduling.core.sizing.allowances import INTERFERENCE_ALLOWANCE
from apps.scheduling.core.sizing.framework_setting import UNCHANGED, best_setting, times
from apps.scheduling.core.sizing.sizes import ClusterFacts, Work
from apps.scheduling.core.sizing.target_rates import performance
from apps.scheduling.core.types import MAX_UNITS, Within
from apps.workloads.core.targets import (
    BestEffort,
    CompletionTime,
    InstructionRate,
    Target,
    ThroughputLatency,
)

KNOWN_PROFILES: Final = 256  # whose rates are kept, 25 kB each
ON_ONE_SERVER: Final = frozenset({"single_node", "batch"})  # kinds that cannot span servers


class RateGrid(NamedTuple):
    """Predictions for every size and platform.

    units : (m, 1)
    rate, low, high : (m, P) work per second; NaN if a platform cannot hold the size or is not
        allowed
    setting : framework setting of the predictions
    """

    units: Ints
    rate: Floats
    low: Floats
    high: Floats
    setting: str


class PerformanceGrid(NamedTuple):
    """Performance in the target's unit for every size and platform.

    sizes : (m,) units
    value, low, high : (m, P) at the predicted rate and at both ends of its interval (so ``low`` is
        the greater if lower is better); NaN if a platform cannot hold the size
    """

    sizes: Ints
    value: Floats
    low: Floats
    high: Floats


def rate_grid(
    profile: Profile, target: Target, work: Work, facts: ClusterFacts, locality: Within | None
) -> RateGrid:
    """Rates of every size on every platform: scaled up on one server, else out over servers.

    Scaling out assumes one unit per server, as sampling among thousands of servers gives; units
    that share a server differ by a few percent.
    """
    in_bytes = isinstance(target, CompletionTime | BestEffort)
    sizes = np.arange(1, _max_units(target, work) + 1)
    together = locality == Within.SERVER
    setting, rates = _rates(profile, together, in_bytes, work.unit_memory_bytes)
    rate, low, high = (each[: sizes.size] for each in rates)
    allowed = np.array([work.platforms is None or p in work.platforms for p in facts.platforms])
    allowed &= np.array(facts.units) > 0
    room = np.array(facts.server_units if together else facts.units)
    possible = allowed[None, :] & (sizes[:, None] <= room[None, :])
    busy = np.where(possible, _wave_share(sizes, work.tasks)[:, None], np.nan)
    slow = facts.allowances.of(target.kind)
    usual = max(slow, INTERFERENCE_ALLOWANCE)
    rate, low, high = usual * busy * rate, slow * busy * low, usual * busy * high
    return RateGrid(sizes[:, None], rate, low, high, setting)


def performance_grid(
    profile: Profile, target: Target, work: Work, facts: ClusterFacts
) -> PerformanceGrid:
    """Predict the performance of each size on each platform, from the grid that ``size`` uses."""
    grid = rate_grid(profile, target, work, facts, locality_of(profile.kind, work.locality))
    shown = (
        performance(target, work, grid.units, rate) for rate in (grid.rate, grid.low, grid.high)
    )
    return PerformanceGrid(grid.units[:, 0], *shown)


def locality_of(kind: str, requested: Within | None) -> Within | None:
    """Return the locality of units: as requested, or one server for kinds that cannot span."""
    if requested is None and kind in ON_ONE_SERVER:
        return Within.SERVER
    return requested


@lru_cache(maxsize=KNOWN_PROFILES)
def _rates(
    profile: Profile, together: bool, in_bytes: bool, unit_memory_bytes: float
) -> tuple[str, tuple[Floats, Floats, Floats]]:
    """Return the best framework setting, and rates with both ends, (MAX_UNITS, P) each.

    They depend on nothing that changes while a job waits, so each profile has them once.
    """
    sizes = np.arange(1, MAX_UNITS + 1)
    factors = scale_factors(profile, sizes, together=together, in_bytes=in_bytes)
    setting, speed = "", UNCHANGED
    if in_bytes:
        setting, speed = best_setting(profile, unit_memory_bytes)
    rate, low, high = times(factors, speed)
    return setting, (
        as_readonly(rate, np.float64),
        as_readonly(low, np.float64),
        as_readonly(high, np.float64),
    )


def _max_units(target: Target, work: Work) -> int:
    """Return the maximum parallelism: the number of tasks, if any, and at most 64."""
    if work.tasks is None or isinstance(target, InstructionRate | ThroughputLatency):
        return MAX_UNITS
    return max(1, min(MAX_UNITS, work.tasks))


def _wave_share(sizes: Ints, tasks: int | None) -> Floats:
    """Return the share of units kept busy by equal tasks in waves: T / (m · ceil(T / m))."""
    if tasks is None:
        return np.ones(sizes.size)
    return np.minimum(1.0, tasks / (sizes * np.ceil(tasks / sizes)))
