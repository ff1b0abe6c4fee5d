"""Sizing: the minimum number of units that meets a job's target (Quasar §3.3, Q4).

m units 1..64, P platforms. The profile predicts performance with an interval for every platform
and m; a platform's size is the minimum m whose pessimistic end meets the target. Policies place m
units on any platform where m is sufficient, so m must be sufficient on a fair part of the cluster.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.estimates import HALF_WIDTH_90
from apps.classification.core.profile import Profile, scale_factors
from apps.common.core.arrays import as_readonly
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.scheduling.core.allowances import DEFAULT, INTERFERENCE_ALLOWANCE, Allowances
from apps.scheduling.core.costs import Cheapest, cheapest, too_expensive, unit_seconds
from apps.scheduling.core.framework_setting import UNCHANGED, best_setting, times
from apps.scheduling.core.response_time import late_share, latency_percentile
from apps.scheduling.core.types import MAX_UNITS, Within
from apps.workloads.core.durations import in_two_units
from apps.workloads.core.targets import (
    BestEffort,
    CompletionTime,
    InstructionRate,
    Target,
    ThroughputLatency,
)

EASIER: Final = 1.05  # ratio of a suggested target to the best prediction
COVERAGE: Final = 0.5  # share of the units where any size meets the target on which this size must
BEST_EFFORT_WAVES: Final = 16
KNOWN_PROFILES: Final = 256  # whose rates are kept, 25 kB each
ON_ONE_SERVER: Final = frozenset({"single_node", "batch"})  # kinds that cannot span servers


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Capacity of the cluster, as needed for sizing.

    Attributes
    ----------
    platforms : P names, those of the profile
    units : open units of each platform, free or busy
    server_units : units of the largest server of each platform
    free : number of ``units`` that are free; None = all
    allowances : share of pessimistic speeds that sizing counts on
    """

    platforms: tuple[str, ...]
    units: tuple[int, ...]
    server_units: tuple[int, ...]
    free: tuple[int, ...] | None = None
    allowances: Allowances = DEFAULT


@dataclass(frozen=True, slots=True)
class Work:
    """Work and constraints of a job, as needed for sizing.

    Attributes
    ----------
    input_bytes : 0 = none
    tasks : equal tasks that run in waves; None = arbitrarily divisible
    elapsed_s : cluster seconds from submission to the expected start
    platforms : allowed, None = all
    locality : requested by the job; None = not
    unit_memory_bytes : requested by the job; 0 = not
    duration_s : cluster seconds after which the job ends in any case; None = never
    max_cost : highest unit-seconds (`core.costs`); None = any
    """

    input_bytes: float = 0.0
    tasks: int | None = None
    elapsed_s: float = 0.0
    platforms: frozenset[str] | None = None
    locality: Within | None = None
    unit_memory_bytes: float = 0.0
    duration_s: float | None = None
    max_cost: float | None = None


@dataclass(frozen=True, slots=True)
class Sized:
    """A size that meets the target.

    Attributes
    ----------
    units : m
    platforms : where m is sufficient; None = any
    locality : whether the units must share a server
    predicted, low, high : performance in the target's unit with its 90 % interval: seconds to
        completion since submission, seconds of latency at the percentile, or rate; on the slowest
        platform of ``platforms``
    probability : that the target is met there
    setting : label of the framework setting of the prediction; empty = default
    allowance : share of the pessimistic speed that it counts on; NaN without one
    slow_rates : work per second at the pessimistic end on each of ``platforms``, without the
        allowance; empty without a target
    cost : unit-seconds on the most expensive of ``platforms``; NaN without a ceiling
    """

    units: int
    platforms: frozenset[str] | None
    locality: Within | None
    predicted: float
    low: float
    high: float
    probability: float
    setting: str = ""
    allowance: float = math.nan
    slow_rates: Mapping[str, float] = field(default_factory=dict)
    cost: float = math.nan

    def slow_rate(self, platforms: Iterable[str]) -> float:
        """Return the pessimistic rate on the slowest of these platforms; NaN if one is unknown."""
        return min((self.slow_rates.get(name, math.nan) for name in platforms), default=math.nan)


