"""The Lab: comparisons as operations that survive kills, and their deletion."""

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.models import AuditEntry
from apps.common.core.errors import ConflictError
from apps.operations.models import Operation
from apps.operations.services import (
    cancel_operation,
    release_expired_operations,
)
from apps.operations.services.retention import operation_kinds, run_retention
from apps.testbed.models import LabComparison, LabRun, LabScenario
from apps.testbed.selectors.lab import comparison_by_id, compressed
from apps.testbed.selectors.lab_plans import plan_of_comparison
from apps.testbed.services import lab_requests, lab_runs, retention
from apps.testbed.services.lab_requests import (
    delete_comparison,
    delete_scenario,
    resume_comparison,
)
from apps.testbed.services.lab_runs import run_open_comparison
from tests.testbed import lab_world
from tests.testbed.lab_world import fake_runs, nothing

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def always_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report every step instead of once a second."""
    monkeypatch.setattr(lab_runs, "REPORT_S", 0.0)


def test_a_comparison_runs_every_setting_with_every_seed() -> None:
    begun = lab_world.comparison(seeds=(1, 2))
    assert run_open_comparison()
    found = comparison_by_id(begun.pk)
    assert found.operation.status == "succeeded"
    assert found.result is not None
    assert found.operation.result is not None
    assert (found.operation.progress, found.operation.total) == (6, 6)
    runs = set(LabRun.objects.values_list("setting", "seed"))
    assert runs == {(s, seed) for s in ("tarcil", "random", "truth") for seed in (1, 2)}
    assert found.result["baseline"] == "random"
    assert found.result["settings"] == ["tarcil", "random"]
    assert found.result["verdict"] == found.operation.result["verdict"]
    assert found.result["jobs"] == 20
    row = LabRun.objects.first().record["row"]  # type: ignore[union-attr]
    assert row["jobs_submitted"] == 20
    assert not run_open_comparison()


def test_the_result_compares_by_paired_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_runs(monkeypatch, nothing)
    begun = lab_world.comparison()
    assert run_open_comparison()
    result = comparison_by_id(begun.pk).result
    assert result is not None
    assert result["verdict"].startswith("tarcil beats random on mean performance by 20")
    assert "short of the bound truth." in result["verdict"]
    curves = result["curves"]["tarcil"]["performance"]
    plan = plan_of_comparison(begun)
    assert curves == pytest.approx(lab_world.record(plan, "tarcil", 1)["performance"], abs=1e-6)


def test_a_cancelled_comparison_keeps_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = lab_world.comparison()

    def cancel(setting: str, seed: int) -> None:
        if (setting, seed) == ("random", 1):
            cancel_operation(begun.operation_id)

    fake_runs(monkeypatch, cancel)
    assert not run_open_comparison()
    found = comparison_by_id(begun.pk)
    assert (found.operation.status, found.result) == ("cancelled", None)
    assert found.runs_done == 2  # type: ignore[attr-defined]


class KilledError(BaseException):
    """The worker dies."""


def test_another_worker_continues_after_a_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = lab_world.comparison()
    ran: list[tuple[str, int]] = []

    def die(setting: str, seed: int) -> None:
        ran.append((setting, seed))
        if (setting, seed) == ("truth", 2):
            raise KilledError

    fake_runs(monkeypatch, die)
    with pytest.raises(KilledError):
        run_open_comparison()
    assert not run_open_comparison()  # the lease of the first worker holds
    take_over()
    fake_runs(monkeypatch, lambda setting, seed: ran.append((setting, seed)))
    assert run_open_comparison()
    assert comparison_by_id(begun.pk).operation.status == "succeeded"
    assert sorted(set(ran)) == sorted(LabRun.objects.values_list("setting", "seed"))
    assert len(ran) == 10  # of nine runs, only the interrupted one ran again


def take_over() -> None:
    """Let the lease of a dead worker expire."""
    Operation.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    release_expired_operations()


def test_a_run_that_kills_its_workers_fails_the_comparison(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = lab_world.comparison()

    def die(setting: str, seed: int) -> None:
        if (setting, seed) == ("random", 1):
            raise KilledError

    fake_runs(monkeypatch, die)
    for _ in range(3):
        with pytest.raises(KilledError):
            run_open_comparison()
        take_over()
    assert not run_open_comparison()
    operation = comparison_by_id(begun.pk).operation
    assert operation.status == "failed"
    assert operation.problem == {
        "title": "The comparison failed",
        "detail": "3 workers ended during it: random, seed 1.",
    }


def test_kills_during_different_runs_do_not_fail_the_comparison(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = lab_world.comparison()
    killed: set[tuple[str, int]] = set()

    def die_once(setting: str, seed: int) -> None:
        if (setting, seed) not in killed:
            killed.add((setting, seed))
            raise KilledError

    fake_runs(monkeypatch, die_once)
    for _ in range(9):
        with pytest.raises(KilledError):
            run_open_comparison()
        take_over()
    assert run_open_comparison()
    assert comparison_by_id(begun.pk).operation.status == "succeeded"


def test_jobs_that_cannot_be_read_fail_the_comparison() -> None:
    begun = lab_world.comparison()
    LabScenario.objects.update(jobs=compressed(["{}"]))
    assert not run_open_comparison()
    operation = comparison_by_id(begun.pk).operation
    assert operation.status == "failed"
    assert operation.problem is not None
    assert "cannot be read" in operation.problem["detail"]
    assert "no application" in operation.problem["detail"]


def test_one_comparison_runs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = lab_world.comparison(name="first"), lab_world.comparison(name="second")
    states: list[tuple[bool, str]] = []

    def ask_another_worker(setting: str, seed: int) -> None:
        took = run_open_comparison()
        states.append((took, comparison_by_id(second.pk).operation.status))

    fake_runs(monkeypatch, ask_another_worker)
    assert run_open_comparison()
    assert states == [(False, "pending")] * 9
    assert comparison_by_id(first.pk).operation.status == "succeeded"


def test_a_cancelled_comparison_resumes_with_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = lab_world.comparison()
    ran: list[tuple[str, int]] = []

    def cancel_once(setting: str, seed: int) -> None:
        ran.append((setting, seed))
        if len(ran) == 2:
            cancel_operation(begun.operation_id)

    fake_runs(monkeypatch, cancel_once)
    assert not run_open_comparison()
    before = begun.operation_id
    resumed = resume_comparison(begun.pk, by=None)
    assert resumed.operation_id != before
    assert run_open_comparison()
    found = comparison_by_id(begun.pk)
    assert (found.operation.status, found.operation.progress) == ("succeeded", 9)
    assert len(ran) == len(set(ran)) == 9
    assert AuditEntry.objects.filter(action="comparison.resumed").count() == 1


def cancelled_after(runs: int, monkeypatch: pytest.MonkeyPatch) -> LabComparison:
    """A comparison that a user cancelled during a run."""
    begun = lab_world.comparison()
    ran: list[tuple[str, int]] = []

    def cancel(setting: str, seed: int) -> None:
        ran.append((setting, seed))
        if len(ran) == runs:
            cancel_operation(begun.operation_id)

    fake_runs(monkeypatch, cancel)
    assert not run_open_comparison()
    return begun


def test_a_run_stores_the_version_that_made_it(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.BERTH_VERSION = "1.4.0"
    lab_world.comparison()
    fake_runs(monkeypatch, nothing)
    assert run_open_comparison()
    assert list(LabRun.objects.values_list("version", flat=True)) == ["1.4.0"] * 9


@pytest.mark.parametrize("stored", ["1.4.0", ""])
def test_a_comparison_that_resumes_after_an_upgrade_makes_the_earlier_runs_again(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, stored: str
) -> None:
    settings.BERTH_VERSION = "1.4.0"
    begun = cancelled_after(2, monkeypatch)
    earlier = LabRun.objects.update(version=stored)  # "": by a Berth that stored none
    assert earlier > 0
    settings.BERTH_VERSION = "1.5.0"
    ran: list[tuple[str, int]] = []
    fake_runs(monkeypatch, lambda setting, seed: ran.append((setting, seed)))
    resume_comparison(begun.pk, by=None)
    assert run_open_comparison()
    found = comparison_by_id(begun.pk)
    assert len(ran) == 9
    assert set(LabRun.objects.values_list("version", flat=True)) == {"1.5.0"}
    assert (found.version, found.runs_discarded) == ("1.5.0", earlier)
    assert (found.operation.progress, found.operation.total) == (9, 9)


def test_a_comparison_that_resumes_with_the_same_version_discards_no_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = cancelled_after(2, monkeypatch)
    fake_runs(monkeypatch, nothing)
    resume_comparison(begun.pk, by=None)
    assert run_open_comparison()
    assert comparison_by_id(begun.pk).runs_discarded == 0


def test_only_a_comparison_that_ended_without_result_resumes() -> None:
    with pytest.raises(ConflictError, match="is already pending"):
        resume_comparison(lab_world.comparison().pk, by=None)
    with pytest.raises(ConflictError, match="is complete"):
        resume_comparison(lab_world.finished().pk, by=None)


def test_a_comparison_that_has_ended_can_be_deleted() -> None:
    done, waiting = lab_world.finished(), lab_world.comparison()
    delete_comparison(done.pk)
    assert not LabRun.objects.exists()
    with pytest.raises(ConflictError, match="pending; cancel it first"):
        delete_comparison(waiting.pk)
    assert [each.pk for each in LabComparison.objects.all()] == [waiting.pk]
    entry = AuditEntry.objects.get(action="comparison.deleted")
    assert (entry.object_name, entry.before) == (
        "five policies",
        {"scenario": "five policies, scenario", "runs": 9},
    )


def test_a_scenario_in_use_cannot_be_deleted() -> None:
    done = lab_world.finished()
    with pytest.raises(ConflictError, match="Comparisons use the scenario"):
        delete_scenario(done.scenario)
    delete_comparison(done.pk)
    delete_scenario(done.scenario)
    assert not LabScenario.objects.exists()
    assert AuditEntry.objects.filter(action="scenario.deleted").exists()


def test_retention_deletes_old_comparisons_then_their_operations(
    settings: Settings,
) -> None:
    settings.BERTH_LAB_DAYS = settings.BERTH_OPERATION_DAYS = 30
    old, waiting = lab_world.finished(name="old"), lab_world.comparison(name="waiting")
    long_ago = timezone.now() - timedelta(days=31)
    Operation.objects.filter(pk=old.operation_id).update(finished_at=long_ago)
    Operation.objects.update(created_at=long_ago)
    LabScenario.objects.update(created_at=long_ago)
    run_retention(operation_kinds())
    assert Operation.objects.filter(pk=old.operation_id).exists(), "the comparison needs it"
    run_retention(retention.testbed_kinds())
    assert [each.name for each in LabComparison.objects.all()] == ["waiting"]
    assert [each.name for each in LabScenario.objects.all()] == ["waiting, scenario"]
    run_retention(operation_kinds())
    assert [each.pk for each in Operation.objects.all()] == [waiting.operation_id]


def test_comparisons_run_in_the_order_of_their_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_runs(monkeypatch, nothing)
    first, second = lab_world.comparison(name="first"), lab_world.comparison(name="second")
    assert run_open_comparison()
    assert comparison_by_id(first.pk).operation.status == "succeeded"
    assert comparison_by_id(second.pk).operation.status == "pending"


def test_only_so_many_comparisons_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_requests, "MAX_OPEN", 1)
    lab_world.comparison()
    with pytest.raises(ConflictError, match="1 comparisons wait or run"):
        lab_world.comparison()
