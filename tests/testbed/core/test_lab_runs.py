"""Records and results of the Lab, without a database."""

import math

import numpy as np
import pytest

from apps.testbed.core.lab import LabPlan, LabSetting
from apps.testbed.core.lab_grids import NEAR, PERFORMANCE_GRID, SERIES_POINTS
from apps.testbed.core.lab_results import MEASURES, compared
from apps.testbed.core.lab_runs import LabOutcome, fewer_servers, run_setting
from apps.testbed.core.replay import measures
from apps.testbed.core.replay.clusters import synthetic_cluster
from tests.testbed.core.test_lab_bundle import plan_with


def test_the_lab_and_the_replay_agree_on_directions_and_labels() -> None:
    ours = {measure.key: (measure.label, measure.better) for measure in MEASURES}
    theirs = {measure.key: (measure.label, measure.better) for measure in measures.MEASURES}
    assert ours.items() >= theirs.items()
    assert ours.keys() - theirs.keys() == {"near_full_speed"}


def test_fewer_servers_are_taken_from_every_platform() -> None:
    cluster = synthetic_cluster(200)
    counts = np.bincount(cluster.platform)
    fewer = fewer_servers(cluster, 0.8)
    assert np.bincount(fewer.platform).tolist() == [math.ceil(0.8 * n) for n in counts]
    assert fewer_servers(cluster, 0.05).platforms == cluster.platforms
    assert fewer_servers(cluster, 1.0) is cluster


def test_a_setting_with_fewer_servers_has_more_of_its_units_in_use() -> None:
    plan = plan_with(
        settings=(LabSetting("a", {}), LabSetting("b", {"servers_share": 0.5})), seeds=(1,)
    )
    whole, half = (run_setting(plan, setting, 1).record["row"] for setting in plan.settings)
    assert half["utilisation_mean"] > whole["utilisation_mean"]


def test_jobs_that_arrive_faster_use_more_units_at_once() -> None:
    plan = plan_with(
        settings=(LabSetting("a", {}), LabSetting("b", {"arrival_scale": 4.0})), seeds=(1,)
    )
    slow, fast = (run_setting(plan, setting, 1).record for setting in plan.settings)
    assert fast["row"]["utilisation_mean"] > 2.0 * slow["row"]["utilisation_mean"]
    assert fast["row"]["jobs_submitted"] == slow["row"]["jobs_submitted"]


def test_a_setting_with_weights_records_its_migrations_and_others_do_not() -> None:
    weights = {"weights": {"P": 1.0}, "rebalance_s": 60.0, "policy": "node_rr"}
    plan = plan_with(
        settings=(LabSetting("a", {"policy": "node_rr"}), LabSetting("b", weights)), seeds=(1,)
    )
    records = [run_setting(plan, setting, 1).record for setting in plan.settings]
    assert "migrations" not in records[0]
    assert records[1]["migrations"].keys() == {"containers", "jobs"}
    assert records[0]["row"].keys() == records[1]["row"].keys()
    found = compared(plan, records)
    assert found["migrations"] == {"b": float(records[1]["migrations"]["containers"])}


Outcomes = tuple[LabPlan, list[LabOutcome]]


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    """All runs of a plan of two settings and two seeds, seed by seed."""
    plan = plan_with()
    return plan, [run_setting(plan, *run) for run in plan.runs]


def test_a_record_follows_from_the_performance_of_the_jobs(outcomes: Outcomes) -> None:
    plan, runs = outcomes
    record, performance = runs[0]
    assert performance.shape == (len(plan.trace),)
    assert record["row"]["near_full_speed"] == pytest.approx((performance >= NEAR).mean())
    assert record["performance"][-1] == (performance <= PERFORMANCE_GRID[-1]).mean()
    of = plan.trace.jobs.application == 0
    name = plan.trace.applications[0]
    assert record["applications"][name] == pytest.approx(performance[of].mean(), abs=1e-5)
    assert len(record["used"]["shares"]) == SERIES_POINTS


def test_the_result_has_curves_series_and_changes_of_all_settings(outcomes: Outcomes) -> None:
    plan, runs = outcomes
    records = [made.record for made in runs]
    result = compared(plan, records)
    assert result["curves"].keys() == result["used"]["shares"].keys() == {"a", "b"}
    mean = np.mean([r["performance"] for r in records if r["setting"] == "a"], axis=0)
    assert result["curves"]["a"]["performance"] == pytest.approx(mean.tolist(), abs=1e-6)
    assert {each["setting"] for each in result["applications"]} == {"a"}
    counts = {each["application"]: each["jobs"] for each in result["applications"]}
    assert sum(counts.values()) == len(plan.trace)
    change = result["applications"][0]
    expected = [
        100.0 * (runs[i].record["applications"][change["application"]]
                 - runs[i + 1].record["applications"][change["application"]])
        for i in (0, 2)
    ]  # fmt: skip
    assert change["difference"][0] == pytest.approx(np.mean(expected))
