from collections.abc import Sequence

import numpy as np
import pytest

from apps.common.core.interference import SOURCES
from apps.emulation.core.draws import application_truth
from apps.emulation.core.probe import ProbeResult, exhaustive, probe, probe_steps
from apps.emulation.core.probe_runs import ProbeRun
from apps.emulation.core.truth import Truth
from apps.profiling.core.measurements import ProfilingStep
from apps.profiling.core.ramp import HALF_WIDTH_90, ProbeFailedError
from apps.workloads.core.framework import setting_named
from tests.emulation.worlds import all_platforms

BEST = "cr1.8xlarge"
PLAN = [
    ProbeRun(BEST, 1, 1, ("llc_capacity", "storage_bandwidth")),
    ProbeRun(BEST, 1, 8),
    ProbeRun(BEST, 2, 1),
    ProbeRun("m1.large", 1, 1),
]


def sort_truth() -> Truth:
    return application_truth(11, "sort", "analytics", all_platforms())


def test_four_runs_give_the_two_entries_of_each_matrix() -> None:
    cells = probe(sort_truth(), PLAN, np.random.default_rng(0)).cells
    assert sorted((cell.matrix, cell.column) for cell in cells) == [
        ("base_rate", "bytes"),
        ("base_rate", "metric"),
        ("caused", "llc_capacity"),
        ("caused", "storage_bandwidth"),
        ("framework", "1x1GB"),
        ("heterogeneity", BEST),
        ("heterogeneity", "m1.large"),
        ("scale_out", "1"),
        ("scale_out", "2"),
        ("scale_up", "1"),
        ("scale_up", "8"),
        ("tolerated", "llc_capacity"),
        ("tolerated", "storage_bandwidth"),
    ]


def test_the_same_seed_gives_the_same_measurements() -> None:
    assert probe(sort_truth(), PLAN, np.random.default_rng(3)) == probe(
        sort_truth(), PLAN, np.random.default_rng(3)
    )


def test_a_plan_takes_less_than_a_minute() -> None:
    assert 20.0 < probe(sort_truth(), PLAN, np.random.default_rng(0)).duration_s < 60.0


def mean_of(truth: Truth, matrix: str, column: str) -> float:
    rng = np.random.default_rng(5)
    samples = [probe(truth, PLAN, rng).cells for _ in range(60)]
    return float(
        np.mean(
            [
                c.value
                for cells in samples
                for c in cells
                if (c.matrix, c.column) == (matrix, column)
            ]
        )
    )


def test_rates_are_measured_without_bias() -> None:
    # 60 runs of 8 samples with 4 % noise, a quotient of two: 4 standard errors of 0.26 %
    truth = sort_truth()
    assert mean_of(truth, "base_rate", "bytes") == pytest.approx(truth.bytes_per_s, rel=0.01)
    assert mean_of(truth, "scale_up", "8") == pytest.approx(truth.scale_up.speed_up(8), rel=0.01)
    assert mean_of(truth, "scale_out", "2") == pytest.approx(
        truth.scale_out.efficiency(2), rel=0.01
    )


def test_scores_are_measured_within_two_points() -> None:
    truth = sort_truth()
    i = SOURCES.index("llc_capacity")
    assert mean_of(truth, "tolerated", "llc_capacity") == pytest.approx(
        truth.tolerated[i], abs=2.0
    )
    assert mean_of(truth, "caused", "llc_capacity") == pytest.approx(truth.caused[i], abs=2.0)


def test_the_reported_error_matches_the_true_error() -> None:
    truth, rng = sort_truth(), np.random.default_rng(6)
    cells = [cell for _ in range(40) for cell in exhaustive(truth, rng)]
    sizes = [
        (cell.value - truth.tolerated[SOURCES.index(cell.column)]) / cell.standard_error
        for cell in cells
        if cell.matrix == "tolerated"
    ]
    # 400 intervals of 90 %: 1.5 % standard error of the share; slightly conservative
    assert 0.87 < np.mean(np.abs(sizes) < HALF_WIDTH_90) < 0.99