@dataclass(frozen=True, slots=True)
class Infeasible:
    """No size meets the target.

    Attributes
    ----------
    units, platform : of the best option
    best : its performance in the target's unit; infinite if the job could not run at all
    suggestion : a remedy, in one sentence
    cost : unit-seconds of the cheapest option, if all cost more than the ceiling; else None
    """

    units: int
    platform: str | None
    best: float
    suggestion: str
    cost: float | None = None


class _Grid(NamedTuple):
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


def size(
    profile: Profile,
    target: Target,
    work: Work,
    facts: ClusterFacts,
    *,
    coverage: float = COVERAGE,
) -> Sized | Infeasible:
    """Return the minimum units that meet the target at the pessimistic end of the interval.

    If no size does, return the one most likely to, among those whose prediction meets the target.

    Parameters
    ----------
    coverage : share, 0-1, of the units (of platforms where any size meets the target) on which
        this size must; 0 gives the minimum on the fastest platforms, which are few and busy
    """
    locality = locality_of(profile, work)
    grid = _grid(profile, target, work, facts, locality)
    if not np.isfinite(grid.rate).any():
        return Infeasible(0, None, math.inf, "allow a platform that the cluster has")
    if isinstance(target, BestEffort):
        return _best_effort(grid, work, facts, locality)
    sure, likely = _met(target, work, grid, grid.low), _met(target, work, grid, grid.rate)
    if not likely.any():
        return _infeasible(target, work, grid, facts)
    cost = _costs(target, work, grid)
    if work.max_cost is not None:
        if not (likely & (cost <= work.max_cost)).any():
            return _too_expensive(target, work, grid, facts, cheapest(cost, likely))
        sure, likely = sure & (cost <= work.max_cost), likely & (cost <= work.max_cost)
    if sure.any():
        units, platforms = _smallest_size(sure, facts, coverage)
    else:
        units, platforms = _most_likely(target, work, grid, likely)
    sized = _sized(target, work, grid, _ChosenSize(units, platforms, facts, locality))
    return _with_cost(sized, work, cost[units - 1, platforms])


def fixed_size(
    profile: Profile, target: Target, work: Work, facts: ClusterFacts, units: int
) -> Sized | Infeasible:
    """Return a size that the submitter fixed, without a prediction, where its cost is allowed."""
    locality = locality_of(profile, work)
    sized = Sized(units, work.platforms, locality, math.nan, math.nan, math.nan, math.nan)
    if work.max_cost is None:
        return sized
    grid = _grid(profile, target, work, facts, locality)
    row = min(units, grid.units.size) - 1
    cost = _costs(target, work, grid)[[row]] * (units / (row + 1))
    if np.isnan(cost).all():
        return sized  # no server matches: the policy says why
    if not (cost <= work.max_cost).any():
        best = cheapest(cost, ~np.isnan(cost))._replace(row=row)
        return replace(_too_expensive(target, work, grid, facts, best), units=units)
    platforms = np.flatnonzero(cost[0] <= work.max_cost).tolist()
    names = frozenset(facts.platforms[p] for p in platforms)
    return _with_cost(replace(sized, platforms=names), work, cost[0, platforms])


def _costs(target: Target, work: Work, grid: _Grid) -> Floats:
    """(m, P) unit-seconds of each size on each platform."""
    is_work = isinstance(target, CompletionTime | BestEffort)
    return unit_seconds(
        grid.units,
        grid.low,
        input_bytes=work.input_bytes if is_work else 0.0,
        duration_s=work.duration_s,
    )


def _with_cost(sized: Sized, work: Work, cost: Floats) -> Sized:
    return sized if work.max_cost is None else replace(sized, cost=float(cost.max()))


def _too_expensive(
    target: Target, work: Work, grid: _Grid, facts: ClusterFacts, best: Cheapest
) -> Infeasible:
    rate = grid.rate[best.row, best.column, None]
    return Infeasible(
        units=best.row + 1,
        platform=facts.platforms[best.column],
        best=float(_performance(target, work, best.row + 1, rate)[0]),
        suggestion=too_expensive(work.max_cost or math.inf, best.cost),
        cost=best.cost,
    )


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


