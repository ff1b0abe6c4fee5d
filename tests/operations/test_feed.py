"""Events that a slow, late or unauthorised reader of the stream receives."""

import pytest

from apps.operations.core.feed import MAX_PENDING, Feed, Item


def item(seq: int, subject: str = "j", *, topic: str = "jobs", project: str | None = None) -> Item:
    return Item(seq, topic, subject, project, b"")


def test_a_reader_that_keeps_up_gets_everything_in_order() -> None:
    feed = Feed(position=0)
    feed.offer([item(1), item(2)])
    assert [i.seq for i in feed.take()] == [1, 2]


def test_what_was_handed_out_does_not_come_again() -> None:
    feed = Feed(position=0)
    feed.offer([item(1), item(2)])
    feed.take()
    feed.offer([item(2), item(3)])
    assert [i.seq for i in feed.take()] == [3]


def test_catching_up_after_live_events_came_in_keeps_the_order() -> None:
    feed = Feed(position=5)
    feed.offer([item(9)])
    feed.offer([item(6), item(7), item(9)])
    assert [i.seq for i in feed.take()] == [6, 7, 9]


def test_other_topics_and_projects_are_left_out() -> None:
    feed = Feed(position=0, topics=frozenset({"jobs"}), projects=frozenset({"mine"}))
    feed.offer([item(1, topic="servers"), item(2, project="theirs"), item(3, project="mine")])
    assert [i.seq for i in feed.take()] == [3]


@pytest.mark.parametrize(
    ("project", "user", "seen"),
    [
        (None, None, False),
        (None, "other", False),
        ("theirs", "other", False),
        (None, "me", True),
        ("theirs", "me", True),
        ("mine", "other", True),
    ],
)
def test_events_of_an_operation_are_for_its_user_and_project(
    project: str | None, user: str | None, *, seen: bool
) -> None:
    event = Item(1, "operations", "o", project, b"", user)
    feed = Feed(position=0, projects=frozenset({"mine"}), user="me")
    feed.offer([event])
    assert feed.take() == ([event] if seen else [])
    everything = Feed(position=0, projects=None, user="me")
    everything.offer([event])
    assert everything.take() == [event]


def test_a_slow_reader_gets_the_latest_per_subject() -> None:
    feed = Feed(position=0)
    feed.offer([item(n, str(n % 2)) for n in range(1, MAX_PENDING + 2)])
    assert [i.seq for i in feed.take()] == [MAX_PENDING, MAX_PENDING + 1]


def test_a_reader_too_far_behind_gets_a_gap_and_goes_on_after_it() -> None:
    feed = Feed(position=0)
    feed.offer([item(n, str(n)) for n in range(1, MAX_PENDING + 2)])
    assert feed.take() == []
    assert feed.take_gap() == MAX_PENDING + 1
    feed.offer([item(MAX_PENDING + 1), item(MAX_PENDING + 2)])
    assert [i.seq for i in feed.take()] == [MAX_PENDING + 2]


def test_a_gap_is_told_once() -> None:
    feed = Feed(position=0, has_gap=True)
    assert feed.take_gap() == 0
    assert feed.take_gap() is None


def test_memory_stays_bounded_whatever_comes() -> None:
    feed = Feed(position=0)
    feed.offer([item(n, str(n)) for n in range(1, 10 * MAX_PENDING)])
    assert len(feed.pending) <= MAX_PENDING
