"""Operations follow work that has a row of its own, until they have ended."""

import pytest
from django.db import transaction
from pytest_django import DjangoAssertNumQueries

from apps.operations.core.states import OperationStatus
from apps.operations.models import Operation
from apps.operations.services import (
    NewEvent,
    OperationChange,
    begin_operation,
    cancel_operation,
    mirror_operations,
)

pytestmark = pytest.mark.django_db

RUNNING, PENDING = OperationStatus.RUNNING, OperationStatus.PENDING
ENDS = [OperationStatus.SUCCEEDED, OperationStatus.FAILED, OperationStatus.CANCELLED]


@pytest.fixture
def operation() -> Operation:
    return begin_operation(kind="test", created_by=None, total=4)


def follow(*changes: OperationChange) -> list[NewEvent]:
    with transaction.atomic():
        return mirror_operations(changes)


def test_nothing_to_follow_asks_nothing(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    with django_assert_num_queries(0):
        assert mirror_operations([]) == []


def test_progress_is_taken_over(operation: Operation) -> None:
    (event,) = follow(OperationChange(operation.pk, RUNNING, "two", progress=2, total=6))
    operation.refresh_from_db()
    assert (operation.status, operation.message) == ("running", "two")
    assert (operation.progress, operation.total, operation.lease_until) == (2, 6, None)
    assert (event.kind, event.data["progress"]) == ("operation.progress", 2)


def test_what_is_not_said_stays(operation: Operation) -> None:
    follow(OperationChange(operation.pk, RUNNING, "two", progress=2, total=6))
    follow(OperationChange(operation.pk, PENDING, "again"))
    operation.refresh_from_db()
    assert (operation.status, operation.progress, operation.total) == ("pending", 2, 6)


def test_only_a_new_status_is_an_edit(operation: Operation) -> None:
    follow(OperationChange(operation.pk, RUNNING, "one", progress=1))
    follow(OperationChange(operation.pk, RUNNING, "two", progress=2))
    operation.refresh_from_db()
    assert operation.generation == 2


def test_success_is_complete_and_has_its_result(operation: Operation) -> None:
    (event,) = follow(
        OperationChange(operation.pk, OperationStatus.SUCCEEDED, "done", result={"cells": 9})
    )
    operation.refresh_from_db()
    assert (operation.progress, operation.result) == (4, {"cells": 9})
    assert operation.finished_at is not None
    assert event.kind == "operation.finished"


def test_a_failure_says_what_went_wrong(operation: Operation) -> None:
    follow(OperationChange(operation.pk, OperationStatus.FAILED, "broken", problem={"title": "x"}))
    operation.refresh_from_db()
    assert (operation.progress, operation.problem) == (0, {"title": "x"})


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("later", [RUNNING, OperationStatus.SUCCEEDED])
def test_an_operation_that_has_ended_follows_no_more(
    operation: Operation, end: OperationStatus, later: OperationStatus
) -> None:
    follow(OperationChange(operation.pk, end, "over"))
    assert follow(OperationChange(operation.pk, later, "late", progress=1)) == []
    operation.refresh_from_db()
    assert (operation.status, operation.message) == (end.value, "over")


def test_one_cancelled_before_it_began_stays_cancelled(operation: Operation) -> None:
    cancel_operation(operation.pk)
    assert follow(OperationChange(operation.pk, RUNNING, "one")) == []


def test_many_follow_at_once(operation: Operation) -> None:
    other = begin_operation(kind="test", created_by=None)
    events = follow(
        OperationChange(operation.pk, RUNNING, "one", progress=1),
        OperationChange(other.pk, OperationStatus.CANCELLED, "two"),
    )
    assert {(event.subject, event.kind) for event in events} == {
        (str(operation.pk), "operation.progress"),
        (str(other.pk), "operation.finished"),
    }
