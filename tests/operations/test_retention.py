"""Deletion of history: in batches, within a time, paused and resumed."""

from collections.abc import Callable
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import Settings

from apps.common.infrastructure import deletion
from apps.operations.models import Event, Operation, Retention
from apps.operations.services import prune_events
from apps.operations.services.retention import (
    Kind,
    cutoff,
    operation_kinds,
    pause_retention,
    run_retention,
)
from controlplane.metrics import InstallationCollector, exposition
from tests import factories

pytestmark = pytest.mark.django_db


class Clock:
    """A clock that each batch moves on."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def batches(self, total: int, *, size: int = 10, takes_s: float = 1.0) -> Callable[[], int]:
        """A kind with ``total`` rows left, one batch of which takes a time."""
        left = [total]

        def delete() -> int:
            self.now_s += takes_s
            count = min(size, left[0])
            left[0] -= count
            return count

        return delete


def test_a_run_deletes_until_nothing_is_left() -> None:
    clock = Clock()
    (run,) = run_retention([Kind("a", clock.batches(25))], budget_s=60.0, clock=clock)
    assert (run.deleted, run.seconds, run.is_complete) == (25, 4.0, True)
    row = Retention.objects.get(name="a")
    assert (row.deleted, row.last_deleted, row.is_complete) == (25, 25, True)


def test_a_run_ends_with_its_time_and_the_next_one_continues() -> None:
    clock = Clock()
    kinds = [Kind("a", clock.batches(100))]
    first = run_retention(kinds, budget_s=4.0, clock=clock)[0]
    second = run_retention(kinds, budget_s=60.0, clock=clock)[0]
    assert (first.deleted, first.is_complete) == (40, False)
    assert (second.deleted, second.is_complete) == (60, True)
    assert Retention.objects.get(name="a").deleted == 100


def test_a_backlog_leaves_the_other_kinds_their_share() -> None:
    clock = Clock()
    kinds = [Kind("a", clock.batches(10_000)), Kind("b", clock.batches(15))]
    a, b = run_retention(kinds, budget_s=10.0, clock=clock)
    assert (a.deleted, b.deleted, b.is_complete) == (50, 15, True)


def test_every_kind_has_a_batch_after_the_time_is_over() -> None:
    clock = Clock()
    kinds = [Kind("a", clock.batches(90, takes_s=9.0)), Kind("b", clock.batches(90))]
    a, b = run_retention(kinds, budget_s=2.0, clock=clock)
    assert (a.deleted, b.deleted) == (10, 10)


def test_a_pause_stops_a_run_after_its_batch_until_it_is_resumed() -> None:
    clock = Clock()
    batch = clock.batches(90)

    def delete() -> int:
        if clock.now_s == 2.0:
            assert pause_retention("a", is_paused=True)
        return batch()

    run = run_retention([Kind("a", delete)], clock=clock)[0]
    assert (run.deleted, run.is_complete) == (30, False)
    assert run_retention([Kind("a", delete)], clock=clock)[0].deleted == 0
    pause_retention("a", is_paused=False)
    assert run_retention([Kind("a", delete)], clock=clock)[0].deleted == 60


def test_zero_days_keep_everything(settings: Settings) -> None:
    assert cutoff(0) is None
    settings.BERTH_EVENT_DAYS = settings.BERTH_OPERATION_DAYS = 0
    Event.objects.create(at=timezone.now() - timedelta(days=999), topic="jobs", subject="x")
    operation(days=999)
    run_retention(operation_kinds())
    assert (Event.objects.count(), Operation.objects.count()) == (1, 1)


def test_events_are_deleted_in_batches_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion, "BATCH", 2)
    now = timezone.now()
    for days in (9, 12, 10, 1):
        Event.objects.create(at=now - timedelta(days=days), topic="jobs", subject=str(days))
    before = now - timedelta(days=7)
    assert prune_events(before=before) == 2
    assert set(Event.objects.values_list("subject", flat=True)) == {"9", "1"}
    assert [prune_events(before=before) for _ in range(2)] == [1, 0]
    assert Event.objects.get().subject == "1"


def operation(*, days: float, status: str = "succeeded") -> Operation:
    row = Operation.objects.create(kind="batch.submit", status=status)
    Operation.objects.filter(pk=row.pk).update(created_at=timezone.now() - timedelta(days=days))
    return row


def test_old_ended_operations_are_deleted_unless_something_refers_to_them(
    settings: Settings,
) -> None:
    settings.BERTH_OPERATION_DAYS = 30
    operation(days=31)
    kept = [operation(days=29), operation(days=31, status="running"), operation(days=31)]
    factories.profiling_run(factories.application(), operation=kept[2])
    run_retention(operation_kinds())
    assert set(Operation.objects.values_list("pk", flat=True)) == {row.pk for row in kept}


def test_the_command_shows_pauses_and_resumes() -> None:
    run_retention([Kind("events", Clock().batches(12))])
    out = StringIO()
    call_command("retention", "--pause", "events", stdout=out)
    assert "events" in out.getvalue()
    assert "paused" in out.getvalue()
    call_command("retention", "--resume", "events", stdout=StringIO())
    assert not Retention.objects.get(name="events").is_paused
    with pytest.raises(CommandError, match="no kind of history called 'evnts'; known: events"):
        call_command("retention", "--pause", "evnts")


def test_metrics_show_rows_left() -> None:
    clock = Clock()
    run_retention([Kind("jobs", clock.batches(30))], budget_s=2.0, clock=clock)
    text = exposition(InstallationCollector("0"))
    assert 'berth_retention_deleted_rows{kind="jobs"} 20.0' in text
    assert 'berth_retention_backlog{kind="jobs"} 1.0' in text