def test_the_library_has_every_column_once() -> None:
    cells = exhaustive(sort_truth(), np.random.default_rng(0))
    columns = [(cell.matrix, cell.column) for cell in cells]
    assert len(set(columns)) == len(columns) == 2 + 6 + 8 + 14 + 10 + 10 + 18


def test_a_framework_setting_is_compared_to_the_default() -> None:
    truth = sort_truth()
    assert truth.framework is not None
    runs = [*PLAN, ProbeRun(BEST, 1, 1, setting="2x0.5GB")]
    cells = probe(truth, runs, np.random.default_rng(0)).cells
    (cell,) = (c for c in cells if (c.matrix, c.column) == ("framework", "2x0.5GB"))
    # eight samples of 4 % each: a ratio has a standard error of 2 %; the tolerance is five of them
    assert cell.value == pytest.approx(truth.framework.speed(setting_named("2x0.5GB")), rel=0.1)


def test_refuses_a_setting_for_an_application_without_settings() -> None:
    truth = application_truth(11, "sort", "batch", all_platforms())
    with pytest.raises(ValueError, match="has no framework settings"):
        probe(truth, [*PLAN, ProbeRun(BEST, 1, 1, setting="2x0.5GB")], np.random.default_rng(0))


def test_refuses_a_plan_without_a_reference_run() -> None:
    with pytest.raises(ValueError, match="one unit on cr1"):
        probe(sort_truth(), PLAN[1:], np.random.default_rng(0))


def test_refuses_an_unknown_platform() -> None:
    with pytest.raises(ValueError, match="'abacus'"):
        probe(sort_truth(), [PLAN[0], ProbeRun("abacus", 1, 1)], np.random.default_rng(0))


def test_refuses_an_unknown_source() -> None:
    with pytest.raises(ValueError, match="unknown sources luck"):
        probe(sort_truth(), [ProbeRun(BEST, 1, 1, ("luck",))], np.random.default_rng(0))


def test_refuses_a_run_without_a_counterpart_on_the_highest_end_platform() -> None:
    with pytest.raises(ValueError, match="no run of 4 units on cr1"):
        probe(sort_truth(), [PLAN[0], ProbeRun("m1.large", 1, 4)], np.random.default_rng(0))


# ---- steps ----


def steps(
    runs: Sequence[ProbeRun] = PLAN, *, seed: int = 0, **options: float
) -> list[ProfilingStep]:
    return list(probe_steps(sort_truth(), runs, np.random.default_rng(seed), **options))


def test_every_run_and_source_is_a_step_in_order_of_time() -> None:
    completed = steps()
    assert [(step.done, step.total) for step in completed] == [(n, 6) for n in range(1, 7)]
    times = [step.at_s for step in completed]
    assert times == sorted(times)
    assert [step.message.split(":")[0] for step in completed[-2:]] == [
        "llc_capacity",
        "storage_bandwidth",
    ]
    assert "tolerated" in completed[-1].message


def test_runs_of_one_copy_follow_one_another() -> None:
    names = ["m1.large", "m1.small", "c1.medium"]
    alone = [PLAN[0], *(ProbeRun(name, 1, 1) for name in names)]
    shared = [PLAN[0], *(ProbeRun(name, 1, 1, copy=3) for name in names)]
    ended = {step.message.split(":")[0]: step.at_s for step in steps(shared)}
    spans = np.diff([ended[f"1 unit on {name}"] for name in names])
    # each 3-10 s of set-up and 12 s of samples
    assert np.all((spans > 15.0) & (spans < 22.0))
    assert max(step.at_s for step in steps(alone) if "unit" in step.message) < 22.0


ALL = [ProbeRun(BEST, 1, 1, SOURCES[:4], SOURCES[4:])]


def sources(completed: Sequence[ProfilingStep]) -> list[str]:
    return [
        step.message.split(":")[0] for step in completed if step.message.split(":")[0] in SOURCES
    ]