def performance_grid(
    profile: Profile, target: Target, work: Work, facts: ClusterFacts
) -> PerformanceGrid:
    """Predict the performance of each size on each platform, from the grid that ``size`` uses."""
    grid = _grid(profile, target, work, facts, locality_of(profile, work))
    shown = (
        _performance(target, work, grid.units, rate) for rate in (grid.rate, grid.low, grid.high)
    )
    return PerformanceGrid(grid.units[:, 0], *shown)


class _ChosenSize(NamedTuple):
    units: int
    platforms: Sequence[int]  # indices
    facts: ClusterFacts
    locality: Within | None


def locality_of(profile: Profile, work: Work) -> Within | None:
    """Return the locality of the units: as requested, or one server for kinds that cannot span."""
    if work.locality is None and profile.kind in ON_ONE_SERVER:
        return Within.SERVER
    return work.locality


def _grid(
    profile: Profile, target: Target, work: Work, facts: ClusterFacts, locality: Within | None
) -> _Grid:
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
    return _Grid(sizes[:, None], rate, low, high, setting)


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


def _met(target: Target, work: Work, grid: _Grid, rate: Floats) -> Bools:
    """(m, P) whether the target is met at these rates."""
    match target:
        case CompletionTime():
            return work.elapsed_s + work.input_bytes / rate <= target.seconds
        case ThroughputLatency():
            late = late_share(grid.units, rate, target.qps, target.latency_seconds)
            return late <= 1.0 - target.percentile / 100.0
        case InstructionRate():
            return rate >= target.ips
        case BestEffort():
            return np.isfinite(rate)


def _smallest_size(met: Bools, facts: ClusterFacts, coverage: float) -> tuple[int, Sequence[int]]:
    """Return the minimum size sufficient on ``coverage`` of the free units where any size is.

    Sizes stay small while the fast platforms have room, and grow as these fill up.
    """
    covered = met @ np.array(facts.units if facts.free is None else facts.free)
    if not covered.any():  # no sufficient platform has a free unit: the job will wait
        covered = met @ np.array(facts.units)
    first = int(np.argmax(covered >= max(coverage * covered.max(), 1)))
    return first + 1, np.flatnonzero(met[first]).tolist()


def _most_likely(
    target: Target, work: Work, grid: _Grid, likely: Bools
) -> tuple[int, Sequence[int]]:
    """Return the size with the highest pessimistic rate among those predicted to be sufficient."""
    low = np.where(likely, grid.low, -np.inf)
    row, column = np.unravel_index(int(np.argmax(low)), low.shape)
    return int(row) + 1, [int(column)]


def _sized(target: Target, work: Work, grid: _Grid, choice: _ChosenSize) -> Sized:
    row = choice.units - 1
    slowest = min(choice.platforms, key=lambda p: grid.low[row, p])
    rates = np.array([array[row, slowest] for array in (grid.rate, grid.low, grid.high)])
    shown = _performance(target, work, choice.units, rates).tolist()
    return Sized(
        units=choice.units,
        platforms=frozenset(choice.facts.platforms[p] for p in choice.platforms),
        locality=choice.locality,
        predicted=shown[0],
        low=min(shown[1:]),
        high=max(shown[1:]),
        probability=_probability(target, work, choice.units, rates),
        setting=grid.setting,
        allowance=(allowance := choice.facts.allowances.of(target.kind)),
        slow_rates={
            choice.facts.platforms[p]: float(grid.low[row, p]) / allowance
            for p in choice.platforms
        },
    )


def _performance(target: Target, work: Work, units: int | Ints, rate: Floats) -> Floats:
    """Convert rates of any shape to the target's unit; ``units`` is broadcast."""
    match target:
        case CompletionTime():
            return work.elapsed_s + work.input_bytes / rate
        case ThroughputLatency():
            share = target.percentile / 100.0
            return latency_percentile(units, rate, target.qps, share)
        case InstructionRate() | BestEffort():
            return rate


def _probability(target: Target, work: Work, units: int, rates: Floats) -> float:
    """Return the probability that the rate is sufficient, with a log-normal distribution."""
    rate, low, high = rates.tolist()
    deviation = math.log(high / low) / (2.0 * HALF_WIDTH_90)
    margin = math.log(rate / _needed(target, work, units, rate))
    if deviation == 0.0:
        return float(margin >= 0.0)
    return 0.5 * math.erfc(-margin / deviation / math.sqrt(2.0))


