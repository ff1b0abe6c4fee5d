"""Leases that are kept while work cannot report."""

from datetime import timedelta
from threading import Event

import pytest
from django.utils import timezone

from apps.operations.core.states import OperationStatus
from apps.operations.models import Operation
from apps.operations.services import (
    begin_operation,
    claim_operation,
    finish_operation,
    leases,
    release_expired_operations,
)
from apps.operations.services.leases import lease_kept, renew_lease


def claimed() -> Operation:
    """A claimed operation with a lease that has almost expired."""
    found = claim_operation(begin_operation(kind="test", created_by=None).pk)
    assert found is not None
    Operation.objects.update(lease_until=timezone.now() + timedelta(milliseconds=1))
    return found


@pytest.mark.django_db
def test_a_renewed_lease_does_not_expire() -> None:
    operation = claimed()
    assert renew_lease(operation)
    assert release_expired_operations() == 0
    later = timezone.now() + timedelta(seconds=20)
    assert Operation.objects.filter(lease_until__gt=later).exists()


@pytest.mark.django_db
def test_the_lease_of_another_worker_or_of_ended_work_is_not_renewed() -> None:
    operation = claimed()
    Operation.objects.update(arguments={"attempt": 2})
    assert not renew_lease(operation)
    Operation.objects.update(arguments=operation.arguments)
    finish_operation(operation.pk, status=OperationStatus.SUCCEEDED)
    assert not renew_lease(operation)


@pytest.mark.django_db(transaction=True)
def test_a_lease_is_kept_during_long_work_and_not_after(monkeypatch: pytest.MonkeyPatch) -> None:
    operation, renewed = claimed(), Event()

    def renew(of: Operation) -> bool:
        result = renew_lease(of)
        renewed.set()
        return result

    monkeypatch.setattr(leases, "renew_lease", renew)
    with lease_kept(operation, every_s=0.01):
        assert renewed.wait(60.0), "the thread did not renew the lease"
    assert release_expired_operations() == 0
    renewed.clear()
    with lease_kept(operation, every_s=60.0):
        pass
    assert not renewed.is_set()
