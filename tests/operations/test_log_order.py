"""Readers of a log miss nothing while transactions commit in any order, and writers never wait."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Condition, Event
from typing import Final, NamedTuple

import numpy as np
import pytest
from django.db import connection, transaction
from django.utils import timezone

from apps.common.infrastructure.log_numbers import Log, complete_up_to, draw_numbers
from apps.inventory import models as inventory
from apps.inventory.models import ChangeKind
from apps.inventory.selectors import changes_since, topology_version
from apps.inventory.services import NewChange, append_changes
from apps.operations import models as operations
from apps.operations.core.states import Topic
from apps.operations.selectors import complete_seq, event_bounds, events_after, resume_bounds
from apps.operations.services import NewEvent, record_events
from tests.races import PATIENCE_S, meanwhile
from tests.scheduling.world import at_once

pytestmark = pytest.mark.django_db(transaction=True)

WRITERS: Final = 8
TRANSACTIONS: Final = 12  # of each writer
READERS: Final = 3


class NumberedLog(NamedTuple):
    """How entries of a log are written, read after a number, and all found afterwards."""

    write: Callable[[int], object]
    read: Callable[[int, int], list[int]]
    stored: Callable[[], list[int]]


def _write_events(count: int) -> None:
    record_events([NewEvent(Topic.JOBS, "job.updated", str(i)) for i in range(count)])


def _write_changes(count: int, kind: ChangeKind = ChangeKind.CLOSE) -> None:
    append_changes([NewChange(kind, 1)] * count, at=timezone.now(), cluster_s=0.0)


LOGS: Final = {
    "events": NumberedLog(
        _write_events,
        lambda last, limit: [event.seq for event in events_after(last, limit=limit)],
        lambda: list(operations.Event.objects.order_by("seq").values_list("seq", flat=True)),
    ),
    "changes": NumberedLog(
        _write_changes,
        lambda last, limit: [entry.seq for entry in changes_since(last, limit=limit)],
        lambda: list(inventory.Change.objects.order_by("seq").values_list("seq", flat=True)),
    ),
}


@dataclass
class Conductor:
    """Lets one of several open transactions end at a time, in random order."""

    rng: np.random.Generator
    active: int = WRITERS
    waiting: list[Event] = field(default_factory=list)
    changed: Condition = field(default_factory=Condition)

    def wait_for_turn(self) -> None:
        turn = Event()
        with self.changed:
            self.waiting.append(turn)
            self.changed.notify_all()
        assert turn.wait(PATIENCE_S)

    def leave(self) -> None:
        with self.changed:
            self.active -= 1
            self.changed.notify_all()

    def conduct(self) -> None:
        while self.active:
            with self.changed:
                assert self.changed.wait_for(self._may_choose, PATIENCE_S)
                if self.waiting:
                    self.waiting.pop(self.rng.integers(len(self.waiting))).set()

    def _may_choose(self) -> bool:
        return len(self.waiting) >= min(WRITERS // 2, self.active)


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
def test_every_reader_sees_every_entry_once_and_in_order(log: NumberedLog) -> None:
    conductor, is_over = Conductor(np.random.default_rng(12)), Event()
    seen: list[list[int]] = [[] for _ in range(READERS)]

    def write(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(TRANSACTIONS):
            with transaction.atomic():
                log.write(int(rng.integers(1, 4)))
                conductor.wait_for_turn()
                transaction.set_rollback(bool(rng.random() < 0.2))
        conductor.leave()

    def conduct() -> None:
        try:
            conductor.conduct()
        finally:
            is_over.set()

    def read(mine: list[int], limit: int) -> None:
        has_ended = False
        while not has_ended:
            has_ended = is_over.is_set()
            while found := log.read(mine[-1] if mine else 0, limit):
                mine.extend(found)

    writers = [lambda seed=seed: write(seed) for seed in range(WRITERS)]
    readers = [lambda i=i: read(seen[i], 1 + 3 * i) for i in range(READERS)]
    assert at_once(*writers, *readers, conduct) == []
    assert len(log.stored()) > WRITERS * TRANSACTIONS
    assert seen == [log.stored()] * READERS


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
def test_a_writer_does_not_wait_for_another_and_readers_wait_for_both(log: NumberedLog) -> None:
    with transaction.atomic():
        log.write(1)
        meanwhile(lambda: log.write(1))
        assert meanwhile(lambda: log.read(0, 10)) == []
    assert log.read(0, 10) == log.stored()
    assert len(log.stored()) == 2


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
def test_a_savepoint_that_is_rolled_back_delays_no_reader(log: NumberedLog) -> None:
    with transaction.atomic():
        with transaction.atomic():
            log.write(1)
            transaction.set_rollback(True)
        meanwhile(lambda: log.write(1))
        assert len(meanwhile(lambda: log.read(0, 10))) == 1


def test_an_open_transaction_without_entries_delays_no_reader() -> None:
    with transaction.atomic():
        operations.IdempotencyKey.objects.select_for_update().first()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id()")
        meanwhile(lambda: _write_events(2))
        assert len(meanwhile(lambda: events_after(0, limit=10))) == 2


def test_the_logs_do_not_delay_each_other() -> None:
    with transaction.atomic():
        _write_changes(1)
        meanwhile(lambda: _write_events(1))
        assert len(meanwhile(lambda: events_after(0, limit=10))) == 1


def test_the_numbers_of_one_transaction_may_have_gaps() -> None:
    with transaction.atomic():
        first = draw_numbers(Log.CHANGES, 2)
        other = meanwhile(lambda: draw_numbers(Log.CHANGES, 1))
        second = draw_numbers(Log.CHANGES, 2)
    numbers = [*first, *other, *second]
    assert numbers == sorted(set(numbers))


def _announce(bound: int) -> None:
    """Announce an older bound, as a writer does that was stopped before it took its lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock_shared((%s::bigint << 48) | %s)",
            [int(Log.EVENTS), bound],
        )


