"""Comparison of settings by paired seeds, its intervals, leaders and verdict."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from apps.testbed.core.comparison import (
    Better,
    Comparison,
    DifferenceOutcome,
    Interval,
    Measure,
    RunTable,
    compare,
)
from apps.testbed.core.comparison_json import comparison_json
from apps.testbed.core.simultaneous import paired_intervals
from apps.testbed.core.verdict import verdict

PERFORMANCE = Measure("performance_mean", "mean performance", "%", Better.HIGHER)
DELAY = Measure("wait_p95_s", "p95 delay", "s", Better.LOWER)
LOST = Measure("jobs_failed", "failed jobs", "", Better.LOWER)
SEEDS = (1, 2, 3, 4, 5)
NOISE = np.array([0.4, -0.6, 0.1, 0.5, -0.4])  # adds up to 0


def table(*rows: list[np.ndarray], names: str = "greedy tarcil", **kwargs: object) -> RunTable:
    """One row a setting, with the (n,) values of each measure."""
    measures = kwargs.get("measures", (DELAY, PERFORMANCE))
    assert isinstance(measures, tuple)
    values = np.array(rows).transpose(0, 2, 1)
    seeds = SEEDS[: values.shape[1]]
    return RunTable(tuple(names.split()), seeds, measures[: values.shape[2]], values)


def compared(runs: RunTable, bound: str | None = None) -> Comparison:
    return compare(runs, baseline="greedy", bound=bound, rng=np.random.default_rng(7))


BASE_DELAY = np.array([100.0, 120.0, 80.0, 110.0, 90.0])
BASE_PERFORMANCE = np.array([70.0, 72.0, 68.0, 71.0, 69.0])
TYPICAL = table(
    [BASE_DELAY, BASE_PERFORMANCE],
    [BASE_DELAY - 41.0 + 4 * NOISE, BASE_PERFORMANCE + NOISE],
)


def test_one_difference_has_the_interval_of_student_t() -> None:
    values = np.array([[1.0], [2.0], [3.0], [4.0], [5.0]])
    found = paired_intervals(values, level=0.9, rng=np.random.default_rng(1), draws=200_000)
    half = student.ppf(0.95, 4) * np.sqrt(2.5 / 5)
    assert found.estimate[0] == 3.0
    # the standard error of a 90 % quantile of 200,000 draws is 0.5 % of it
    assert found.single[0] == pytest.approx(half, rel=0.02)
    assert found.joint[0] == found.single[0]


def test_independent_differences_are_as_wide_as_by_sidak() -> None:
    rng = np.random.default_rng(2)
    values = rng.standard_normal((40, 30))
    found = paired_intervals(values, level=0.9, rng=rng, draws=20_000)
    error = values.std(axis=0, ddof=1) / np.sqrt(40)
    sidak = student.ppf(0.5 + 0.9 ** (1 / 30) / 2, 39)
    assert found.joint / error == pytest.approx(np.full(30, sidak), rel=0.04)


def test_a_difference_equal_in_all_seeds_has_no_width() -> None:
    found = paired_intervals(
        np.array([[0.1 + 0.2, 0.0, 1.0], [0.3, 0.0, 2.0]]), level=0.9, rng=np.random.default_rng(1)
    )
    assert found.joint[:2].tolist() == [0.0, 0.0]
    assert found.joint[2] > 0.0


@pytest.mark.parametrize(
    ("level", "values", "message"),
    [(1.0, [[1.0]], "level is 1.0"), (0.9, [[np.nan]], "finite"), (0.9, [1.0], "finite")],
    ids=["level", "nan", "shape"],
)
def test_intervals_refuse_bad_input(level: float, values: list[object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        paired_intervals(np.array(values, dtype=float), level=level, rng=np.random.default_rng(1))


def false_positives(
    pairs: int, differences: int, *, simulations: int = 400
) -> tuple[float, float]:
    """Shares of simulations in which a single, or a joint, interval excludes 0."""
    rng = np.random.default_rng(pairs)
    wrong = np.zeros(2)
    for _ in range(simulations):
        common = rng.standard_normal((pairs, 1))
        noise = (common + rng.standard_normal((pairs, differences))) / np.sqrt(2)
        found = paired_intervals(noise, level=0.9, rng=rng, draws=500)
        outside = np.abs(found.estimate) > np.stack([found.single, found.joint])
        wrong += outside.any(axis=1)
    single, joint = wrong / simulations
    return float(single), float(joint)


@pytest.mark.parametrize("pairs", [3, 5, 10])
def test_corrected_intervals_rarely_find_a_difference_where_none_is(pairs: int) -> None:
    single, joint = false_positives(pairs, 36)
    # nominal 10 %; at a true 13 %, 400 simulations stay below 18.2 % with 99.9 %
    assert joint < 0.182
    # without correction, most comparisons would claim a difference
    assert single > 0.5


def test_measures_that_move_together_need_little_correction() -> None:
    rng = np.random.default_rng(3)
    one = rng.standard_normal((200, 1))
    together = paired_intervals(one @ np.ones((1, 20)), level=0.9, rng=rng)
    apart = paired_intervals(rng.standard_normal((200, 20)), level=0.9, rng=rng)
    widening_together = float((together.joint / together.single)[0])
    widening_apart = float((apart.joint / apart.single)[0])
    assert widening_together < 1.35
    assert widening_apart > 1.6


def test_differences_are_paired_by_seed() -> None:
    found = compared(TYPICAL).difference("tarcil", "wait_p95_s")
    assert found.corrected is not None
    assert found.corrected.low is not None
    # between seeds the delay varies by 40 s; within a seed by 4 s
    assert found.corrected.estimate == pytest.approx(-41.0)
    assert found.corrected.estimate - found.corrected.low < 4.0
    assert found.outcome is DifferenceOutcome.BETTER


def test_the_verdict_names_the_gain_in_per_cent_and_what_does_not_differ() -> None:
    text = verdict(compared(TYPICAL))
    assert text.startswith("tarcil beats greedy on p95 delay by 41 % [")
    assert text.endswith("]; no clear difference in mean performance.")


def test_points_are_used_for_a_measure_in_per_cent() -> None:
    runs = table([BASE_PERFORMANCE], [BASE_PERFORMANCE + 9.1 + NOISE], measures=(PERFORMANCE,))
    text = verdict(compared(runs))
    assert text.startswith("tarcil beats greedy on mean performance by 9.1 points [")


def test_a_narrow_interval_shows_its_width() -> None:
    runs = table([BASE_PERFORMANCE], [BASE_PERFORMANCE + 20 + NOISE / 20], measures=(PERFORMANCE,))
    assert "by 20.00 points [19.98, 20.02]" in verdict(compared(runs))


def test_the_verdict_tells_what_is_lost() -> None:
    runs = table(
        [BASE_PERFORMANCE, BASE_DELAY],
        [BASE_PERFORMANCE + 9 + NOISE, BASE_DELAY + 30 + 2 * NOISE],
        measures=(PERFORMANCE, DELAY),
    )
    assert "; worse on p95 delay by 30 % [" in verdict(compared(runs))


def test_the_verdict_says_when_the_baseline_wins() -> None:
    runs = table(
        [BASE_DELAY], [BASE_DELAY + 5 + NOISE], [BASE_DELAY + 50 + NOISE], names="greedy near far"
    )
    text = verdict(compared(runs))
    assert text.startswith("greedy beats every other setting on p95 delay; the closest, near, is")


def test_the_verdict_claims_nothing_within_the_noise() -> None:
    runs = table([BASE_DELAY], [BASE_DELAY - 0.1 + NOISE])
    text = verdict(compared(runs))
    assert text.startswith(
        "No setting clearly beats greedy on p95 delay; the best, tarcil, is 0.1"
    )
    assert text.endswith(" ahead.")


def test_the_best_other_setting_is_the_next_best_behind_the_baseline() -> None:
    text = verdict(compared(table([BASE_DELAY], [BASE_DELAY + 0.1 + NOISE])))
    assert "; the next best, tarcil, is 0.1" in text
    assert text.endswith(" behind.")


def test_a_setting_clear_of_zero_comes_before_a_larger_unclear_gain() -> None:
    runs = table(
        [BASE_DELAY],
        [BASE_DELAY - 10 + NOISE],
        [BASE_DELAY - 11 + 60 * NOISE],
        names="greedy steady wild",
    )
    assert verdict(compared(runs)).startswith("steady beats greedy on p95 delay by 10.0 % [")


def test_one_seed_has_no_intervals_and_no_claim() -> None:
    found = compared(table([BASE_DELAY[:1]], [BASE_DELAY[:1] - 41.0]))
    difference = found.difference("tarcil", "wait_p95_s")
    assert difference.corrected == Interval(-41.0, None, None)
    assert difference.outcome is DifferenceOutcome.UNTESTED
    assert found.leaders == {"wait_p95_s": ()}
    assert "one seed" in verdict(found)


def test_a_measure_unknown_in_one_run_is_not_compared() -> None:
    delay = np.array([60.0, np.nan, 60.0, 60.0, 60.0])
    found = compared(table([BASE_DELAY, BASE_PERFORMANCE], [delay, BASE_PERFORMANCE + 1]))
    assert found.difference("tarcil", "wait_p95_s").outcome is DifferenceOutcome.UNTESTED
    assert found.means["tarcil", "wait_p95_s"] is None
    assert "cannot be compared" in verdict(found)


def test_intervals_end_at_what_is_possible() -> None:
    noisy = table(
        [np.array([1.0, 100.0]), np.array([20.0, 99.0])],
        [np.array([1.0, 200.0]), np.array([99.0, 20.0])],
    )
    found = compared(noisy)
    delay = found.means["greedy", DELAY.key]
    share = found.means["greedy", PERFORMANCE.key]
    assert delay is not None
    assert share is not None
    assert delay.low == 0.0
    assert (share.low, share.high) == (0.0, 100.0)
    later, slower = (found.difference("tarcil", m.key) for m in (DELAY, PERFORMANCE))
    assert later.percent is not None
    assert later.percent.low == -100.0
    assert slower.corrected == Interval(0.0, -100.0, 100.0)


def test_leaders_share_the_lead_and_are_clear_of_the_rest() -> None:
    runs = table(
        [BASE_DELAY],
        [BASE_DELAY - 50 + NOISE],
        [BASE_DELAY - 50.1 + NOISE[::-1]],
        names="greedy tarcil expected",
    )
    assert compared(runs).leaders == {"wait_p95_s": ("expected", "tarcil")}


def test_nothing_is_highlighted_within_the_noise() -> None:
    runs = table([BASE_DELAY], [BASE_DELAY - 0.1 + NOISE])
    assert compared(runs).leaders == {"wait_p95_s": ()}


def test_the_bound_is_no_candidate_and_gives_the_regret() -> None:
    runs = table(
        [BASE_DELAY, BASE_PERFORMANCE],
        [BASE_DELAY - 41 + NOISE, BASE_PERFORMANCE + 9 + NOISE],
        [BASE_DELAY - 50 + NOISE, BASE_PERFORMANCE + 12.4 + NOISE],
        names="greedy tarcil truth",
    )
    found = compared(runs, bound="truth")
    assert found.settings == ("greedy", "tarcil")
    regret = {(r.setting, r.measure): r.interval for r in found.regrets}
    assert regret["tarcil", "performance_mean"].estimate == pytest.approx(3.4)  # type: ignore[union-attr]
    assert regret["tarcil", "wait_p95_s"].estimate == pytest.approx(9.0)  # type: ignore[union-attr]
    assert regret["greedy", "wait_p95_s"].estimate == pytest.approx(50.0)  # type: ignore[union-attr]
    assert verdict(found).endswith("short of the bound truth.")


@pytest.mark.parametrize(
    ("baseline", "bound", "message"),
    [("x", None, "'x' is not a setting"), ("greedy", "greedy", "both baseline and bound")],
    ids=["unknown", "same"],
)
def test_unknown_names_are_refused(baseline: str, bound: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare(TYPICAL, baseline=baseline, bound=bound, rng=np.random.default_rng(1))


@pytest.mark.parametrize(
    ("names", "seeds", "values", "message"),
    [
        (("a", "a"), (1,), np.zeros((2, 1, 1)), "settings are"),
        (("a",), (1, 1), np.zeros((1, 2, 1)), "seeds are"),
        (("a",), (1,), np.zeros((1, 2, 1)), "expected"),
        (("a",), (1,), np.full((1, 1, 1), np.inf), "finite"),
    ],
    ids=["settings", "seeds", "shape", "infinite"],
)
def test_a_table_must_be_complete(
    names: tuple[str, ...], seeds: tuple[int, ...], values: np.ndarray, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        RunTable(names, seeds, (DELAY,), values)


random_tables = st.integers(0, 2**32 - 1).map(
    lambda seed: np.random.default_rng(seed).normal(50.0, 10.0, (3, 5, 2))
)


def drawn(values: np.ndarray, rng: int = 4) -> Comparison:
    runs = RunTable(("greedy", "a", "b"), SEEDS, (DELAY, LOST), values)
    return compare(runs, baseline="greedy", rng=np.random.default_rng(rng))


@settings(max_examples=25, deadline=None)
@given(random_tables)
def test_the_same_runs_and_seed_give_the_same_comparison(values: np.ndarray) -> None:
    assert drawn(values) == drawn(values.copy())


def test_a_comparison_survives_a_round_trip_through_json() -> None:
    found = compared(TYPICAL)
    text = json.loads(json.dumps(comparison_json(found), allow_nan=False))
    corrected = found.difference("tarcil", "wait_p95_s").corrected
    assert corrected is not None
    assert text["differences"][0]["corrected"] == [
        corrected.estimate,
        corrected.low,
        corrected.high,
    ]
    assert text["differences"][0]["outcome"] == "better"
    assert text["leaders"] == {"wait_p95_s": ["tarcil"], "performance_mean": []}
    assert text["verdict"] == verdict(found)


@settings(max_examples=25, deadline=None)
@given(random_tables)
def test_corrected_intervals_contain_the_single_ones(values: np.ndarray) -> None:
    found = drawn(values)
    inside = [
        d.corrected.low <= d.single.low <= d.single.high <= d.corrected.high  # type: ignore[union-attr,operator]
        for d in found.differences
    ]
    assert inside == [True] * 4
    assert found.widening >= 1.0


@settings(max_examples=25, deadline=None)
@given(random_tables, st.floats(0.01, 100.0))
def test_the_unit_of_a_measure_changes_no_outcome(values: np.ndarray, factor: float) -> None:
    first, second = drawn(values), drawn(values * factor)
    assert [d.outcome for d in first.differences] == [d.outcome for d in second.differences]
    assert first.leaders == second.leaders


@settings(max_examples=25, deadline=None)
@given(random_tables)
def test_every_leader_has_a_better_mean_than_every_other_setting(values: np.ndarray) -> None:
    values[1] -= 30.0
    found = drawn(values)
    means = {key: interval.estimate for key, interval in found.means.items() if interval}
    gaps = [
        means[other, measure] - means[leader, measure]
        for measure, leaders in found.leaders.items()
        for leader in leaders
        for other in set(found.settings) - set(leaders)
    ]
    assert min(gaps, default=1.0) > 0.0