def _needed(target: Target, work: Work, units: int, rate: float) -> float:
    """Return the minimum rate that meets the target."""
    match target:
        case CompletionTime():
            left = target.seconds - work.elapsed_s
            return work.input_bytes / left if left > 0 and work.input_bytes > 0 else 1e-300
        case ThroughputLatency():
            return _needed_capacity(target, units, rate)
        case InstructionRate():
            return target.ips
        case BestEffort():
            return rate


def _needed_capacity(target: ThroughputLatency, units: int, rate: float) -> float:
    """Return the minimum capacity that meets the latency, by bisection in the logarithm."""
    low, high = target.qps, max(rate, target.qps) * 1e3
    for _ in range(40):
        middle = math.sqrt(low * high)
        late = late_share(
            np.array([[units]]), np.array([[middle]]), target.qps, target.latency_seconds
        ).item()
        if late > 1.0 - target.percentile / 100.0:
            low = middle
        else:
            high = middle
    return high


def _best_effort(
    grid: _Grid, work: Work, facts: ClusterFacts, locality: Within | None
) -> Sized | Infeasible:
    """Return the units that run the tasks in sixteen waves; one if the work has no tasks.

    Best effort uses leftover capacity and gets few units, but a job of ten thousand tasks on one
    unit would take too long. With a ceiling on its cost, fewer units if these cost too much.
    """
    needed = math.ceil((work.tasks or 1) / BEST_EFFORT_WAVES)
    covered = np.isfinite(grid.rate) @ np.array(facts.units)
    units = min(needed, int(np.flatnonzero(covered >= COVERAGE * covered.max())[-1]) + 1)
    platforms, cost = None, _costs(BestEffort(), work, grid)
    chosen = np.arange(cost.shape[1])
    if work.max_cost is not None:
        fits = (cost[:units] <= work.max_cost).any(axis=1)
        if not fits.any():
            best = cheapest(cost[:units], np.isfinite(grid.rate[:units]))
            return _too_expensive(BestEffort(), work, grid, facts, best)
        units = int(np.flatnonzero(fits)[-1]) + 1
        chosen = np.flatnonzero(cost[units - 1] <= work.max_cost)
        platforms = frozenset(facts.platforms[p] for p in chosen)
    ends = (a[units - 1, chosen] for a in (grid.rate, grid.low, grid.high))
    rate, low, high = (float(np.nanmin(end)) for end in ends)
    sized = Sized(
        units, platforms, locality, rate, low, high, probability=1.0, setting=grid.setting
    )
    return _with_cost(sized, work, cost[units - 1, chosen])


def _infeasible(target: Target, work: Work, grid: _Grid, facts: ClusterFacts) -> Infeasible:
    row, column = np.unravel_index(int(np.nanargmax(grid.rate)), grid.rate.shape)
    units, platform = int(row) + 1, facts.platforms[int(column)]
    best = float(_performance(target, work, units, grid.rate[row, column, None])[0])
    return Infeasible(units, platform, best, _suggestion(target, work, best))


def _suggestion(target: Target, work: Work, best: float) -> str:
    match target:
        case CompletionTime() if work.elapsed_s >= target.seconds:
            return (
                f"the {_seconds(target.seconds)} have already passed;"
                f" request at least {_seconds(best)}"
            )
        case CompletionTime():
            return f"request at least {_seconds(best * EASIER)}, or split the input"
        case ThroughputLatency() if math.isinf(best):
            return f"no size serves {target.qps:.0f} queries/s; request fewer per job"
        case ThroughputLatency():
            return f"request a latency of at least {best * EASIER:.4g} s, or fewer queries/s"
        case _:
            return f"request at most {best / EASIER:.4g} per second, or split the job"


def _seconds(value: float) -> str:
    """Return seconds rounded up, as a target takes them; from a minute on also in words."""
    whole = math.ceil(value)
    return f"{whole:,} s ({in_two_units(whole)})" if whole >= 60 else f"{whole} s"
