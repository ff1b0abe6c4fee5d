"""The event stream as a client sees it, driven through ASGI."""

from datetime import UTC, datetime
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections

from apps.accounts.models import User
from apps.accounts.services import (
    ensure_project,
    join_project,
)
from apps.common.infrastructure.log_numbers import Log
from apps.operations.api.server_sent_events import message
from apps.operations.core.states import Topic
from apps.operations.models import Event
from apps.operations.services import prune_events
from tests.operations.streams import Reader, happen, run, subjects

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_happens_arrives_with_its_number(bearer: dict[str, str]) -> None:
    async def follow() -> None:
        async with Reader(bearer) as reader:
            await reader.events(1)
            await happen("a", "b")
            events = await reader.events(3)
        assert reader.status == 200
        assert reader.headers["content-type"].startswith("text/event-stream")
        assert reader.headers["x-accel-buffering"] == "no"
        assert [name for name, _ in events] == ["hello", "job.updated", "job.updated"]
        assert subjects(events) == ["a", "b"]
        assert events[1][1]["kind"] == "job.placed"
        assert f"id: {events[2][1]['id']}\n" in reader.text

    run(follow)


def test_a_reader_resumes_after_its_last_event(bearer: dict[str, str]) -> None:
    async def follow() -> None:
        await happen("a", "b", "c")
        async with Reader(bearer, query="since=0") as reader:
            first = (await reader.events(4))[1][1]["id"]
        async with Reader({**bearer, "Last-Event-ID": str(first)}) as again:
            await again.events(3)
            await happen("d")
            assert subjects(await again.events(4)) == ["b", "c", "d"]

    run(follow)


@pytest.mark.parametrize("digits", [20, 5000])
def test_a_position_with_too_many_digits_is_none(bearer: dict[str, str], digits: int) -> None:
    async def follow() -> None:
        async with Reader(bearer, query=f"since={'1' * digits}") as reader:
            await reader.events(1)
            await happen("a")
            assert subjects(await reader.events(2)) == ["a"]

    run(follow)


def test_a_position_that_was_deleted_is_answered_with_a_gap(bearer: dict[str, str]) -> None:
    async def follow() -> None:
        await happen("a")
        async with Reader(bearer, query="since=0") as reader:
            first = (await reader.events(2))[1][1]["id"]
        await happen("b", "c")
        await sync_to_async(prune_all_but_last)()
        async with Reader({**bearer, "Last-Event-ID": str(first)}) as again:
            events = await again.events(2)
        assert [name for name, _ in events] == ["hello", "gap"]
        assert events[1][1]["position"] == first + 2

    run(follow)


def test_a_position_in_an_emptied_log_is_answered_with_a_gap(bearer: dict[str, str]) -> None:
    async def follow() -> None:
        await happen("a", "b", "c")
        first = (await sync_to_async(Event.objects.earliest)("seq")).seq
        await sync_to_async(Event.objects.all().delete)()
        async with Reader({**bearer, "Last-Event-ID": str(first)}) as reader:
            events = await reader.events(2)
            await happen("d")
            later = await reader.events(3)
        assert [name for name, _ in events] == ["hello", "gap"]
        assert events[1][1]["position"] == first + 2
        assert subjects(later) == ["d"]

    run(follow)


def test_the_last_position_of_an_emptied_log_has_no_gap(bearer: dict[str, str]) -> None:
    async def follow() -> None:
        await happen("a", "b")
        last = (await sync_to_async(Event.objects.latest)("seq")).seq
        await sync_to_async(Event.objects.all().delete)()
        async with Reader({**bearer, "Last-Event-ID": str(last)}) as reader:
            await reader.events(1)
            await happen("c")
            events = await reader.events(2)
        assert [name for name, _ in events] == ["hello", "job.updated"]

    run(follow)


def prune_all_but_last() -> None:
    from apps.operations.models import Event  # noqa: PLC0415

    last = Event.objects.order_by("-seq").first()
    assert last is not None
    Event.objects.exclude(pk=last.pk).update(at="2020-01-01T00:00:00Z")
    prune_events(before=last.at)


def test_events_of_other_projects_and_topics_are_not_told(
    user: User, bearer: dict[str, str]
) -> None:
    mine, theirs = ensure_project("default").pk, ensure_project("elsewhere").pk

    async def follow() -> None:
        async with Reader(bearer, query="topics=jobs") as reader:
            await reader.events(1)
            await happen("theirs", project=theirs)
            await happen("server", topic=Topic.SERVERS)
            await happen("mine", project=mine)
            assert subjects(await reader.events(2)) == ["mine"]

    run(follow)


def test_an_unknown_topic_is_refused(bearer: dict[str, str]) -> None:
    async def follow() -> None:
        async with Reader(bearer, query="topics=weather") as reader:
            await reader.until(lambda text: "code" in text)
        assert reader.status == 400

    run(follow)


def test_the_stream_is_kept_alive_by_heartbeats(
    bearer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.operations.api.stream.BEAT_S", 0.05)

    async def follow() -> None:
        async with Reader(bearer) as reader:
            await reader.until(lambda text: text.count(": beat\n\n") >= 2)

    run(follow)


def test_a_member_of_two_projects_hears_of_both(user: User, bearer: dict[str, str]) -> None:
    second = ensure_project("second")
    join_project(user=user, project=second)

    async def follow() -> None:
        async with Reader(bearer) as reader:
            await reader.events(1)
            await happen("x", project=second.pk)
            assert subjects(await reader.events(2)) == ["x"]

    run(follow)


@pytest.mark.parametrize("topic", Topic)
def test_events_of_every_topic_go_over_the_wire(topic: Topic) -> None:
    event = Event(
        seq=7, at=datetime(2026, 1, 5, tzinfo=UTC), topic=topic, kind="x.y", subject="s", data={}
    )
    sent = message(event).decode()
    assert sent.startswith("id: 7\nevent: ")
    assert f'"topic":"{topic}"' in sent


def test_a_late_reader_misses_nothing_while_an_old_announcement_is_open(
    bearer: dict[str, str],
) -> None:
    """The first reader's hub has read further than the second reader could by itself."""

    async def follow() -> None:
        await happen("a", "b", "c")
        first = (await sync_to_async(Event.objects.earliest)("seq")).seq
        async with Reader(bearer, query="since=0") as early:
            await early.events(4)
            await happen("d")
            await early.events(5)  # by the hub, as the reader has caught up
            await sync_to_async(announce, thread_sensitive=False)(first)
            async with Reader(bearer, query=f"since={first}") as late:
                assert subjects(await late.events(4)) == ["b", "c", "d"]

    def announce(bound: int) -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute(
                "SELECT pg_advisory_lock_shared((%s::bigint << 48) | %s)", [int(Log.EVENTS), bound]
            )
        announced.append(connections["default"].connection)

    announced: list[Any] = []
    try:
        run(follow)
    finally:
        for holder in announced:
            holder.close()
