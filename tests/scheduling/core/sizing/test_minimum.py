import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.classification.core.estimates import Estimates
from apps.classification.core.profile import Profile, scale_factors
from apps.inventory.core.snapshot import Floats, Ints
from apps.scheduling.core.sizing import rate_grid
from apps.scheduling.core.sizing.allowances import INTERFERENCE_ALLOWANCE, Allowances
from apps.scheduling.core.sizing.minimum import size
from apps.scheduling.core.sizing.sizes import ClusterFacts, Infeasible, Sized, Work
from apps.scheduling.core.types import MAX_UNITS, Within
from apps.workloads.core.targets import (
    BestEffort,
    CompletionTime,
    InstructionRate,
    Target,
    ThroughputLatency,
)
from tests.classification.core.profiles import profile

UNIT_S = 1e8 * INTERFERENCE_ALLOWANCE  # bytes of one unit in a second, neighbours allowed for
FACTS = ClusterFacts(platforms=("J", "A"), units=(1000, 1000), server_units=(16, 8))


def sized(target: Target, work: Work, *, of: Profile, facts: ClusterFacts = FACTS) -> Sized:
    outcome = size(of, target, work, facts)
    assert isinstance(outcome, Sized)
    return outcome


def test_a_perfectly_parallel_job_gets_the_units_its_work_needs() -> None:
    # 100 MB/s a unit, 5 % kept back: 9.5 GB in 100 s is one unit; ten times that is ten
    exact = profile(bytes_rate=1e8)
    assert sized(CompletionTime(100.0), Work(input_bytes=UNIT_S * 99.9), of=exact).units == 1
    assert sized(CompletionTime(100.0), Work(input_bytes=UNIT_S * 999), of=exact).units == 10
    assert sized(CompletionTime(100.0), Work(input_bytes=UNIT_S * 1001), of=exact).units == 11


def test_one_unit_less_would_miss_the_target() -> None:
    of = profile(bytes_rate=1e8, error=0.1)
    outcome = sized(CompletionTime(100.0), Work(input_bytes=UNIT_S * 999), of=of)
    rate = of.rate(outcome.units - 1, servers=outcome.units - 1, in_bytes=True)
    assert UNIT_S * 999 / (rate.low * INTERFERENCE_ALLOWANCE) > 100.0
    assert outcome.high <= 100.0


def test_uncertainty_increases_the_size() -> None:
    work, target = Work(input_bytes=UNIT_S * 999), CompletionTime(100.0)
    sure = sized(target, work, of=profile(bytes_rate=1e8))
    unsure = sized(target, work, of=profile(bytes_rate=1e8, error=0.2))
    assert unsure.units == pytest.approx(sure.units * np.exp(1.645 * 0.2), abs=1)


def test_the_interval_contains_the_prediction() -> None:
    of = profile(bytes_rate=1e8, error=0.1)
    outcome = sized(CompletionTime(100.0), Work(input_bytes=UNIT_S * 999), of=of)
    assert outcome.low < outcome.predicted < outcome.high
    assert 0.95 <= outcome.probability < 1.0


def test_elapsed_time_reduces_the_time_left() -> None:
    of = profile(bytes_rate=1e8)
    assert (
        sized(CompletionTime(100.0), Work(input_bytes=UNIT_S * 99.9, elapsed_s=50.0), of=of).units
        == 2
    )


def test_tasks_cap_the_units_and_run_in_waves() -> None:
    of = profile(bytes_rate=1e8)
    # 10 tasks of 10 s each: two waves in 20 s need 5 units, and so do 29 s
    work = Work(input_bytes=UNIT_S * 99.9, tasks=10)
    assert sized(CompletionTime(20.1), work, of=of).units == 5
    assert sized(CompletionTime(29.0), work, of=of).units == 5
    assert sized(CompletionTime(10.1), work, of=of).units == 10
    assert isinstance(size(of, CompletionTime(9.9), work, FACTS), Infeasible)


