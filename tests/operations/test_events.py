"""The event log: numbers become visible in order, so that no reader loses anything."""

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from apps.common.core.errors import ConflictError
from apps.operations.core.states import OperationStatus, Topic
from apps.operations.models import Event, Operation
from apps.operations.selectors import event_bounds, events_after
from apps.operations.services import (
    NewEvent,
    OperationLostError,
    advance_operation,
    begin_operation,
    cancel_operation,
    claim_operation,
    finish_operation,
    finish_owned,
    prune_events,
    record_events,
    release_expired_operations,
)
from tests.races import meanwhile


def event(subject: str, kind: str = "job.updated") -> NewEvent:
    return NewEvent(topic=Topic.JOBS, kind=kind, subject=subject, data={"a": 1})


@pytest.mark.django_db
def test_events_are_numbered_in_the_order_given() -> None:
    record_events([event(str(i)) for i in range(20)])
    low = event_bounds().lowest
    assert [e.subject for e in events_after(low - 1, limit=50)] == [str(i) for i in range(20)]


@pytest.mark.django_db
def test_the_data_of_an_event_is_kept_whatever_characters_it_has() -> None:
    data = {"name": 'a "b" \\ {c}, %s', "units": [1, 2.5, None], "is_new": True, "ü": "✓\n"}
    record_events([NewEvent(Topic.JOBS, "job.updated", 'x "y" \\', data), event("next")])
    low = event_bounds().lowest
    first, second = events_after(low - 1, limit=2)
    assert (first.subject, first.data, first.project_id) == ('x "y" \\', data, None)
    assert second.data == {"a": 1}


@pytest.mark.django_db
def test_no_events_take_no_query() -> None:
    record_events([])
    assert event_bounds() == (0, 0, 0)


@pytest.mark.django_db
def test_old_events_are_pruned() -> None:
    record_events([event("old")], at=timezone.now() - timedelta(days=8))
    record_events([event("new")])
    assert prune_events(before=timezone.now() - timedelta(days=7)) == 1
    assert Event.objects.get().subject == "new"


@pytest.mark.django_db(transaction=True)
def test_a_rolled_back_event_leaves_no_trace_but_a_gap() -> None:
    with transaction.atomic():
        record_events([event("lost")])
        transaction.set_rollback(True)
    record_events([event("kept")])
    assert [e.subject for e in events_after(0, limit=10)] == ["kept"]


@pytest.fixture
def running(db: None) -> Operation:
    operation = begin_operation(kind="test", created_by=None, total=10)
    claimed = claim_operation(operation.pk)
    assert claimed is not None
    return claimed


def test_an_operation_is_claimed_once(running: Operation) -> None:
    assert claim_operation(running.pk) is None


def test_progress_prolongs_the_lease(running: Operation) -> None:
    Operation.objects.filter(pk=running.pk).update(lease_until=timezone.now())
    assert advance_operation(running, progress=3, message="three") is True
    running.refresh_from_db()
    assert (running.progress, running.message) == (3, "three")
    assert running.lease_until is not None
    assert running.lease_until > timezone.now()


def test_the_work_is_told_to_stop_when_it_was_cancelled(running: Operation) -> None:
    cancel_operation(running.pk)
    assert advance_operation(running, progress=4) is False


def test_an_unclaimed_operation_is_cancelled_at_once(db: None) -> None:
    operation = begin_operation(kind="test", created_by=None)
    assert cancel_operation(operation.pk).status == OperationStatus.CANCELLED


def test_an_ended_operation_neither_ends_again_nor_is_cancelled(running: Operation) -> None:
    ended = finish_operation(running.pk, status=OperationStatus.SUCCEEDED, result={"n": 1})
    assert (ended.progress, ended.result) == (10, {"n": 1})
    with pytest.raises(ConflictError):
        finish_operation(running.pk, status=OperationStatus.FAILED)
    with pytest.raises(ConflictError):
        cancel_operation(running.pk)


def test_an_operation_ends_in_an_end_only(running: Operation) -> None:
    with pytest.raises(ConflictError):
        finish_operation(running.pk, status=OperationStatus.RUNNING)


def test_a_silent_workers_operation_is_given_back(running: Operation) -> None:
    Operation.objects.filter(pk=running.pk).update(
        lease_until=timezone.now() - timedelta(seconds=1)
    )
    assert release_expired_operations() == 1
    again = claim_operation(running.pk)
    assert again is not None
    with pytest.raises(OperationLostError):
        advance_operation(running, progress=1)
    with pytest.raises(OperationLostError):
        finish_owned(running, status=OperationStatus.SUCCEEDED)
    assert advance_operation(again, progress=1) is True


@pytest.mark.django_db(transaction=True)
def test_an_operation_that_ends_this_moment_is_waited_for_by_nobody() -> None:
    ending = Operation.objects.create(
        kind="k", status=OperationStatus.RUNNING, lease_until=timezone.now() - timedelta(seconds=1)
    )
    with transaction.atomic():
        Operation.objects.select_for_update().get(pk=ending.pk)
        assert meanwhile(release_expired_operations) == 0


def test_the_life_of_an_operation_is_told_by_events(running: Operation) -> None:
    advance_operation(running, progress=1)
    finish_operation(running.pk, status=OperationStatus.FAILED, problem={"code": "x"})
    kinds = [e.kind for e in events_after(0, limit=10)]
    assert kinds == ["operation.created", "operation.progress", "operation.finished"]


@pytest.mark.django_db
def test_events_without_a_request_are_not_in_the_index_of_requests() -> None:
    before = size_of("event_by_request")
    record_events([event(str(i)) for i in range(5_000)])
    assert size_of("event_by_request") == before


@pytest.mark.django_db
def test_the_events_of_a_request_are_found_by_the_index_of_requests() -> None:
    record_events([event(str(i)) for i in range(2_000)])
    found = Event.objects.filter(request_id="request-1")
    assert "event_by_request" in found.explain()


def size_of(index: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_relation_size(%s)", [index])
        ((size,),) = cursor.fetchall()
    return int(size)
