"""Bundles of the Lab, without a database."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from apps.common.core.errors import InvalidInputError
from apps.testbed.core.generator import generate_day
from apps.testbed.core.lab import LabPlan, LabSetting, canonical, plan_of
from apps.testbed.core.lab_bundle import bundle_of, plan_of_bundle, rerun
from apps.testbed.core.replay.clusters import document_of, synthetic_cluster
from apps.testbed.core.replay.errors import ReplayError
from apps.testbed.core.trace_jobs import workload_of_sizes

SETTINGS = (LabSetting("a", {}), LabSetting("b", {"policy": "random"}))


def plan_with(**changes: Any) -> LabPlan:
    """A plan of two settings and two seeds on five jobs."""
    given: dict[str, Any] = {
        "cluster": document_of(synthetic_cluster(20)),
        "trace": workload_of_sizes(generate_day(5, np.random.default_rng(1))),
        "world": "paper",
        "settings": SETTINGS,
        "seeds": (1, 2),
        "baseline": "b",
    }
    return LabPlan(**(given | changes))


def record(plan: LabPlan, setting: LabSetting, seed: int) -> dict[str, Any]:
    """A record without a replay."""
    row = {"performance_mean": 0.5}
    return {"setting": setting.name, "seed": seed, "value": 0.1 + seed, "row": row}


def bundle() -> dict[str, Any]:
    """The bundle of all runs but the last one."""
    plan = plan_with()
    records = [record(plan, *run) for run in plan.runs[:-1]]
    return bundle_of("n", plan, {"berth": "1"}, records, None)


def test_the_plan_of_a_bundle_is_that_of_the_comparison() -> None:
    assert plan_of_bundle(bundle()).digest == plan_with().digest


def test_a_rerun_counts_and_compares_the_records_that_a_bundle_has() -> None:
    again = rerun(bundle(), record)
    assert (len(again.records), again.compared, again.differing) == (4, 3, ())


def test_a_rerun_names_the_runs_that_differ() -> None:
    content = bundle()
    content["records"][1]["value"] += 1e-12
    assert rerun(content, record).differing == (("a", 2),)


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"format": "x"}, "not a bundle"),
        ({"version": 2}, "has version 2"),
        ({"plan": {}}, "/cluster: must be an object; it is missing"),
        ({"plan": None}, "the bundle has no plan, which must be a dict"),
        ({"digest": "0"}, "were changed: the digest differs"),
        ({"jobs": ["{"]}, "jobs of the bundle, line 1: is not JSON"),
        ({"jobs": [1]}, "must be a list of texts"),
        ({"records": [1]}, "record 0 of the bundle must be an object"),
        ({"records": [{}]}, "record 0 of the bundle is of None with seed None"),
        ({"records": [{"setting": ["a"], "seed": 1}]}, "which the plan does not run"),
        ({"records": [{"setting": "c", "seed": 1}]}, "of 'c' with seed 1, which the plan"),
        ({"records": [{"setting": "a", "seed": 1}] * 2}, "record 1 of the bundle is of 'a'"),
    ],
    ids=[
        "format", "version", "plan", "no plan", "digest", "jobs", "numbers", "record", "empty",
        "list", "unknown", "twice",
    ],
)  # fmt: skip
def test_a_damaged_bundle_is_refused(change: dict[str, Any], detail: str) -> None:
    with pytest.raises(ReplayError, match=detail):
        plan_of_bundle(bundle() | change)


@pytest.mark.parametrize(
    "change",
    [
        {"seeds": (1, 3)},
        {"world": "measured"},
        {"baseline": "a"},
        {"bound": "a"},
        {"trace": workload_of_sizes(generate_day(5, np.random.default_rng(2)))},
        {"cluster": document_of(synthetic_cluster(21))},
        {"settings": (SETTINGS[0], LabSetting("b", {"policy": "quietest"}))},
    ],
    ids=["seeds", "world", "baseline", "bound", "jobs", "cluster", "settings"],
)
def test_the_digest_covers_the_whole_plan(change: dict[str, Any]) -> None:
    assert plan_with(**change).digest != plan_with().digest


def test_every_problem_of_a_plan_is_listed() -> None:
    choices = deepcopy(plan_with().choices()) | {"world": "flat", "baseline": "c"}
    choices["settings"][0]["options"] = {"agents": 0, "policy": "best"}
    with pytest.raises(InvalidInputError) as caught:
        plan_of(choices, plan_with().trace)
    assert [problem.pointer for problem in caught.value.problems] == [
        "/world",
        "/settings/0/options/agents",
        "/settings/0/options/policy",
        "/baseline",
    ]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"settings": {}}, "/settings"),
        ({"settings": [1]}, "/settings/0"),
        ({"settings": [{"name": 1, "options": {}}]}, "/settings/0/name"),
        ({"settings": [{"name": "a", "options": []}]}, "/settings/0/options"),
        ({"seeds": [1.5]}, "/seeds/0"),
        ({"seeds": [True]}, "/seeds/0"),
        ({"seeds": [-1]}, "/seeds/0"),
        ({"seeds": []}, "/seeds"),
        ({"bound": 1}, "/bound"),
        ({"cluster": {}}, "/cluster"),
    ],
    ids=[
        "settings", "setting", "name", "options", "part", "boolean", "negative", "none", "bound",
        "cluster",
    ],
)  # fmt: skip
def test_a_plan_of_the_wrong_shape_is_refused(change: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        plan_of(plan_with().choices() | change, plan_with().trace)
    assert caught.value.problems[0].pointer == pointer


def test_equal_numbers_have_the_same_canonical_text() -> None:
    assert (
        canonical([-0.0, 1e16, 2.0, 0.1])
        == canonical([0, 10**16, 2, 0.1])
        == ("[0,10000000000000000,2,0.1]")
    )