def test_no_job_gets_more_than_64_units() -> None:
    outcome = size(profile(bytes_rate=1e8), CompletionTime(1.0), Work(input_bytes=1e12), FACTS)
    assert isinstance(outcome, Infeasible)
    assert outcome.units == 64
    assert outcome.best == pytest.approx(1e12 / (64 * 1e8 * INTERFERENCE_ALLOWANCE))
    assert outcome.suggestion == "request at least 183 s (3 min 3 s), or split the input"


def test_a_suggested_time_is_in_seconds_and_in_words() -> None:
    outcome = size(profile(bytes_rate=1e8), CompletionTime(1.0), Work(input_bytes=5e15), FACTS)
    assert isinstance(outcome, Infeasible)
    assert outcome.suggestion == "request at least 911,459 s (10 d 13 h), or split the input"


def test_a_passed_deadline_is_named_in_the_suggestion() -> None:
    of = profile(bytes_rate=1e8)
    outcome = size(of, CompletionTime(10.0), Work(input_bytes=1e9, elapsed_s=20.0), FACTS)
    assert isinstance(outcome, Infeasible)
    assert outcome.suggestion.startswith(
        "no size meets it: 10 s of cluster time have already passed; request at least "
    )


def test_a_target_met_only_by_the_prediction_gets_the_most_likely_size() -> None:
    of = profile(bytes_rate=1e8, error=0.5)
    outcome = sized(CompletionTime(180.0), Work(input_bytes=1e12), of=of)
    assert outcome.units == 64
    assert outcome.predicted <= 180.0 < outcome.high
    assert 0.5 < outcome.probability < 0.9


def test_platforms_too_slow_for_the_size_are_omitted() -> None:
    of = profile(bytes_rate=1e8, speeds=(1.0, 0.1))
    outcome = sized(CompletionTime(100.0), Work(input_bytes=UNIT_S * 999), of=of)
    assert (outcome.units, outcome.platforms) == (10, frozenset({"J"}))


def test_the_size_is_sufficient_on_half_of_the_units() -> None:
    of = profile(bytes_rate=1e8, speeds=(1.0, 0.5))
    facts = replace(FACTS, units=(100, 1000))
    outcome = sized(CompletionTime(100.0), Work(input_bytes=UNIT_S * 999), of=of, facts=facts)
    assert (outcome.units, outcome.platforms) == (20, frozenset({"J", "A"}))


def test_a_full_fast_platform_makes_jobs_large_enough_for_the_slow_one() -> None:
    work = Work(input_bytes=UNIT_S * 999)
    of = profile(bytes_rate=1e8, speeds=(1.0, 0.5))
    roomy = sized(CompletionTime(100.0), work, of=of, facts=replace(FACTS, free=(1000, 10)))
    full = sized(CompletionTime(100.0), work, of=of, facts=replace(FACTS, free=(10, 1000)))
    assert roomy.platforms == frozenset({"J"})
    assert full.platforms == frozenset({"J", "A"})
    assert full.units > roomy.units


def test_all_units_count_if_no_sufficient_unit_is_free() -> None:
    work = Work(input_bytes=UNIT_S * 999, platforms=frozenset({"J"}))
    some = sized(
        CompletionTime(100.0),
        work,
        of=profile(bytes_rate=1e8),
        facts=replace(FACTS, free=(0, 1000)),
    )
    assert some.platforms == frozenset({"J"})


def test_platforms_not_allowed_or_without_units_do_not_count() -> None:
    of = profile(bytes_rate=1e8, speeds=(1.0, 0.5))
    work = Work(input_bytes=UNIT_S * 999, platforms=frozenset({"A"}))
    assert sized(CompletionTime(100.0), work, of=of).platforms == frozenset({"A"})
    none = size(of, CompletionTime(100.0), work, replace(FACTS, units=(1000, 0)))
    assert none == Infeasible(0, None, float("inf"), "allow a platform that the cluster has")


def test_platforms_without_units_do_not_count_on_one_server_either() -> None:
    of = profile(kind="single_node", base_rate=1e9)
    facts = replace(FACTS, units=(0, 1000))
    assert sized(InstructionRate(1e9), Work(), of=of, facts=facts).platforms == frozenset({"A"})


