"""Old history is deleted by the limits in the settings, except records still in use."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from apps.classification.models import PredictionError, Profile
from apps.classification.services import pruning
from apps.classification.services.feedback import MAX_OBSERVATIONS
from apps.classification.services.pruning import prune_prediction_errors, prune_profiles
from apps.execution.tasks import prune
from apps.inventory.models import Change, ChangeKind
from apps.inventory.services import prune_changes
from apps.inventory.services import servers as inventory
from apps.scheduling.selectors import profiles_with_decisions
from apps.workloads.models import Application, Job
from tests import factories

pytestmark = pytest.mark.django_db

NOW = timezone.now()


def profiled(about: Application, count: int) -> list[Profile]:
    """Profiles of an application, oldest first; the last is current."""
    return Profile.objects.bulk_create(
        Profile(
            application=about,
            number=number,
            is_current=number == count,
            revision=1,
            estimator="blend",
            cells={},
        )
        for number in range(1, count + 1)
    )


def numbers(about: Application) -> list[int]:
    rows = Profile.objects.filter(application=about).order_by("number")
    return list(rows.values_list("number", flat=True))


def ended(about: Application, *, hours_ago: float = 2.0) -> Job:
    return factories.job(
        application=about, state="succeeded", finished_at=NOW - timedelta(hours=hours_ago)
    )


def erred(job: Job, profile: Profile, count: int, *, from_s: float = 0.0) -> None:
    """Create prediction errors of one job, one cluster second apart."""
    PredictionError.objects.bulk_create(
        PredictionError(
            application=job.application,
            job=job,
            profile=profile,
            number=number,
            cluster_s=from_s + number,
            predicted=1.0,
            measured=1.0,
            deviation=0.1,
        )
        for number in range(1, count + 1)
    )


def changed(kind: ChangeKind, *, days_ago: float) -> int:
    (seq,) = inventory.append_changes(
        [inventory.NewChange(kind, 1)], at=NOW - timedelta(days=days_ago), cluster_s=0.0
    )
    return seq


def logged() -> list[int]:
    kept = Change.objects.exclude(kind=ChangeKind.PRUNED)
    return list(kept.order_by("seq").values_list("seq", flat=True))


def nobody(_: Any) -> set[Any]:
    return set()


# ---- profiles ----


def test_the_newest_profiles_of_each_application_stay() -> None:
    first, other = factories.application(), factories.application()
    profiled(first, 5)
    profiled(other, 2)
    assert prune_profiles(keep=3, referenced=nobody) == 2
    assert (numbers(first), numbers(other)) == ([3, 4, 5], [1, 2])
    assert prune_profiles(keep=3, referenced=nobody) == 0


def test_a_profile_named_by_a_decision_stays() -> None:
    about = factories.application()
    first, *_ = profiled(about, 4)
    factories.decision(factories.job(application=about), profile_id=first.pk)
    assert prune_profiles(keep=1, referenced=profiles_with_decisions) == 2
    assert numbers(about) == [1, 4]


def test_a_profile_of_a_kept_prediction_error_stays() -> None:
    about = factories.application()
    first, *_ = profiled(about, 4)
    erred(ended(about), first, 1)
    prune_profiles(keep=1, referenced=nobody)
    assert numbers(about) == [1, 4]
    assert PredictionError.objects.count() == 1


def test_the_current_profile_is_kept_with_any_number() -> None:
    about = factories.application()
    profiled(about, 3)
    Profile.objects.update(is_current=False)
    Profile.objects.filter(number=1).update(is_current=True)
    prune_profiles(keep=1, referenced=nobody)
    assert numbers(about) == [1, 3]


def test_profiles_are_deleted_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "BATCH", 2)
    about = factories.application()
    profiled(about, 6)
    assert [prune_profiles(keep=1, referenced=nobody) for _ in range(4)] == [2, 2, 1, 0]
    assert numbers(about) == [6]


# ---- prediction errors ----


def test_the_newest_prediction_errors_of_each_application_stay() -> None:
    first, other = factories.application(), factories.application()
    (profile,), (second,) = profiled(first, 1), profiled(other, 1)
    erred(ended(first), profile, 80)
    erred(ended(other), second, 5)
    assert prune_prediction_errors(keep=70) == 10
    rows = PredictionError.objects.filter(application=first).order_by("number")
    assert [row.number for row in rows] == list(range(11, 81))
    assert PredictionError.objects.filter(application=other).count() == 5


def test_prediction_errors_used_by_feedback_stay() -> None:
    about = factories.application()
    (profile,) = profiled(about, 1)
    erred(ended(about), profile, MAX_OBSERVATIONS + 3)
    assert prune_prediction_errors(keep=0) == 3


@pytest.mark.parametrize("state", ["running", "succeeded"])
def test_prediction_errors_of_jobs_still_observed_stay(state: str) -> None:
    about = factories.application()
    (profile,) = profiled(about, 1)
    finished_at = NOW - timedelta(minutes=10) if state == "succeeded" else None
    job = factories.job(application=about, state=state, finished_at=finished_at)
    erred(job, profile, 2)
    erred(ended(about), profile, MAX_OBSERVATIONS, from_s=100.0)
    assert prune_prediction_errors(keep=0) == 0


def test_prediction_errors_are_deleted_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "BATCH", 4)
    about = factories.application()
    (profile,) = profiled(about, 1)
    erred(ended(about), profile, MAX_OBSERVATIONS + 10)
    assert [prune_prediction_errors(keep=0) for _ in range(4)] == [4, 4, 2, 0]


# ---- the change log ----


def test_old_entries_of_the_change_log_are_deleted() -> None:
    changed(ChangeKind.CLAIM, days_ago=9.0)
    changed(ChangeKind.RELEASE, days_ago=8.0)
    young = [changed(ChangeKind.CLAIM, days_ago=6.0), changed(ChangeKind.RELEASE, days_ago=1.0)]
    assert prune_changes(before=NOW - timedelta(days=7)) == 2
    assert logged() == young


def test_the_last_entry_and_those_about_servers_stay() -> None:
    servers = changed(ChangeKind.TOPOLOGY, days_ago=30.0)
    changed(ChangeKind.CLAIM, days_ago=9.0)
    last = changed(ChangeKind.RELEASE, days_ago=8.0)
    assert prune_changes(before=NOW) == 1
    assert logged() == [servers, last]


def test_entries_are_deleted_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "PRUNE_BATCH", 2)
    for _ in range(5):
        changed(ChangeKind.CLAIM, days_ago=9.0)
    last = changed(ChangeKind.CLAIM, days_ago=1.0)
    assert [prune_changes(before=NOW - timedelta(days=7)) for _ in range(4)] == [2, 2, 1, 0]
    assert prune_changes(before=None) == 0
    assert logged() == [last]


def test_the_newest_deleted_entry_is_marked_for_readers_that_fell_behind() -> None:
    first = changed(ChangeKind.CLAIM, days_ago=9.0)
    second = changed(ChangeKind.CLAIM, days_ago=7.0)
    changed(ChangeKind.CLAIM, days_ago=1.0)
    marked = Change.objects.filter(kind=ChangeKind.PRUNED).values_list("seq", flat=True)
    for days, expected in ((10, []), (8, [first]), (6, [second]), (6, [second])):
        prune_changes(before=NOW - timedelta(days=days))
        assert list(marked.all()) == expected


# ---- all tables ----


def test_the_task_uses_the_limits_in_the_settings(settings: Settings) -> None:
    settings.BERTH_PROFILES_KEPT = 2
    settings.BERTH_PREDICTION_ERRORS_KEPT = MAX_OBSERVATIONS
    settings.BERTH_CHANGE_DAYS = 7
    factories.cluster()
    about = factories.application()
    first, *_ = profiled(about, 4)
    # the oldest profile loses its only reference, the deleted prediction error
    erred(ended(about), first, 1)
    erred(ended(about), Profile.objects.get(number=4), MAX_OBSERVATIONS, from_s=100.0)
    changed(ChangeKind.CLAIM, days_ago=9.0)
    last = changed(ChangeKind.CLAIM, days_ago=0.0)
    prune()
    assert numbers(about) == [3, 4]
    assert PredictionError.objects.count() == MAX_OBSERVATIONS
    assert logged() == [last]
