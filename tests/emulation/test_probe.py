import numpy as np
import pytest

from apps.common.core.interference import SOURCES
from apps.emulation.core.draws import application_truth
from apps.emulation.core.probe import ProbeRun, exhaustive, probe
from apps.emulation.core.truth import Truth
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
        ("heterogeneity", BEST),
        ("heterogeneity", "m1.large"),
        ("scale_out", "1"),
        ("scale_out", "2"),
        ("scale_up", "1"),
        ("scale_up", "8"),
        ("tolerated", "llc_capacity"),
        ("tolerated", "storage_bandwidth"),
    ]


def test_the_same_seed_measures_the_same() -> None:
    assert probe(sort_truth(), PLAN, np.random.default_rng(3)) == probe(
        sort_truth(), PLAN, np.random.default_rng(3)
    )


def test_a_minute_is_enough() -> None:
    assert 20.0 < probe(sort_truth(), PLAN, np.random.default_rng(0)).duration_s < 90.0


def mean_of(truth: Truth, matrix: str, column: str) -> float:
    rng = np.random.default_rng(5)
    found = [probe(truth, PLAN, rng).cells for _ in range(60)]
    return float(
        np.mean(
            [c.value for cells in found for c in cells if (c.matrix, c.column) == (matrix, column)]
        )
    )


def test_rates_are_measured_without_bias() -> None:
    # 60 runs of 8 samples of 4 %, twice for a quotient: 0.26 % standard error; 4 of them
    truth = sort_truth()
    assert mean_of(truth, "base_rate", "bytes") == pytest.approx(truth.bytes_per_s, rel=0.01)
    assert mean_of(truth, "scale_up", "8") == pytest.approx(truth.scale_up.speed_up(8), rel=0.01)
    assert mean_of(truth, "scale_out", "2") == pytest.approx(
        truth.scale_out.efficiency(2), rel=0.01
    )


def test_scores_are_measured_within_a_ramp_step() -> None:
    truth = sort_truth()
    i = SOURCES.index("llc_capacity")
    assert mean_of(truth, "tolerated", "llc_capacity") == pytest.approx(
        truth.tolerated[i], abs=2.5
    )
    assert mean_of(truth, "caused", "llc_capacity") == pytest.approx(truth.caused[i], abs=2.5)


def test_the_library_has_every_column_once() -> None:
    cells = exhaustive(sort_truth(), np.random.default_rng(0))
    columns = [(cell.matrix, cell.column) for cell in cells]
    assert len(set(columns)) == len(columns) == 2 + 6 + 6 + 14 + 10 + 10


def test_refuses_a_plan_without_a_reference_run() -> None:
    with pytest.raises(ValueError, match="one unit on cr1"):
        probe(sort_truth(), PLAN[1:], np.random.default_rng(0))


def test_refuses_an_unknown_platform() -> None:
    with pytest.raises(ValueError, match="'abacus'"):
        probe(sort_truth(), [PLAN[0], ProbeRun("abacus", 1, 1)], np.random.default_rng(0))