def test_single_node_jobs_stay_on_one_server() -> None:
    of = profile(kind="single_node", base_rate=1e9)
    outcome = sized(InstructionRate(0.999 * 8 * 1e9 * INTERFERENCE_ALLOWANCE), Work(), of=of)
    assert (outcome.units, outcome.locality) == (8, Within.SERVER)
    too_large = size(of, InstructionRate(17e9), Work(), FACTS)
    assert isinstance(too_large, Infeasible)
    assert (too_large.units, too_large.platform) == (16, "J")


def test_a_service_is_sized_for_its_latency_and_load() -> None:
    of = profile(kind="latency_critical", base_rate=1000.0)
    slack = sized(ThroughputLatency(5000.0, 1.0), Work(), of=of)
    tight = sized(ThroughputLatency(5000.0, 0.0056), Work(), of=of)
    assert slack.units == 6
    assert tight.units > slack.units
    assert tight.predicted <= 0.0056


@pytest.mark.parametrize(
    ("units", "platform", "text"),
    [(1, "A", "1 unit of A"), (2, "A", "2 units of A"), (0, None, "")],
)
def test_the_best_option_is_text(units: int, platform: str | None, text: str) -> None:
    assert Infeasible(units, platform, math.inf, "").option == text


def test_a_latency_below_the_service_time_is_infeasible() -> None:
    of = profile(kind="latency_critical", base_rate=1000.0)
    outcome = size(of, ThroughputLatency(10.0, 0.001), Work(), FACTS)
    assert isinstance(outcome, Infeasible)
    assert "latency of at least" in outcome.suggestion


def test_more_queries_than_64_units_serve_are_infeasible() -> None:
    of = profile(kind="latency_critical", base_rate=1000.0)
    outcome = size(of, ThroughputLatency(1e6, 1.0), Work(), FACTS)
    assert isinstance(outcome, Infeasible)
    assert outcome.best == float("inf")


@pytest.mark.parametrize(("tasks", "units"), [(None, 1), (1, 1), (16, 1), (17, 2), (9999, 64)])
def test_best_effort_runs_its_tasks_in_sixteen_waves(tasks: int | None, units: int) -> None:
    outcome = sized(BestEffort(), Work(tasks=tasks), of=profile())
    assert (outcome.units, outcome.platforms) == (units, None)


def test_best_effort_is_predicted_as_a_share_of_the_work_per_second() -> None:
    of = profile(bytes_rate=1e8, error=0.1)
    outcome = sized(BestEffort(), Work(input_bytes=9e9), of=of)
    assert outcome.predicted == pytest.approx(UNIT_S / 9e9)
    assert outcome.low < outcome.predicted < outcome.high
    unknown = sized(BestEffort(), Work(), of=of)
    assert all(math.isnan(end) for end in (unknown.predicted, unknown.low, unknown.high))


@given(st.floats(1e6, 1e13), st.floats(10.0, 1e5), st.floats(0.0, 0.6))
def test_more_time_never_needs_more_units(work: float, seconds: float, error: float) -> None:
    of = profile(bytes_rate=1e8, error=error, speeds=(1.0, 0.7))
    tight = size(of, CompletionTime(seconds), Work(input_bytes=work), FACTS)
    loose = size(of, CompletionTime(2 * seconds), Work(input_bytes=work), FACTS)
    assert isinstance(tight, Infeasible) or isinstance(loose, Sized)
    if isinstance(tight, Sized) and isinstance(loose, Sized):
        assert loose.units <= tight.units


SETTINGS = ("1x1GB", "2x0.5GB", "4x2GB")


def settable(*, low: float, high: float) -> Profile:
    """Twice as fast, within these ends, with two tasks a core; four times with more memory."""
    middle = float(np.sqrt(low * high))
    return replace(
        profile(bytes_rate=1e8),
        settings=SETTINGS,
        framework=Estimates(
            value=np.array([1.0, middle, 4.0]),
            low=np.array([1.0, low, 3.9]),
            high=np.array([1.0, high, 4.1]),
            measured=np.ones(3, dtype=np.bool_),
        ),
    )


def test_the_setting_with_the_best_pessimistic_speed_is_used() -> None:
    outcome = sized(
        CompletionTime(100.0), Work(input_bytes=UNIT_S * 999), of=settable(low=2.0, high=2.0)
    )
    assert (outcome.units, outcome.setting) == (5, "2x0.5GB")