def test_without_a_budget_all_planned_sources_are_measured() -> None:
    assert sources(steps(ALL)) == list(SOURCES[:4])


def test_short_ramps_leave_time_for_spare_sources() -> None:
    # 22 s and 4 times 11 s are planned; a source takes some 10 s
    counts = [len(sources(steps(ALL, seed=seed, budget_s=66.0))) for seed in range(40)]
    assert np.mean([count > 4 for count in counts]) > 0.3
    assert max(counts) < 9


def test_the_last_source_starts_within_the_budget() -> None:
    ends = [steps(ALL, seed=seed, budget_s=66.0)[-1].at_s for seed in range(40)]
    # started at least 11 s before the end; a source takes at most 30 s
    assert max(ends) < 66.0 - 11.0 + 30.0
    assert np.median(ends) < 66.0


def test_two_sources_are_measured_with_any_budget() -> None:
    assert sources(steps(ALL, budget_s=1.0)) == list(SOURCES[:2])


def test_the_last_step_completes_the_total() -> None:
    ends = [steps(ALL, seed=seed, budget_s=66.0)[-1] for seed in range(20)]
    assert [step.done for step in ends] == [step.total for step in ends]


def test_an_alternating_run_measures_one_score_of_each_source() -> None:
    run = ProbeRun(BEST, 1, 1, SOURCES[:5], is_alternating=True)
    cells = probe(sort_truth(), [run], np.random.default_rng(0)).cells
    scores = [(c.matrix, c.column) for c in cells if c.column in SOURCES]
    assert scores == [
        ("tolerated", SOURCES[0]),
        ("caused", SOURCES[1]),
        ("tolerated", SOURCES[2]),
        ("caused", SOURCES[3]),
        ("tolerated", SOURCES[4]),
    ]


# ---- failures ----


def test_a_failed_ramp_is_a_missing_cell() -> None:
    attempts = [probe_failing(seed, 0.2) for seed in range(30)]
    results = [result for result in attempts if result is not None]
    cells = {(c.matrix, c.column) for result in results for c in result.cells}
    gaps = [gap for result in results for gap in result.missing]
    assert {gap.matrix for gap in gaps} == {
        "tolerated", "caused", "scale_up", "scale_out", "heterogeneity",
    }  # fmt: skip
    assert {gap.reason for gap in gaps} == {
        "the microbenchmark died",
        "its copy died during set-up",
    }
    assert len(cells) == 13
    counts = [len(result.cells) + len(result.missing) for result in results]
    assert set(counts) == {13}


def probe_failing(seed: int, failures: float) -> ProbeResult | None:
    """Result of the plan; None if the reference run failed."""
    rng = np.random.default_rng(seed)
    last = list(probe_steps(sort_truth(), PLAN, rng, failures=failures))[-1]
    if last.failed:
        return None
    return probe(sort_truth(), PLAN, np.random.default_rng(seed), failures=failures)


def test_copies_fail_at_the_given_rate() -> None:
    rng = np.random.default_rng(3)
    reasons = [
        list(probe_steps(sort_truth(), PLAN, rng, failures=0.1))[-1].failed for _ in range(600)
    ]
    # 600 reference runs: 1.2 % standard error
    assert np.mean([reason != "" for reason in reasons]) == pytest.approx(0.1, abs=0.04)


def test_nothing_is_measured_without_the_reference_run() -> None:
    (step,) = steps(failures=1.0)
    assert step.failed == f"1 unit on {BEST}: its copy died during set-up"
    assert step.cells == ()
    with pytest.raises(ProbeFailedError, match="its copy died"):
        probe(sort_truth(), PLAN, np.random.default_rng(0), failures=1.0)


def test_the_library_leaves_out_failed_cells() -> None:
    complete = {(c.matrix, c.column) for c in exhaustive(sort_truth(), np.random.default_rng(2))}
    partial = {
        (c.matrix, c.column)
        for c in exhaustive(sort_truth(), np.random.default_rng(2), failures=0.2)
    }
    assert partial < complete
