"""The event stream as a client sees it, driven through ASGI."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.db import connections
from django.test import Client
from pytest_django import Settings
from rest_framework.test import APIClient

from apps.accounts.core.principal import Credential
from apps.accounts.core.roles import Role
from apps.accounts.models import Membership, Token, User
from apps.accounts.selectors import current_principals
from apps.accounts.services import (
    create_token,
    create_user,
    ensure_project,
    join_project,
    revoke_token,
)
from apps.common.infrastructure.log_numbers import Log
from apps.operations.api.stream import application, message
from apps.operations.api.tickets import issue_ticket
from apps.operations.core.states import Topic
from apps.operations.models import Event
from apps.operations.services import NewEvent, prune_events, record_events

TICKETS = "/api/v1/stream/tickets/"
pytestmark = pytest.mark.django_db(transaction=True)


class Reader:
    """One connection to the stream."""

    def __init__(self, headers: dict[str, str] | None = None, *, query: str = "", path: str = "",
                 method: str = "GET") -> None:  # fmt: skip
        self.scope = {
            "type": "http",
            "method": method,
            "path": path or "/api/v1/stream/",
            "query_string": query.encode(),
            "headers": [
                (name.lower().encode(), value.encode("latin-1"))
                for name, value in {"Host": "localhost", **(headers or {})}.items()
            ],
        }
        self.status = 0
        self.headers: dict[str, str] = {}
        self.text = ""
        self._gone = asyncio.Event()
        self._more = asyncio.Event()

    async def __aenter__(self) -> "Reader":
        self._task = asyncio.create_task(application(self.scope, self._receive, self._send))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._gone.set()
        await asyncio.wait_for(self._task, 5)

    async def _receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        self.text += message.get("body", b"").decode()
        self._more.set()

    async def until(self, is_reached: Callable[[str], bool]) -> None:
        """Wait until the text satisfies a condition."""
        async with asyncio.timeout(5):
            while not is_reached(self.text):
                self._more.clear()
                await self._more.wait()

    async def events(self, count: int) -> list[tuple[str, dict[str, Any]]]:
        """Wait for so many events; (name, data) of each."""
        await self.until(lambda text: text.count("\ndata: ") >= count)
        return self.so_far()

    def so_far(self) -> list[tuple[str, dict[str, Any]]]:
        blocks = [block.split("\n") for block in self.text.split("\n\n")]
        named = [dict(line.split(": ", 1) for line in block if ": " in line) for block in blocks]
        return [(block["event"], json.loads(block["data"])) for block in named if "event" in block]


@pytest.fixture
def user(transactional_db: None) -> User:
    ensure_project("default")
    return create_user(username="sue", password=None, role=Role.SUBMITTER)


@pytest.fixture
def bearer(user: User) -> dict[str, str]:
    return {"Authorization": f"Bearer {create_token(user=user, name='t').secret}"}


async def happen(*subjects: str, project: Any = None, topic: Topic = Topic.JOBS) -> None:
    events = [
        NewEvent(topic=topic, kind="job.placed", subject=s, project_id=project) for s in subjects
    ]
    await sync_to_async(record_events)(events)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def and_disconnect() -> None:
        try:
            await test()
        finally:
            await sync_to_async(connections.close_all)()  # of the stream's own thread

    asyncio.run(and_disconnect())


def subjects(events: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [data["subject"] for name, data in events if name not in {"hello", "gap"}]


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


@pytest.mark.broker
def test_a_ticket_lets_in_once(user: User) -> None:
    token = create_token(user=user, name="t").token
    ticket = issue_ticket(Credential(token_id=token.pk))

    async def follow() -> None:
        async with Reader(query=f"ticket={ticket}") as reader:
            await reader.events(1)
        async with Reader(query=f"ticket={ticket}") as again:
            await again.until(lambda text: "code" in text)
        assert (reader.status, again.status) == (200, 401)

    run(follow)


@pytest.mark.broker
def test_a_ticket_keeps_the_limits_of_its_token(transactional_db: None) -> None:
    ensure_project("default")
    operator = create_user(username="olga", password=None, role=Role.OPERATOR)
    theirs = ensure_project("elsewhere").pk
    secret = create_token(user=operator, name="t", role=Role.VIEWER).secret
    ticket = APIClient().post(TICKETS, headers={"Authorization": f"Bearer {secret}"}).json()

    async def follow() -> None:
        async with Reader(query=f"ticket={ticket['ticket']}") as reader:
            await reader.events(1)
            await happen("theirs", project=theirs)
            await happen("shared")
            assert subjects(await reader.events(2)) == ["shared"]

    run(follow)


@pytest.mark.broker
def test_a_ticket_of_a_revoked_token_is_refused(user: User) -> None:
    token = create_token(user=user, name="t").token
    ticket = issue_ticket(Credential(token_id=token.pk))
    revoke_token(user_id=user.pk, token_id=token.pk)

    async def follow() -> None:
        async with Reader(query=f"ticket={ticket}") as reader:
            await reader.until(lambda text: "code" in text)
        assert reader.status == 401

    run(follow)


@pytest.mark.broker
def test_a_session_gets_a_ticket_that_ends_with_it(user: User) -> None:
    browser = APIClient()
    browser.force_login(user)
    ticket = browser.post(TICKETS).json()["ticket"]
    browser.logout()

    async def follow() -> None:
        async with Reader(query=f"ticket={ticket}") as reader:
            await reader.until(lambda text: "code" in text)
        assert reader.status == 401

    run(follow)


def test_tickets_are_unavailable_without_the_broker(user: User, settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/at/all.sock"
    browser = APIClient()
    browser.force_login(user)
    response = browser.post(TICKETS)
    assert (response.status_code, response.json()["code"]) == (503, "service_unavailable")

    async def follow() -> None:
        async with Reader(query="ticket=any") as reader:
            await reader.until(lambda text: "code" in text)
        assert reader.status == 503

    run(follow)


def test_a_browser_session_lets_in(user: User) -> None:
    browser = Client()
    browser.force_login(user)
    cookie = browser.cookies[django_settings.SESSION_COOKIE_NAME].value

    async def follow() -> None:
        async with Reader({"Cookie": f"sessionid={cookie}"}) as reader:
            assert (await reader.events(1))[0][0] == "hello"

    run(follow)


@pytest.mark.parametrize(
    ("headers", "query", "path", "method", "status"),
    [
        ({}, "", "", "GET", 401),
        ({"Authorization": "Bearer berth_wrong"}, "", "", "GET", 401),
        ({"Cookie": "sessionid=made-up"}, "", "", "GET", 401),
        ({"Cookie": "=;;=\x01"}, "", "", "GET", 401),
        ({}, "ticket=forged", "", "GET", 401),
        ({}, "", "/elsewhere", "GET", 404),
        ({}, "", "", "POST", 405),
    ],
)
def test_strangers_are_refused_with_a_problem(
    user: User, headers: dict[str, str], query: str, path: str, method: str, status: int
) -> None:
    async def follow() -> None:
        async with Reader(headers, query=query, path=path, method=method) as reader:
            await reader.until(lambda text: "code" in text)
        assert (reader.status, json.loads(reader.text)["status"]) == (status, status)
        assert reader.headers["content-type"] == "application/problem+json"

    run(follow)


def test_an_unknown_topic_is_refused(bearer: dict[str, str]) -> None:
    async def follow() -> None:
        async with Reader(bearer, query="topics=weather") as reader:
            await reader.until(lambda text: "code" in text)
        assert reader.status == 400

    run(follow)


@pytest.mark.parametrize(
    ("origin", "host", "allowed"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1:8001", "http://127.0.0.1:8000"),
        ("http://localhost:8000", "localhost:8001", "http://localhost:8000"),
        ("http://localhost:8000", "127.0.0.1:8001", None),
        ("http://127.0.0.1:8000", "localhost:8001", None),
        ("https://berth.example", "127.0.0.1:8001", "https://berth.example"),
        ("https://evil.example", "127.0.0.1:8001", None),
    ],
)
def test_only_known_origins_may_read(
    bearer: dict[str, str], settings: Settings, origin: str, host: str, allowed: str | None
) -> None:
    settings.BERTH_STREAM_ORIGIN = "http://127.0.0.1:8001"
    settings.CSRF_TRUSTED_ORIGINS = ["https://berth.example"]

    async def follow() -> None:
        async with Reader({**bearer, "Origin": origin, "Host": host}) as reader:
            await reader.events(1)
        assert reader.headers.get("access-control-allow-origin") == allowed

    run(follow)


def test_other_ports_of_a_public_host_are_other_sites(
    bearer: dict[str, str], settings: Settings
) -> None:
    settings.BERTH_STREAM_ORIGIN = "https://berth.example:8001"

    async def follow() -> None:
        async with Reader({**bearer, "Origin": "https://berth.example:9999"}) as reader:
            await reader.events(1)
        assert "access-control-allow-origin" not in reader.headers

    run(follow)


def test_a_site_that_rebound_its_name_is_refused(
    bearer: dict[str, str], settings: Settings
) -> None:
    settings.ALLOWED_HOSTS = ["localhost"]

    async def follow() -> None:
        async with Reader({**bearer, "Host": "evil.example"}) as reader:
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


def test_a_user_who_is_locked_out_is_cut_off(
    user: User, bearer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.operations.api.stream.RECHECK_S", 0.05)
    monkeypatch.setattr("apps.operations.api.stream.BEAT_S", 0.05)

    async def follow() -> None:
        async with Reader(bearer) as reader:
            await reader.events(1)
            await sync_to_async(User.objects.filter(pk=user.pk).update)(is_active=False)
            await asyncio.wait_for(asyncio.shield(reader._task), 5)

    run(follow)


def revoke(user: User) -> None:
    token = Token.objects.get(user=user)
    revoke_token(user_id=user.pk, token_id=token.pk)


def expire(user: User) -> None:
    Token.objects.filter(user=user).update(expires_at="2020-01-01T00:00:00Z")


def leave(user: User) -> None:
    Membership.objects.filter(user=user).delete()


def lose_role(user: User) -> None:
    User.objects.filter(pk=user.pk).update(role=Role.VIEWER.value)
    Membership.objects.filter(user=user).update(role=Role.VIEWER.value)


@pytest.mark.parametrize("change", [revoke, expire, leave, lose_role])
def test_a_stream_ends_when_the_rights_of_its_token_change(
    user: User,
    bearer: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[User], None],
) -> None:
    monkeypatch.setattr("apps.operations.api.stream.RECHECK_S", 0.01)

    async def follow() -> None:
        async with Reader(bearer) as reader:
            await reader.events(1)
            await sync_to_async(change)(user)
            await asyncio.wait_for(asyncio.shield(reader._task), 5)

    run(follow)


def sign_out(browser: Client) -> None:
    browser.logout()


def change_password(browser: Client) -> None:
    user = User.objects.get(pk=browser.session["_auth_user_id"])
    user.set_password("another-one-22")
    user.save()


@pytest.mark.parametrize("change", [sign_out, change_password])
def test_a_stream_ends_with_its_session(
    user: User, monkeypatch: pytest.MonkeyPatch, change: Callable[[Client], None]
) -> None:
    monkeypatch.setattr("apps.operations.api.stream.RECHECK_S", 0.01)
    browser = Client()
    browser.force_login(user)
    cookie = browser.cookies[django_settings.SESSION_COOKIE_NAME].value

    async def follow() -> None:
        async with Reader({"Cookie": f"sessionid={cookie}"}) as reader:
            await reader.events(1)
            await sync_to_async(change)(browser)
            await asyncio.wait_for(asyncio.shield(reader._task), 5)

    run(follow)


def test_a_stream_stays_open_while_its_rights_are_the_same(
    bearer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.operations.api.stream.RECHECK_S", 0.01)
    checked = Mock(side_effect=current_principals)
    monkeypatch.setattr("apps.operations.api.stream.current_principals", checked)

    async def follow() -> None:
        async with Reader(bearer) as reader:
            await reader.events(1)
            async with asyncio.timeout(5):
                while checked.call_count < 2:
                    await asyncio.sleep(0.01)
            await happen("still here")
            assert subjects(await reader.events(2)) == ["still here"]

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
