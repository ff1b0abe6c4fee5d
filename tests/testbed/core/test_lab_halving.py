"""Successive halving over settings, without a replay."""

import numpy as np
import pytest

from apps.testbed.core.lab_halving import Run, Schedule, schedule, seeds_of_rounds

SEEDS = tuple(range(1, 13))
MEANS = {"best": 80.0, "close": 79.8, "far": 60.0, "base": 50.0, "bound": 90.0}


def values_of(runs: tuple[Run, ...]) -> dict[Run, float]:
    """Values around the mean of each setting; settings of one seed move together."""
    found = {}
    for name, seed in runs:
        rng = np.random.default_rng([seed, len(name)])
        shared = np.random.default_rng(seed).normal(0.0, 3.0)
        found[name, seed] = MEANS[name] + shared + rng.normal(0.0, 0.5)
    return found


def sweep() -> tuple[Schedule, dict[Run, float]]:
    values: dict[Run, float] = {}
    while True:
        found = schedule(
            tuple(n for n in MEANS if n != "bound"), SEEDS, first=3, kept={"base"}, values=values
        )
        if not found.missing:
            return found, values
        values |= values_of(found.missing)


@pytest.mark.parametrize(
    ("seeds", "first", "ends"),
    [(12, 3, (3, 6, 12)), (10, 3, (3, 6, 10)), (3, 3, (3,)), (5, 2, (2, 4, 5))],
    ids=["doubles", "cut", "one", "odd"],
)
def test_each_round_doubles_the_seeds(seeds: int, first: int, ends: tuple[int, ...]) -> None:
    assert seeds_of_rounds(seeds, first) == ends


def test_a_clearly_worse_setting_is_dropped_early_and_close_ones_get_all_seeds() -> None:
    found, values = sweep()
    assert found.settings == ("best", "close", "base")
    ran = {name: sum(setting == name for setting, _ in values) for name in MEANS}
    assert (ran["best"], ran["close"], ran["base"]) == (12, 12, 12)
    assert ran["far"] < 12
    (drop,) = [b for each in found.rounds for b in each.behind if b.is_dropped]
    assert drop.setting == "far"
    assert 0.0 < drop.low < drop.estimate < drop.high


def test_the_baseline_stays_although_it_is_clearly_worse() -> None:
    found, _ = sweep()
    last = next(b for b in found.rounds[-1].behind if b.setting == "base")
    assert last.low > 0.0
    assert not last.is_dropped


def test_missing_runs_are_those_of_the_current_round_only() -> None:
    found = schedule(("a", "b"), SEEDS, first=3, kept=(), values={("a", 1): 1.0})
    assert found.missing == (("b", 1), ("a", 2), ("b", 2), ("a", 3), ("b", 3))
    assert (found.rounds, found.left) == ((), 18)


def test_equal_settings_are_rarely_dropped() -> None:
    """12 equal settings; at level 0.9 over all rounds a drop happens in 10 % of the sweeps."""
    names = tuple("abcdefghijkl")
    sweeps = 60
    hits = 0
    for number in range(sweeps):
        rng = np.random.default_rng(number)
        values = {(name, seed): float(rng.normal()) for name in names for seed in SEEDS}
        found = schedule(names, SEEDS, first=3, kept=(), values=values)
        hits += len(found.settings) < len(names)
    # P(more than 14 of 60 | p = 0.1) = 0.0007, and the seeds are fixed
    assert hits <= 14
