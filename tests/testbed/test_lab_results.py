"""Results against any baseline, and the jobs that gain or lose."""

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.testbed.core.lab_results import compared
from apps.testbed.models import LabComparison, LabRun
from apps.testbed.selectors.lab import comparison_by_id
from apps.testbed.selectors.lab_plans import plan_of_comparison
from apps.testbed.selectors.lab_results import baselines_of, jobs_that_change, result_with
from apps.workloads.models import Job
from tests import factories
from tests.testbed import lab_world

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator() -> APIClient:
    client = APIClient()
    client.force_login(factories.user("olga", role=Role.OPERATOR))
    return client


def plain(value: Any) -> Any:
    """A value as JSON stores it."""
    return json.loads(json.dumps(value))


def test_another_baseline_gives_what_a_plan_with_it_would_give() -> None:
    found = lab_world.finished()
    plan = replace(plan_of_comparison(found), baseline="tarcil")
    records = [run.record for run in LabRun.objects.filter(comparison=found)]
    expected = plain(compared(plan, records))
    assert plain(result_with(found, "tarcil")) == expected
    assert expected["verdict"].startswith("tarcil beats every other setting")
    assert plain(result_with(found, "tarcil")) == expected, "from the cache"


@pytest.mark.parametrize("name", ["", "random", "truth", "x"])
def test_an_unknown_baseline_and_the_bound_leave_the_result(name: str) -> None:
    found = lab_world.finished()
    assert baselines_of(found) == ("tarcil", "random")
    assert result_with(found, name) == found.result


def test_rest_compares_with_the_baseline_in_the_address(operator: APIClient) -> None:
    url = f"/api/v1/comparisons/{lab_world.finished().pk}/"
    assert operator.get(url).json()["result"]["baseline"] == "random"
    assert operator.get(f"{url}?baseline=tarcil").json()["result"]["baseline"] == "tarcil"
    refused = operator.get(f"{url}?baseline=truth")
    assert refused.status_code == 400
    assert refused.json()["detail"] == "baseline must be one of tarcil, random, not 'truth'."
    waiting = f"/api/v1/comparisons/{lab_world.comparison().pk}/?baseline=tarcil"
    assert operator.get(waiting).status_code == 409


def with_changes(found: LabComparison, changes: dict[int, float]) -> None:
    """Change the performance of some jobs under tarcil, by their place, in all seeds."""
    for run in LabRun.objects.filter(comparison=found):
        values = np.full(found.scenario.jobs_total, 0.5, dtype=np.float32)
        if run.setting == "tarcil":
            for place, value in changes.items():
                values[place] = value
        run.performance = values.tobytes()
        run.save(update_fields=["performance"])


def test_rest_lists_the_jobs_that_gain_or_lose(operator: APIClient) -> None:
    found = lab_world.finished()
    with_changes(found, {3: 0.9, 5: 0.25})
    url = f"/api/v1/comparisons/{found.pk}/jobs/"
    body = operator.get(f"{url}?setting=tarcil").json()
    assert {name: body[name] for name in ("setting", "baseline", "jobs", "gained", "lost")} == {
        "setting": "tarcil", "baseline": "random", "jobs": 20, "gained": 1, "lost": 1,
    }  # fmt: skip
    assert [(row["place"], row["change_points"]) for row in body["results"]] == [
        (3, 40.0), (5, -25.0),
    ]  # fmt: skip
    assert body["results"][0]["job"] is None
    losses = operator.get(f"{url}?setting=tarcil&direction=losses").json()["results"]
    assert [row["place"] for row in losses] == [5]
    other = operator.get(f"{url}?setting=random&baseline=tarcil").json()["results"]
    assert [row["change_points"] for row in other] == [-40.0, 25.0]


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("setting=x", "setting must be one of tarcil, truth, not 'x'."),
        ("setting=random", "setting must be one of tarcil, truth, not 'random'."),
        ("direction=up", "direction must be one of all, gains, losses, not 'up'."),
        ("limit=0", "limit must be within 1 and 1000, not '0'."),
    ],
)
def test_rest_names_a_parameter_that_is_not_accepted(
    operator: APIClient, query: str, detail: str
) -> None:
    refused = operator.get(f"/api/v1/comparisons/{lab_world.finished().pk}/jobs/?{query}")
    assert (refused.status_code, refused.json()["detail"]) == (400, detail)


def test_jobs_of_this_cluster_are_named_if_the_caller_sees_them() -> None:
    found = lab_world.finished()
    mine, other = factories.job("mine"), factories.job("other")
    keys = [UUID(int=i) for i in range(20)]
    keys[3], keys[5] = mine.pk, other.pk
    scenario = found.scenario
    scenario.job_ids = b"".join(key.bytes for key in keys)
    scenario.save(update_fields=["job_ids"])
    with_changes(found, {3: 0.9, 5: 0.25, 7: 0.4})
    visible = Job.objects.filter(pk=mine.pk)
    again = comparison_by_id(found.pk)
    rows = jobs_that_change(again, visible, setting="tarcil", baseline="random", limit=10).rows
    assert [(row.change.place, row.job) for row in rows] == [(3, mine), (5, None), (7, None)]
