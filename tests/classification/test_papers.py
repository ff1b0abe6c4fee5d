"""Comparison with the papers' figures: measured columns, and plausible results."""

import json
from pathlib import Path

import numpy as np
import pytest

from apps.classification.core.exhaustive import Combination
from apps.classification.core.matrix import MatrixName
from apps.classification.core.ranking import ranking
from apps.emulation.core.truth import interference_factor
from benchmarks import _joint, _papers
from benchmarks._world import CURVES, true_row, world


def measured_columns(way: _papers.Way, app: str) -> dict[MatrixName, list[str]]:
    cluster = world(1)
    order = ranking(cluster.library, cluster.platforms)
    cells = way(cluster, app, order, np.random.default_rng(4))
    return {name: sorted(c.column for c in cells if c.matrix == name) for name in MatrixName}


@pytest.mark.parametrize("way", [_papers.random_entries, _papers.informed_entries])
def test_two_entries_a_matrix_are_measured_the_reference_among_those_of_curves(
    way: _papers.Way,
) -> None:
    columns = measured_columns(way, "new-batch-3")
    assert [len(columns[name]) for name in CURVES] == [2] * 5
    assert columns[MatrixName.TOLERATED] == columns[MatrixName.CAUSED]
    assert "1" in columns[MatrixName.SCALE_UP]
    assert "1" in columns[MatrixName.SCALE_OUT]
    assert world(1).platforms[0] in columns[MatrixName.HETEROGENEITY]


def test_the_live_plan_measures_more_where_its_budget_allows() -> None:
    service = measured_columns(_papers.live_entries, "new-latency_critical-3")
    small = measured_columns(_papers.live_entries, "new-batch-3")
    assert len(service[MatrixName.TOLERATED]) > len(small[MatrixName.TOLERATED]) >= 2
    assert small[MatrixName.SCALE_OUT] == ["1"]


def test_joint_rates_are_those_of_the_truth_at_each_combination() -> None:
    truth = next(iter(world(1).new.values()))
    best, other = truth.catalogue.names[0], truth.catalogue.names[5]
    columns = (
        Combination(best, 1, 1),
        Combination(other, 4, 16),
        Combination(best, 1, 1, "llc_capacity"),
    )
    rates = _joint.true_rates(truth, columns) / truth.metric_per_s
    speed = truth.platform_speed[5] * truth.scale_up.speed_up(4) * truth.scale_out.speed_up(16)
    pressure = np.where(np.arange(10) == 2, _joint.PRESSURE, 0.0)
    assert rates == pytest.approx([1.0, speed, interference_factor(pressure, truth.tolerated)])


def test_an_unknown_matrix_has_no_truth() -> None:
    truth = next(iter(world(1).new.values()))
    with pytest.raises(ValueError, match="must be one of heterogeneity"):
        true_row(MatrixName.BASE_RATE, truth)


def test_the_figures_are_stored_beside_the_papers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_papers, "SEEDS", 1)
    monkeypatch.setattr(_joint, "UNITS", (1, 4))
    monkeypatch.setattr(_joint, "SERVERS", (1,))
    _papers.papers(1, quiet=True, worlds=["paper"], folder=tmp_path)
    stored = json.loads((tmp_path / "classification-papers.json").read_text())
    printed = stored["figures"]["paper"]
    paragon = {row["name"]: row for row in printed["paragon"]}
    speeds = paragon["heterogeneity error, average"]
    assert speeds["paper"] == 3.8
    assert 0.0 < speeds["ours"]["live"] < speeds["ours"]["2 informative"] < 6.0
    assert speeds["ours"]["2 informative"] < speeds["ours"]["2 random"]
    assert 80.0 < paragon["best platform found"]["ours"]["2 informative"] <= 100.0
    assert len(printed["quasar_table_2"]) == 19
    assert printed["quasar_table_2"][0]["paper"] == [5.2, 9.8, 11.0]
    blend, pq = printed["exhaustive"]
    assert blend["columns"] == 14 * 2 * 11
    assert 0.02 < blend["joint_error"] < 0.2
    assert blend["parallel_informed_error"] < blend["parallel_error"] < pq["parallel_error"]
    assert {name: len(rows) for name, rows in stored["tables"].items()} == {
        "paragon": 8,
        "quasar": 20,
        "exhaustive": 3,
    }
    assert stored["tables"]["quasar"][5][5].endswith("(8 entries)")


def test_the_measured_world_is_harder_to_classify() -> None:
    measured, paper = world(1, "measured"), world(1, "paper")
    spread = [np.log(drawn.truth(MatrixName.HETEROGENEITY)).std() for drawn in (measured, paper)]
    assert spread[0] > 2.0 * spread[1]
    assert measured.platforms == paper.platforms


def test_retained_shares_follow_the_curves_of_the_truth() -> None:
    truth = next(iter(world(1, "measured").new.values()))
    shares = _joint.retained_share(truth.tolerated[None], truth.curves)[0]
    pressure = np.where(np.arange(10) == 2, _joint.PRESSURE, 0.0)
    assert shares[2] == interference_factor(pressure, truth.tolerated, truth.curves)
