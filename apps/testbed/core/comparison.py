"""Comparison of policies by runs with the same seeds: differences, leaders, regret.

Runs of one seed have the same arrivals, jobs and failures, so settings are compared within a
seed. The seeds are the independent units: jobs of one run share a cluster and are not.
"""

from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from math import inf
from typing import Final

import numpy as np

from apps.testbed.core.simultaneous import Floats, paired_intervals

LEVEL: Final = 0.9


class Better(StrEnum):
    """Direction in which a measure is better."""

    HIGHER = "higher"
    LOWER = "lower"


class DifferenceOutcome(StrEnum):
    """What a difference to the baseline shows."""

    BETTER = "better"
    WORSE = "worse"
    UNCLEAR = "unclear"  # the corrected interval contains 0
    UNTESTED = "untested"  # one seed, or the measure is unknown in a run


@dataclass(frozen=True, slots=True)
class Measure:
    """A number that every run has.

    Attributes
    ----------
    key : name in JSON, e.g. "wait_p99_s"
    label : name in sentences, e.g. "p99 wait"
    unit : "%" of a share (differences are in points), or any other, or ""
    """

    key: str
    label: str
    unit: str
    better: Better

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest possible value: none is negative, and shares end at 100 %."""
        return 0.0, 100.0 if self.unit == "%" else inf


@dataclass(frozen=True, slots=True, eq=False)
class RunTable:
    """Measures of all runs of a comparison.

    Attributes
    ----------
    settings : names of the policies with their parameters, distinct
    seeds : (n,) distinct; every setting ran with each
    measures : the first one decides which setting is named best
    values : (settings, seeds, measures); NaN if a run has no value
    """

    settings: tuple[str, ...]
    seeds: tuple[int, ...]
    measures: tuple[Measure, ...]
    values: Floats

    def __post_init__(self) -> None:
        shape = len(self.settings), len(self.seeds), len(self.measures)
        if self.values.shape != shape or 0 in shape:
            raise ValueError(f"values are {self.values.shape}; expected {shape}, none of them 0")
        for name, labels in (("settings", self.settings), ("seeds", self.seeds)):
            if len(set(labels)) != len(labels):
                raise ValueError(f"{name} are {labels}; expected distinct ones")
        if np.isinf(self.values).any():
            raise ValueError("values must be finite, or NaN where a run has no value")


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate; `low` and `high` are None for one seed."""

    estimate: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting minus the baseline, on one measure.

    Attributes
    ----------
    single : interval of this difference on its own; None if the measure is unknown in a run
    corrected : interval that holds together with those of all other differences
    percent : `corrected` in per cent of the baseline's mean; None if that is 0, or unit "%"
    """

    setting: str
    measure: str
    single: Interval | None
    corrected: Interval | None
    percent: Interval | None
    outcome: DifferenceOutcome


@dataclass(frozen=True, slots=True)
class Regret:
    """How far a setting stays behind the bound; above 0 is worse than the bound."""

    setting: str
    measure: str
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of a comparison.

    Attributes
    ----------
    means : by (setting, measure), the bound included; None if the measure is unknown in a run
    leaders : by measure, the settings to highlight: each is clearly better than every setting
        that is not a leader. Empty if no such group exists.
    widening : mean width of the corrected intervals over that of the single ones; 1 if none
    """

    baseline: str
    bound: str | None
    level: float
    seeds: tuple[int, ...]
    settings: tuple[str, ...]
    measures: tuple[Measure, ...]
    means: dict[tuple[str, str], Interval | None]
    differences: tuple[Difference, ...]
    leaders: dict[str, tuple[str, ...]]
    regrets: tuple[Regret, ...]
    widening: float

    def difference(self, setting: str, measure: str) -> Difference:
        """Return the difference of a setting to the baseline on a measure."""
        return next(d for d in self.differences if (d.setting, d.measure) == (setting, measure))


