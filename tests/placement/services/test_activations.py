"""Weights in force: races, and the guard that takes them back by itself."""

import pytest
from django.db import OperationalError, connection

from apps.accounts.models import User
from apps.common.core.errors import ConflictError
from apps.common.core.preconditions import ChangedMeanwhileError
from apps.placement.models import Activation
from apps.placement.selectors.preferences import (
    share_of_targets_met,
    weights_in_force,
)
from apps.placement.services import activations
from apps.placement.services.activations import Guard, activate, revert, watch_guards
from apps.workloads.models import Job
from tests import factories
from tests.placement.made import a_set
from tests.races import at_once, meanwhile


def jobs(*attainments: float | None) -> None:
    """Running jobs that reach so much of their targets."""
    Job.objects.all().delete()
    for attainment in attainments:
        job = factories.job(state="running")
        Job.objects.filter(pk=job.pk).update(attainment=attainment)


@pytest.fixture
def olga(db: None) -> User:
    factories.cluster(seen_cluster_s=7200.0)
    return factories.user("olga")


@pytest.fixture
def guarded(olga: User) -> Activation:
    """Weights in force with a guard: nine of ten targets were met when they began."""
    activate(a_set(olga, "before").pk, message="m", expected=None, by=olga.pk)
    jobs(*[1.0] * 9, 0.5, None)
    guard = Guard(drop=0.2, seconds=600.0)
    chosen = a_set(olga, "after")
    return activate(chosen.pk, message="m", guard=guard, expected=1, by=olga.pk)


def in_force() -> str:
    found = weights_in_force()
    assert found is not None
    return found.preference_set.name


def test_the_share_of_targets_met_counts_running_jobs_that_are_measured(olga: User) -> None:
    assert share_of_targets_met() is None
    jobs(1.0, 1.5, 0.99, None)
    factories.job(state="queued")
    assert share_of_targets_met() == pytest.approx(2 / 3)


def test_a_drop_that_lasts_takes_the_weights_back(guarded: Activation) -> None:
    assert guarded.met_before == pytest.approx(0.9)
    assert watch_guards(7260.0) is None
    jobs(*[1.0] * 7, *[0.5] * 3)
    assert watch_guards(7320.0) is None
    assert watch_guards(7919.0) is None
    made = watch_guards(7920.0)
    assert made is not None
    assert (made.reverts_id, in_force()) == (guarded.pk, "before")
    assert made.message == (
        "Guard: the share of targets met fell from 90.0 % to 70.0 % for 600 s."
    )
    assert made.created_by == guarded.created_by
    assert watch_guards(9999.0) is None  # what came back has no guard


def test_a_drop_that_passes_begins_anew(guarded: Activation) -> None:
    jobs(*[1.0] * 7, *[0.5] * 3)
    assert watch_guards(7300.0) is None
    jobs(*[1.0] * 8, *[0.5] * 2)  # a drop of a tenth is allowed
    assert watch_guards(7800.0) is None
    jobs(*[1.0] * 7, *[0.5] * 3)
    assert watch_guards(7900.0) is None
    assert watch_guards(8499.0) is None
    assert in_force() == "after"
    assert watch_guards(8500.0) is not None


def test_without_targets_the_guard_sees_nothing(guarded: Activation) -> None:
    jobs(None)
    assert watch_guards(7300.0) is None
    assert watch_guards(9999.0) is None


def test_without_a_guard_nothing_is_taken_back(olga: User) -> None:
    assert watch_guards(1.0) is None
    jobs(1.0)
    for name in ("a", "b"):
        activate(a_set(olga, name).pk, message="m", expected=None, by=olga.pk)
    jobs(0.1)
    assert watch_guards(7300.0) is None
    assert watch_guards(9999.0) is None
    assert in_force() == "b"


def test_a_guard_with_nothing_before_it_leaves_things_as_they_are(olga: User) -> None:
    jobs(1.0)
    guard = Guard(drop=0.1, seconds=1.0)
    activate(a_set(olga, "a").pk, message="m", guard=guard, expected=None, by=olga.pk)
    jobs(0.1)
    assert watch_guards(7300.0) is None
    assert watch_guards(7400.0) is None
    assert in_force() == "a"


@pytest.mark.django_db(transaction=True)
def test_of_two_that_looked_at_the_same_set_one_activates_it() -> None:
    factories.cluster()
    by = factories.user("olga")
    chosen = a_set(by, "a")

    def act() -> bool:
        try:
            activate(chosen.pk, message="m", expected=1, by=by.pk)
        except ChangedMeanwhileError:
            return False
        return True

    assert sorted(at_once(4, act)) == [False, False, False, True]
    assert Activation.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_that_revert_the_same_one_does() -> None:
    factories.cluster()
    by = factories.user("olga")
    for name in ("a", "b"):
        last = activate(a_set(by, name).pk, message="m", expected=1, by=by.pk)

    def act() -> bool:
        try:
            revert(last.pk, message="m", by=by.pk)
        except ConflictError:
            return False
        return True

    assert sorted(at_once(3, act)) == [False, False, True]
    assert in_force() == "a"
    assert Activation.objects.count() == 3


@pytest.mark.django_db(transaction=True)
def test_sets_activated_at_once_come_one_after_the_other() -> None:
    factories.cluster()
    by = factories.user("olga")
    waiting = [a_set(by, name).pk for name in "abcd"]
    made = at_once(4, lambda: activate(waiting.pop(), message="m", expected=1, by=by.pk).pk)
    found = weights_in_force()
    assert found is not None
    assert found.pk == max(made)
    assert len(set(made)) == 4


@pytest.mark.django_db(transaction=True)
def test_nothing_comes_into_force_while_something_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    factories.cluster()
    by = factories.user("olga")
    a, b, c = (a_set(by, name) for name in "abc")
    activate(a.pk, message="m", expected=1, by=by.pk)
    last = activate(b.pk, message="m", expected=1, by=by.pk)

    def act() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '300ms'")
        try:
            activate(c.pk, message="m", expected=1, by=by.pk)
        except OperationalError:
            return False
        return True

    did: list[bool] = []
    # taken back means: looked at what is in force, and not yet changed it
    monkeypatch.setattr(activations, "share_of_targets_met", lambda: did.append(meanwhile(act)))
    revert(last.pk, message="m", by=by.pk)
    assert did == [False]
    assert in_force() == "a"