def test_a_late_announcement_does_not_take_back_what_is_complete() -> None:
    _write_events(3)
    first, _, last = LOGS["events"].stored()

    def read(complete: int) -> Sequence[int]:
        return [e.seq for e in events_after(0, limit=10, complete=complete)]

    with transaction.atomic():
        _announce(first)
        assert meanwhile(complete_seq) == first
        assert meanwhile(lambda: read(0)) == [first]
        assert meanwhile(lambda: read(last)) == LOGS["events"].stored()


def test_bounds_of_more_than_four_billion_are_compared_whole() -> None:
    with transaction.atomic():
        _announce(2**40 + 5)
        assert meanwhile(lambda: complete_up_to(Log.EVENTS, 2**40 + 9)) == 2**40 + 5


def test_the_bounds_of_the_log_stop_at_an_open_transaction() -> None:
    _write_events(2)
    with transaction.atomic():
        _write_events(1)
        meanwhile(lambda: _write_events(1))
        lowest, complete, newest = meanwhile(event_bounds)
    assert (complete - lowest, newest - lowest) == (1, 3)


def test_the_bounds_of_an_emptied_log_stop_at_an_open_transaction() -> None:
    _write_events(2)
    last = operations.Event.objects.latest("seq").seq
    operations.Event.objects.all().delete()
    assert meanwhile(resume_bounds) == (last + 1, last, last)
    with transaction.atomic():
        _write_events(1)
        assert meanwhile(resume_bounds) == (last + 1, last, last + 1)
    assert meanwhile(resume_bounds) == (last + 1, last + 1, last + 1)


def test_a_new_version_of_the_servers_is_not_hidden_by_a_later_one() -> None:
    with transaction.atomic():
        _write_changes(1, ChangeKind.TOPOLOGY)
        meanwhile(lambda: _write_changes(1, ChangeKind.TOPOLOGY))
        before = meanwhile(topology_version)
    assert before < min(LOGS["changes"].stored())
    assert topology_version() == max(LOGS["changes"].stored())