def compare(
    table: RunTable,
    *,
    baseline: str,
    bound: str | None = None,
    level: float = LEVEL,
    rng: np.random.Generator,
) -> Comparison:
    """Compare all settings with the baseline, with each other and with a bound.

    Parameters
    ----------
    bound : a setting that knows what no policy can know; it is no candidate for the best
    level : of the intervals. Three families are corrected, each for itself: differences to the
        baseline, differences of all pairs (for the leaders), regrets.

    Raises
    ------
    ValueError : the baseline or the bound is not a setting, or both are the same one.
    """
    for name in (baseline, *([bound] if bound is not None else [])):
        if name not in table.settings:
            raise ValueError(f"{name!r} is not a setting; expected one of {table.settings}")
    if baseline == bound:
        raise ValueError(f"{baseline!r} is both baseline and bound; expected two settings")
    policies = tuple(s for s in table.settings if s != bound)
    for_means, for_baseline, for_pairs, for_bound = rng.spawn(4)
    differences, widening = differences_to(table, policies, baseline, level, for_baseline)
    return Comparison(
        baseline=baseline,
        bound=bound,
        level=level,
        seeds=table.seeds,
        settings=policies,
        measures=table.measures,
        means=_means(table, level, for_means),
        differences=differences,
        leaders=_leaders(table, policies, level, for_pairs),
        regrets=_regrets(table, policies, bound, level, for_bound),
        widening=widening,
    )


def _means(
    table: RunTable, level: float, rng: np.random.Generator
) -> dict[tuple[str, str], Interval | None]:
    cells = [(s, m) for s in range(len(table.settings)) for m in range(len(table.measures))]
    known = [(s, m) for s, m in cells if not np.isnan(table.values[s, :, m]).any()]
    found: dict[tuple[str, str], Interval | None] = {
        (table.settings[s], table.measures[m].key): None for s, m in cells
    }
    if known:
        columns = np.stack([table.values[s, :, m] for s, m in known], axis=1)
        intervals = paired_intervals(columns, level=level, rng=rng)
        for column, (s, m) in enumerate(known):
            name = table.settings[s], table.measures[m].key
            interval = _interval(intervals.estimate, intervals.single, column)
            found[name] = _clipped(interval, table.measures[m].limits)
    return found


@dataclass(frozen=True, slots=True)
class _Pair:
    """One difference: first setting minus second, on a measure, all by index."""

    first: int
    second: int
    measure: int


def _intervals_of(
    table: RunTable, pairs: list[_Pair], level: float, rng: np.random.Generator
) -> dict[_Pair, tuple[Interval, Interval]]:
    """Single and corrected interval of each pair that is known in all seeds."""
    values = table.values
    deltas = {p: values[p.first, :, p.measure] - values[p.second, :, p.measure] for p in pairs}
    known = {p: delta for p, delta in deltas.items() if not np.isnan(delta).any()}
    if not known:
        return {}
    columns = np.stack(list(known.values()), axis=1)
    found = paired_intervals(columns, level=level, rng=rng)
    return {
        pair: (
            _interval(found.estimate, found.single, i),
            _interval(found.estimate, found.joint, i),
        )
        for i, pair in enumerate(known)
    }


def _interval(estimates: Floats, half_widths: Floats, column: int) -> Interval:
    estimate, half = float(estimates[column]), float(half_widths[column])
    if np.isnan(half):
        return Interval(estimate, None, None)
    return Interval(estimate, estimate - half, estimate + half)


def _clipped(interval: Interval, limits: tuple[float, float]) -> Interval:
    """Cut an interval at the limits of what it estimates, which loses no coverage."""
    low, high = interval.low, interval.high
    if low is None or high is None:
        return interval
    estimate = interval.estimate
    return Interval(
        estimate, min(max(low, limits[0]), estimate), max(min(high, limits[1]), estimate)
    )


def _of_differences(measure: Measure) -> tuple[float, float]:
    """Limits of a difference of two values of a measure."""
    low, high = measure.limits
    return low - high, high - low


def differences_to(
    table: RunTable,
    policies: tuple[str, ...],
    baseline: str,
    level: float,
    rng: np.random.Generator,
) -> tuple[tuple[Difference, ...], float]:
    """Return the differences of the policies to a baseline, and how much the correction widens."""
    second = table.settings.index(baseline)
    pairs = [
        _Pair(table.settings.index(setting), second, m)
        for setting in policies
        if setting != baseline
        for m in range(len(table.measures))
    ]
    found = _intervals_of(table, pairs, level, rng)
    return tuple(_difference(table, pair, found.get(pair)) for pair in pairs), _widening(found)


def _widening(found: dict[_Pair, tuple[Interval, Interval]]) -> float:
    single, corrected = (sum(_width(both[i]) for both in found.values()) for i in (0, 1))
    return corrected / single if single > 0.0 else 1.0


