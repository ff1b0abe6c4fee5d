"""Successive halving: few seeds first, and more seeds only for settings that may be the best.

Each round doubles the seeds. After a round, a setting is dropped if it is clearly worse than the
one with the best mean of the first measure. Intervals hold together for all pairs of settings, so
that the choice of the leader needs no correction, and over all rounds: with k rounds that may
drop, the level of each is 1 - (1 - `LEVEL`) / k. The baseline and the bound are never dropped.

Source: Jamieson and Talwalkar, "Non-stochastic best arm identification" (2016). Ours keeps a
setting of the worse half whose interval reaches the leader.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np

from apps.testbed.core.comparison import LEVEL
from apps.testbed.core.simultaneous import Floats, paired_intervals

SEED: Final = 2_016  # of the bootstrap: the same runs, the same drops
MIN_FIRST_SEEDS: Final = 2
Run = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Behind:
    """How far a setting is behind the leader of a round: points, above 0 is worse."""

    setting: str
    estimate: float
    low: float
    high: float
    is_dropped: bool


@dataclass(frozen=True, slots=True)
class Round:
    """One round: ``seeds`` that every setting in it has run with, since the first round."""

    seeds: int
    leader: str
    behind: tuple[Behind, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """State of a sweep.

    Attributes
    ----------
    rounds : those that have ended, in order
    settings : that are not dropped
    seeds : of the current round, since the first one
    missing : runs of the current round that have no value yet; empty = the sweep has ended
    left : runs of later rounds if no more settings are dropped
    """

    rounds: tuple[Round, ...]
    settings: tuple[str, ...]
    seeds: int
    missing: tuple[Run, ...]
    left: int


def seeds_of_rounds(seeds: int, first: int) -> tuple[int, ...]:
    """Return the seeds until the end of each round; the last one has all."""
    found = [first]
    while found[-1] < seeds:
        found.append(min(2 * found[-1], seeds))
    return tuple(found)


def schedule(
    settings: Sequence[str],
    seeds: Sequence[int],
    *,
    first: int,
    kept: Collection[str],
    values: Mapping[Run, float],
) -> Schedule:
    """Return which runs come next, from the values of those that are complete.

    Parameters
    ----------
    kept : settings that are never dropped
    values : first measure of each run in per cent, higher is better
    """
    ends = seeds_of_rounds(len(seeds), first)
    level = 1.0 - (1.0 - LEVEL) / max(len(ends) - 1, 1)
    left = tuple(settings)
    rounds: list[Round] = []
    for number, end in enumerate(ends):
        runs = tuple((name, seed) for seed in seeds[:end] for name in left)
        missing = tuple(run for run in runs if run not in values)
        if missing:
            later = len(left) * (len(seeds) - end)
            return Schedule(tuple(rounds), left, end, missing, later)
        table = np.array([[values[name, seed] for seed in seeds[:end]] for name in left])
        is_last = number == len(ends) - 1
        rounds.append(_round(left, table, level, frozenset(left if is_last else kept)))
        dropped = {each.setting for each in rounds[-1].behind if each.is_dropped}
        left = tuple(name for name in left if name not in dropped)
    return Schedule(tuple(rounds), left, len(seeds), (), 0)


def _round(settings: Sequence[str], table: Floats, level: float, kept: Collection[str]) -> Round:
    """Compare the settings of a round; ``table`` is (settings, seeds)."""
    means = table.mean(axis=1)
    first = int(np.argmax(means))
    pairs = list(combinations(range(len(settings)), 2))
    if not pairs:
        return Round(table.shape[1], settings[first], ())
    columns = np.stack([table[a] - table[b] for a, b in pairs], axis=1)
    half = paired_intervals(columns, level=level, rng=np.random.default_rng(SEED)).joint
    width = {pair: float(half[i]) for i, pair in enumerate(pairs)}
    behind = []
    for index, name in enumerate(settings):
        if index == first:
            continue
        gap = float(means[first] - means[index])
        reach = width[min(first, index), max(first, index)]
        is_worse = gap - reach > 0.0
        drop = is_worse and name not in kept
        behind.append(Behind(name, gap, gap - reach, gap + reach, drop))
    return Round(table.shape[1], settings[first], tuple(behind))


def halving_json(found: Schedule) -> dict[str, Any]:
    """Return the rounds and the dropped settings as JSON."""
    return {
        "rounds": [
            {
                "seeds": each.seeds,
                "leader": each.leader,
                "behind": [
                    {
                        "setting": b.setting,
                        "interval": [b.estimate, b.low, b.high],
                        "is_dropped": b.is_dropped,
                    }
                    for b in each.behind
                ],
            }
            for each in found.rounds
        ],
        "settings": list(found.settings),
    }
