"""Who may read the event stream, from where, and for how long."""

import asyncio
import json
from collections.abc import Callable
from unittest.mock import Mock

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
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
    revoke_token,
)
from apps.operations.api.tickets import issue_ticket
from tests.operations.streams import Reader, happen, run, subjects
from tests.races import PATIENCE_S

TICKETS = "/api/v1/stream/tickets/"
pytestmark = pytest.mark.django_db(transaction=True)


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


@pytest.mark.parametrize(
    ("origin", "host", "allowed"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1:8001", "http://127.0.0.1:8000"),
        ("http://localhost:8000", "localhost:8001", "http://localhost:8000"),
        ("http://[::1]:8000", "[::1]:8001", "http://[::1]:8000"),
        ("http://localhost:8000", "127.0.0.1:8001", None),
        ("http://127.0.0.1:8000", "localhost:8001", None),
        ("https://berth.example", "127.0.0.1:8001", "https://berth.example"),
        ("https://evil.example", "127.0.0.1:8001", None),
        ("http://[", "127.0.0.1:8001", None),
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


def test_a_user_who_is_locked_out_is_cut_off(
    user: User, bearer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.operations.api.stream.RECHECK_S", 0.05)
    monkeypatch.setattr("apps.operations.api.stream.BEAT_S", 0.05)

    async def follow() -> None:
        async with Reader(bearer) as reader:
            await reader.events(1)
            await sync_to_async(User.objects.filter(pk=user.pk).update)(is_active=False)
            await asyncio.wait_for(asyncio.shield(reader._task), PATIENCE_S)

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
            await asyncio.wait_for(asyncio.shield(reader._task), PATIENCE_S)

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
            await asyncio.wait_for(asyncio.shield(reader._task), PATIENCE_S)

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
            async with asyncio.timeout(PATIENCE_S):
                while checked.call_count < 2:
                    await asyncio.sleep(0.01)
            await happen("still here")
            assert subjects(await reader.events(2)) == ["still here"]

    run(follow)


def test_streams_of_one_user_are_limited_with_all_tokens_and_sessions(
    user: User, bearer: dict[str, str], settings: Settings
) -> None:
    settings.BERTH_STREAMS_PER_USER = 2
    browser = Client()
    browser.force_login(user)
    session = {"Cookie": f"sessionid={browser.cookies['sessionid'].value}"}
    second = {"Authorization": f"Bearer {create_token(user=user, name='second').secret}"}
    other = create_user(username="otto", password=None, role=Role.VIEWER)
    others = {"Authorization": f"Bearer {create_token(user=other, name='t').secret}"}

    async def follow() -> None:
        async with Reader(bearer) as first:
            await first.events(1)
            async with Reader(session) as page:
                await page.events(1)
                async with Reader(second) as refused, Reader(others) as accepted:
                    await refused.until(lambda text: "code" in text)
                    await accepted.events(1)
            async with Reader(second) as again:
                await again.events(1)
        problem = json.loads(refused.text)
        assert (refused.status, problem["code"]) == (429, "too_many_requests")
        assert "sue has 2 open event streams, and at most 2" in problem["detail"]
        assert refused.headers["retry-after"] == "10"
        assert (accepted.status, again.status) == (200, 200)

    run(follow)


def test_streams_that_are_opened_at_once_do_not_exceed_the_limit(
    bearer: dict[str, str], settings: Settings
) -> None:
    settings.BERTH_STREAMS_PER_USER = 2

    async def follow() -> None:
        async with Reader(bearer) as a, Reader(bearer) as b, Reader(bearer) as c:
            readers = [a, b, c]
            for reader in readers:
                await reader.until(lambda text: "data: " in text or "code" in text)
        assert sorted(reader.status for reader in readers) == [200, 200, 429]

    run(follow)
