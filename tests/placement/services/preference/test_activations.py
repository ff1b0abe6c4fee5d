"""Activations: races, and the guard that reverts weights."""

import pytest
from django.db import OperationalError, connection, transaction

from apps.accounts.models import User
from apps.common.core.errors import ConflictError
from apps.common.core.preconditions import ChangedMeanwhileError
from apps.common.infrastructure.locks import lock_for_deletion
from apps.placement.models import Activation
from apps.placement.selectors.preferences import (
    share_of_targets_met,
    weights_in_force,
)
from apps.placement.services.preference import activations
from apps.placement.services.preference.activations import Guard, activate, check_guard, revert
from apps.workloads.models import Job
from tests import factories
from tests.placement.front_world import preference_set
from tests.races import at_once, meanwhile


def jobs(*attainments: float | None) -> None:
    """Running jobs with these attainments."""
    with transaction.atomic():
        lock_for_deletion(Job, list(Job.objects.values_list("id", flat=True)))
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
    """Weights in force with a guard; nine of ten targets were met at their activation."""
    activate(preference_set(olga, "before").pk, message="m", expected=None, by=olga.pk)
    jobs(*[1.0] * 9, 0.5, None)
    guard = Guard(drop=0.2, seconds=600.0)
    chosen = preference_set(olga, "after")
    return activate(chosen.pk, message="m", guard=guard, expected=1, by=olga.pk)


def in_force() -> str:
    in_force = weights_in_force()
    assert in_force is not None
    return in_force.preference_set.name


def test_the_share_of_targets_met_counts_running_jobs_that_are_measured(olga: User) -> None:
    assert share_of_targets_met() is None
    jobs(1.0, 1.5, 0.99, None)
    factories.job(state="queued")
    assert share_of_targets_met() == pytest.approx(2 / 3)


def test_a_lasting_drop_reverts_the_weights(guarded: Activation) -> None:
    assert guarded.met_before == pytest.approx(0.9)
    assert check_guard(7260.0) is None
    jobs(*[1.0] * 7, *[0.5] * 3)
    assert check_guard(7320.0) is None
    assert check_guard(7919.0) is None
    guard_check = check_guard(7920.0)
    assert guard_check is not None
    assert (guard_check.reverts_id, in_force()) == (guarded.pk, "before")
    assert guard_check.message == (
        "Guard: the share of targets met dropped from 90.0 % to 70.0 % for 600 s."
    )
    assert guard_check.created_by == guarded.created_by
    assert check_guard(9999.0) is None  # the reverted weights have no guard


def test_a_drop_that_ends_resets_the_guard(guarded: Activation) -> None:
    jobs(*[1.0] * 7, *[0.5] * 3)
    assert check_guard(7300.0) is None
    jobs(*[1.0] * 8, *[0.5] * 2)  # a drop of 10 % is allowed
    assert check_guard(7800.0) is None
    jobs(*[1.0] * 7, *[0.5] * 3)
    assert check_guard(7900.0) is None
    assert check_guard(8499.0) is None
    assert in_force() == "after"
    assert check_guard(8500.0) is not None


def test_the_guard_ignores_jobs_without_targets(guarded: Activation) -> None:
    jobs(None)
    assert check_guard(7300.0) is None
    assert check_guard(9999.0) is None


def test_weights_without_a_guard_are_not_reverted(olga: User) -> None:
    assert check_guard(1.0) is None
    jobs(1.0)
    for name in ("a", "b"):
        activate(preference_set(olga, name).pk, message="m", expected=None, by=olga.pk)
    jobs(0.1)
    assert check_guard(7300.0) is None
    assert check_guard(9999.0) is None
    assert in_force() == "b"


def test_the_first_activation_is_not_reverted(olga: User) -> None:
    jobs(1.0)
    guard = Guard(drop=0.1, seconds=1.0)
    activate(preference_set(olga, "a").pk, message="m", guard=guard, expected=None, by=olga.pk)
    jobs(0.1)
    assert check_guard(7300.0) is None
    assert check_guard(7400.0) is None
    assert in_force() == "a"


@pytest.mark.django_db(transaction=True)
def test_one_of_two_users_activates_the_same_version_of_a_set() -> None:
    factories.cluster()
    by = factories.user("olga")
    chosen = preference_set(by, "a")

    def act() -> bool:
        try:
            activate(chosen.pk, message="m", expected=1, by=by.pk)
        except ChangedMeanwhileError:
            return False
        return True

    assert sorted(at_once(4, act)) == [False, False, False, True]
    assert Activation.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_one_of_two_users_reverts_an_activation() -> None:
    factories.cluster()
    by = factories.user("olga")
    for name in ("a", "b"):
        last = activate(preference_set(by, name).pk, message="m", expected=1, by=by.pk)

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
def test_concurrent_activations_are_serialised() -> None:
    factories.cluster()
    by = factories.user("olga")
    waiting = [preference_set(by, name).pk for name in "abcd"]
    activations = at_once(4, lambda: activate(waiting.pop(), message="m", expected=1, by=by.pk).pk)
    in_force = weights_in_force()
    assert in_force is not None
    assert in_force.pk == max(activations)
    assert len(set(activations)) == 4


@pytest.mark.django_db(transaction=True)
def test_an_activation_waits_for_a_revert(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    factories.cluster()
    by = factories.user("olga")
    a, b, c = (preference_set(by, name) for name in "abc")
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
    # the revert has read the activation in force and not yet written
    monkeypatch.setattr(activations, "share_of_targets_met", lambda: did.append(meanwhile(act)))
    revert(last.pk, message="m", by=by.pk)
    assert did == [False]
    assert in_force() == "a"
