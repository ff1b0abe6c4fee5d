"""Sizing: the minimum number of units that meets a job's target (Quasar §3.3, Q4).

m units 1..64, P platforms. The profile predicts performance with an interval for every platform
and m; a platform's size is the minimum m whose pessimistic end meets the target. Policies place m
units on any platform where m is sufficient, so m must be sufficient on a fair part of the cluster.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.profile import Profile
from apps.inventory.core.snapshot import Bools, Floats
from apps.scheduling.core.sharing.costs import Cheapest, cheapest, too_expensive, unit_seconds
from apps.scheduling.core.sizing.rate_grid import RateGrid, locality_of, rate_grid
from apps.scheduling.core.sizing.sizes import ClusterFacts, Infeasible, Sized, Work
from apps.scheduling.core.sizing.target_rates import is_met, performance, probability_of
from apps.scheduling.core.types import Within
from apps.workloads.core.durations import in_two_units
from apps.workloads.core.targets import (
    BestEffort,
    CompletionTime,
    Target,
    ThroughputLatency,
)

EASIER: Final = 1.05  # ratio of a suggested target to the best prediction
COVERAGE: Final = 0.5  # share of the units where any size meets the target on which this size must
BEST_EFFORT_WAVES: Final = 16


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
    locality = locality_of(profile.kind, work.locality)
    grid = rate_grid(profile, target, work, facts, locality)
    if not np.isfinite(grid.rate).any():
        return Infeasible(0, None, math.inf, "allow a platform that the cluster has")
    if isinstance(target, BestEffort):
        return _best_effort(grid, work, facts, locality)
    sure, likely = (
        is_met(target, work, grid.units, grid.low),
        is_met(target, work, grid.units, grid.rate),
    )
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
    locality = locality_of(profile.kind, work.locality)
    sized = Sized(units, work.platforms, locality, math.nan, math.nan, math.nan, math.nan)
    if work.max_cost is None:
        return sized
    grid = rate_grid(profile, target, work, facts, locality)
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


def size_on_all(
    profile: Profile, target: Target, work: Work, facts: ClusterFacts, units: int
) -> Sized:
    """Return a size with every platform where it meets the target at the pessimistic end.

    Raises
    ------
    ValueError : it meets the target on no platform.
    """
    locality = locality_of(profile.kind, work.locality)
    grid = rate_grid(profile, target, work, facts, locality)
    cost = _costs(target, work, grid)
    met = is_met(target, work, grid.units, grid.low)
    if work.max_cost is not None:
        met &= cost <= work.max_cost
    platforms = np.flatnonzero(met[units - 1]).tolist()
    if not platforms:
        raise ValueError(f"{units} units meet the target on no platform")
    sized = _sized(target, work, grid, _ChosenSize(units, platforms, facts, locality))
    return _with_cost(sized, work, cost[units - 1, platforms])


class _ChosenSize(NamedTuple):
    units: int
    platforms: Sequence[int]  # indices
    facts: ClusterFacts
    locality: Within | None


def _costs(target: Target, work: Work, grid: RateGrid) -> Floats:
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
    target: Target, work: Work, grid: RateGrid, facts: ClusterFacts, best: Cheapest
) -> Infeasible:
    rate = grid.rate[best.row, best.column, None]
    return Infeasible(
        units=best.row + 1,
        platform=facts.platforms[best.column],
        best=float(performance(target, work, best.row + 1, rate)[0]),
        suggestion=too_expensive(work.max_cost or math.inf, best.cost),
        cost=best.cost,
    )


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
    target: Target, work: Work, grid: RateGrid, likely: Bools
) -> tuple[int, Sequence[int]]:
    """Return the size with the highest pessimistic rate among those predicted to be sufficient."""
    low = np.where(likely, grid.low, -np.inf)
    row, column = np.unravel_index(int(np.argmax(low)), low.shape)
    return int(row) + 1, [int(column)]


def _sized(target: Target, work: Work, grid: RateGrid, choice: _ChosenSize) -> Sized:
    row = choice.units - 1
    slowest = min(choice.platforms, key=lambda p: grid.low[row, p])
    rates = np.array([array[row, slowest] for array in (grid.rate, grid.low, grid.high)])
    shown = performance(target, work, choice.units, rates).tolist()
    return Sized(
        units=choice.units,
        platforms=frozenset(choice.facts.platforms[p] for p in choice.platforms),
        locality=choice.locality,
        predicted=shown[0],
        low=min(shown[1:]),
        high=max(shown[1:]),
        probability=probability_of(target, work, choice.units, rates),
        setting=grid.setting,
        allowance=(allowance := choice.facts.allowances.of(target.kind)),
        slow_rates={
            choice.facts.platforms[p]: float(grid.low[row, p]) / allowance
            for p in choice.platforms
        },
    )


def _best_effort(
    grid: RateGrid, work: Work, facts: ClusterFacts, locality: Within | None
) -> Sized | Infeasible:
    """Return the units that run the tasks in sixteen waves; one if the work has no tasks.

    Best effort uses leftover capacity and gets few units, but a job of ten thousand tasks on one
    unit would take too long. With a ceiling on its cost, fewer units if these cost too much.
    """
    needed = math.ceil((work.tasks or 1) / BEST_EFFORT_WAVES)
    covered = np.isfinite(grid.rate) @ np.array(facts.units)
    units = min(needed, int(np.flatnonzero(covered >= COVERAGE * covered.max())[-1]) + 1)
    platforms, cost = work.platforms, _costs(BestEffort(), work, grid)
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
    rates = np.array([np.nanmin(end) for end in ends])
    value, low, high = performance(BestEffort(), work, units, rates).tolist()
    sized = Sized(
        units, platforms, locality, value, low, high, probability=1.0, setting=grid.setting
    )
    return _with_cost(sized, work, cost[units - 1, chosen])


def _infeasible(target: Target, work: Work, grid: RateGrid, facts: ClusterFacts) -> Infeasible:
    row, column = np.unravel_index(int(np.nanargmax(grid.rate)), grid.rate.shape)
    units, platform = int(row) + 1, facts.platforms[int(column)]
    best = float(performance(target, work, units, grid.rate[row, column, None])[0])
    return Infeasible(units, platform, best, _suggestion(target, work, best))


def _suggestion(target: Target, work: Work, best: float) -> str:
    match target:
        case CompletionTime() if work.elapsed_s >= target.seconds:
            return (
                f"no size meets it: {_seconds(target.seconds)} of cluster time have already"
                f" passed; request at least {_seconds(best)}"
            )
        case CompletionTime():
            return f"request at least {_seconds(best * EASIER)}, or split the input"
        case ThroughputLatency() if math.isinf(best):
            return f"no size serves {target.qps:,.0f} queries/s; request fewer per job"
        case ThroughputLatency():
            return f"request a latency of at least {best * EASIER:.4g} s, or fewer queries/s"
        case _:
            return f"request at most {best / EASIER:.4g} per second, or split the job"


def _seconds(value: float) -> str:
    """Return seconds rounded up, as a target takes them; from a minute on also in words."""
    whole = math.ceil(value)
    return f"{whole:,} s ({in_two_units(whole)})" if whole >= 60 else f"{whole} s"