def test_a_setting_that_may_be_slower_is_not_chosen() -> None:
    outcome = sized(
        CompletionTime(100.0), Work(input_bytes=UNIT_S * 999), of=settable(low=0.99, high=4.0)
    )
    assert (outcome.units, outcome.setting) == (10, "")


def test_an_uncertain_setting_counts_with_its_pessimistic_end() -> None:
    outcome = sized(
        CompletionTime(100.0), Work(input_bytes=UNIT_S * 999), of=settable(low=1.5, high=3.0)
    )
    assert (outcome.units, outcome.setting) == (7, "2x0.5GB")


def test_a_setting_needs_the_memory_of_its_tasks() -> None:
    work = Work(input_bytes=UNIT_S * 999, unit_memory_bytes=8e9)
    outcome = sized(CompletionTime(100.0), work, of=settable(low=2.0, high=2.0))
    assert (outcome.units, outcome.setting) == (3, "4x2GB")


def test_best_effort_runs_with_the_best_setting_too() -> None:
    outcome = sized(BestEffort(), Work(input_bytes=1e9), of=settable(low=2.0, high=2.0))
    assert outcome.setting == "2x0.5GB"
    assert outcome.predicted == pytest.approx(2e8 * INTERFERENCE_ALLOWANCE / 1e9)


def test_a_profile_without_settings_has_no_setting() -> None:
    work = Work(input_bytes=UNIT_S * 99)
    assert sized(CompletionTime(100.0), work, of=profile(bytes_rate=1e8)).setting == ""


def test_a_learned_allowance_applies_to_the_pessimistic_end_only() -> None:
    target, work = CompletionTime(100.0), Work(input_bytes=1e9)
    of = profile(bytes_rate=1e8, error=0.1)
    usual, slow, fast = (
        sized(target, work, of=of, facts=replace(FACTS, allowances=Allowances.all(value)))
        for value in (INTERFERENCE_ALLOWANCE, 0.6, 1.0)
    )
    assert slow.units == usual.units == fast.units
    assert slow.predicted == pytest.approx(usual.predicted)
    assert slow.high == pytest.approx(usual.high * INTERFERENCE_ALLOWANCE / 0.6)
    assert fast.predicted == pytest.approx(usual.predicted * INTERFERENCE_ALLOWANCE)
    assert usual.platforms is not None
    assert usual.slow_rates.keys() == usual.platforms
    assert usual.slow_rates == pytest.approx(slow.slow_rates)
    slowest = usual.slow_rate(usual.platforms)
    assert slowest == pytest.approx(1e9 / usual.high / INTERFERENCE_ALLOWANCE)
    assert all(usual.slow_rate([name]) >= slowest for name in usual.platforms)
    assert math.isnan(usual.slow_rate(["unknown"]))


def test_slow_jobs_do_not_make_a_target_infeasible() -> None:
    target, work = CompletionTime(1.05 * 1e12 / (64 * UNIT_S)), Work(input_bytes=1e12)
    facts = replace(FACTS, allowances=Allowances.all(0.5))
    assert sized(target, work, of=profile(bytes_rate=1e8), facts=facts).units == 64


def test_jobs_of_one_profile_share_its_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(profile: Profile, sizes: Ints, **choices: bool) -> tuple[Floats, Floats, Floats]:
        asked.append(sizes.size)
        return scale_factors(profile, sizes, **choices)

    monkeypatch.setattr(rate_grid, "scale_factors", counted)
    known = profile()
    facts = replace(FACTS, free=tuple(n // 2 for n in FACTS.units))
    for tasks in (5, 40):
        size(known, CompletionTime(600.0), Work(input_bytes=1e11, tasks=tasks), FACTS)
        size(known, CompletionTime(60.0), Work(input_bytes=1e9, tasks=tasks), facts)
    assert asked == [MAX_UNITS]
    size(known, InstructionRate(1e9), Work(), FACTS)
    size(profile(), CompletionTime(600.0), Work(input_bytes=1e11), FACTS)
    assert asked == [MAX_UNITS] * 3