def _width(interval: Interval) -> float:
    if interval.low is None or interval.high is None:
        return 0.0
    return interval.high - interval.low


def _difference(
    table: RunTable, pair: _Pair, found: tuple[Interval, Interval] | None
) -> Difference:
    measure = table.measures[pair.measure]
    setting = table.settings[pair.first]
    if found is None:
        return Difference(setting, measure.key, None, None, None, DifferenceOutcome.UNTESTED)
    single, corrected = (_clipped(each, _of_differences(measure)) for each in found)
    base = float(table.values[pair.second, :, pair.measure].mean())
    return Difference(
        setting=setting,
        measure=measure.key,
        single=single,
        corrected=corrected,
        percent=None if measure.unit == "%" or base == 0.0 else _percent(corrected, abs(base)),
        outcome=_outcome(corrected, measure.better),
    )


def _percent(interval: Interval, base: float) -> Interval:
    low, high = interval.low, interval.high
    share = Interval(
        100.0 * interval.estimate / base,
        None if low is None else 100.0 * low / base,
        None if high is None else 100.0 * high / base,
    )
    return _clipped(share, (-100.0, inf))  # nothing is below 0


def _outcome(interval: Interval, better: Better) -> DifferenceOutcome:
    if interval.low is None or interval.high is None:
        return DifferenceOutcome.UNTESTED
    if interval.low <= 0.0 <= interval.high:
        return DifferenceOutcome.UNCLEAR
    is_higher = interval.low > 0.0
    return (
        DifferenceOutcome.BETTER
        if is_higher == (better is Better.HIGHER)
        else DifferenceOutcome.WORSE
    )


def _leaders(
    table: RunTable, policies: tuple[str, ...], level: float, rng: np.random.Generator
) -> dict[str, tuple[str, ...]]:
    """Per measure, the smallest group of settings that are clearly better than all others."""
    index = [table.settings.index(setting) for setting in policies]
    measures = range(len(table.measures))
    pairs = [_Pair(a, b, m) for a, b in combinations(index, 2) for m in measures]
    beats: set[_Pair] = set()  # the first setting is clearly better than the second
    for pair, (_, corrected) in _intervals_of(table, pairs, level, rng).items():
        outcome = _outcome(corrected, table.measures[pair.measure].better)
        if outcome is DifferenceOutcome.BETTER:
            beats.add(pair)
        elif outcome is DifferenceOutcome.WORSE:
            beats.add(_Pair(pair.second, pair.first, pair.measure))
    groups = {m: _leading_group(table, index, m, beats) for m in measures}
    return {
        table.measures[m].key: tuple(table.settings[s] for s in group)
        for m, group in groups.items()
    }


def _leading_group(
    table: RunTable, settings: list[int], measure: int, beats: set[_Pair]
) -> list[int]:
    sign = 1.0 if table.measures[measure].better is Better.HIGHER else -1.0
    means = {s: sign * float(table.values[s, :, measure].mean()) for s in settings}
    known = sorted((s for s in settings if not np.isnan(means[s])), key=lambda s: -means[s])
    for size in range(1, len(known)):
        group, others = known[:size], known[size:]
        if all(_Pair(a, b, measure) in beats for a in group for b in others):
            return group
    return []


def _regrets(
    table: RunTable,
    policies: tuple[str, ...],
    bound: str | None,
    level: float,
    rng: np.random.Generator,
) -> tuple[Regret, ...]:
    if bound is None:
        return ()
    first = table.settings.index(bound)
    pairs = [
        _Pair(first, table.settings.index(setting), m)
        for setting in policies
        for m in range(len(table.measures))
    ]
    found = _intervals_of(table, pairs, level, rng)
    return tuple(_regret(table, pair, found.get(pair)) for pair in pairs)


def _regret(table: RunTable, pair: _Pair, found: tuple[Interval, Interval] | None) -> Regret:
    measure = table.measures[pair.measure]
    setting = table.settings[pair.second]
    if found is None:
        return Regret(setting, measure.key, None)
    corrected = _clipped(found[1], _of_differences(measure))
    behind = corrected if measure.better is Better.HIGHER else _negated(corrected)
    return Regret(setting, measure.key, behind)


def _negated(interval: Interval) -> Interval:
    if interval.low is None or interval.high is None:
        return Interval(-interval.estimate, None, None)
    return Interval(-interval.estimate, -interval.high, -interval.low)
