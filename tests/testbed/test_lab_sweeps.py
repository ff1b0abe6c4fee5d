"""Sweeps by successive halving: fewer runs, resumable, repeatable from a bundle."""

import json
from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.operations.services import cancel_operation
from apps.testbed.core.lab_bundle import plan_of_bundle, rerun
from apps.testbed.models import LabComparison, LabRun
from apps.testbed.selectors.lab import comparison_by_id
from apps.testbed.selectors.lab_plans import bundle, plan_of_comparison
from apps.testbed.selectors.lab_results import halving_of
from apps.testbed.services import lab_runs
from apps.testbed.services.lab_requests import resume_comparison
from apps.testbed.services.lab_runs import run_open_comparison
from tests import factories
from tests.testbed import lab_world
from tests.testbed.lab_world import fake_runs, nothing

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def always_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report every step instead of once a second."""
    monkeypatch.setattr(lab_runs, "REPORT_S", 0.0)


def begun() -> LabComparison:
    return lab_world.comparison(settings=lab_world.SWEEP, seeds=tuple(range(1, 9)), first_seeds=2)


def dropped(found: LabComparison) -> list[tuple[str, int]]:
    halving = halving_of(found) or {"rounds": []}
    return [
        (each["setting"], one["seeds"])
        for one in halving["rounds"]
        for each in one["behind"]
        if each["is_dropped"]
    ]


def test_a_dropped_setting_runs_no_more_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_runs(monkeypatch, nothing)
    key = begun().pk
    assert run_open_comparison()
    found = comparison_by_id(key)
    ((name, seeds),) = dropped(found)
    assert name == "weak"
    ran = {
        each: LabRun.objects.filter(comparison=found, setting=each).count()
        for each in ("tarcil", "random", "weak", "truth")
    }
    assert ran == {"tarcil": 8, "random": 8, "weak": seeds, "truth": 8}
    assert seeds < 8
    assert found.operation.total == found.operation.progress == sum(ran.values())
    assert found.result is not None
    assert (found.result["settings"], found.result["bound"]) == (["tarcil", "random"], "truth")


def test_a_sweep_that_was_cancelled_drops_the_same_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake_runs(monkeypatch, nothing)
    whole = begun()
    assert run_open_comparison()
    cut = begun()
    made: list[str] = []

    def cancel(setting: str, seed: int) -> None:
        made.append(setting)
        if len(made) == 13:
            cancel_operation(cut.operation_id)

    fake_runs(monkeypatch, cancel)
    assert not run_open_comparison()
    fake_runs(monkeypatch, nothing)
    resume_comparison(cut.pk, by=None)
    assert run_open_comparison()
    results = [comparison_by_id(each.pk).result for each in (whole, cut)]
    assert results[0] == results[1]


def test_a_bundle_of_a_sweep_repeats_its_rounds() -> None:
    found = lab_world.finished_sweep()
    content = json.loads(json.dumps(bundle(found)))
    assert plan_of_bundle(content).first_seeds == 2

    def run(plan: Any, setting: Any, seed: int) -> dict[str, Any]:
        made: dict[str, Any] = lab_world.record(plan, setting.name, seed)
        return made

    again = rerun(content, run)
    assert (len(again.records), again.differing) == (LabRun.objects.count(), ())

    def other(plan: Any, setting: Any, seed: int) -> dict[str, Any]:
        made = run(plan, setting, seed)
        if setting.name == "random":  # so bad that another setting is dropped earlier or later
            made["row"]["performance_mean"] = 0.9
        return made

    changed = rerun(content, other)
    assert ("random", 1) in changed.differing


def test_a_plan_without_a_sweep_keeps_its_digest() -> None:
    plain, sweep = lab_world.comparison(), begun()
    assert "halving" not in plan_of_comparison(plain).choices()
    assert plan_of_comparison(sweep).choices()["halving"] == {"first_seeds": 2}


@pytest.mark.parametrize(
    ("change", "pointer", "detail"),
    [
        ({"halving": {"first_seeds": 4}}, "/halving/first_seeds", "must be from 2 to 3, not 4"),
        ({"halving": {"first_seeds": 1}}, "/halving/first_seeds", "greater than or equal to 2"),
        ({"settings": lab_world.AT_LOADS, "halving": {"first_seeds": 2}}, "/halving", "same"),
    ],
    ids=["many", "one", "loads"],
)
def test_a_sweep_that_cannot_run_is_refused(
    change: dict[str, Any], pointer: str, detail: str
) -> None:
    scenario = lab_world.comparison().scenario
    client = APIClient()
    client.force_login(factories.user("olga", role=Role.OPERATOR))
    body = {
        "name": "n", "scenario": str(scenario.pk), "settings": lab_world.SWEEP,
        "seeds": [1, 2, 3], "baseline": "random", "bound": "truth",
    }  # fmt: skip
    answer = client.post("/api/v1/comparisons/", body | change, format="json")
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == pointer
    assert detail in error["detail"]
    fine = client.post(
        "/api/v1/comparisons/", body | {"halving": {"first_seeds": 2}}, format="json"
    )
    assert (fine.status_code, fine.json()["halving"]) == (202, {"first_seeds": 2})
