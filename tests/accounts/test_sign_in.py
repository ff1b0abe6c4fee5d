"""Sign-in: delays after failures, one-time passwords, sessions."""

from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.core.roles import Role
from apps.accounts.core.sign_in import FREE, MAX_DELAY_S, Subject, account_key, delay_s, wait_text
from apps.accounts.models import AuditEntry, BrowserSession, SignInFailures, User
from apps.accounts.services import (
    Blocked,
    Rejected,
    Verified,
    add_user,
    prune_sign_ins,
    update_user,
    verify_password,
)
from apps.accounts.services.sign_in import _FORGET
from apps.common.core.addresses import read_networks
from tests import factories
from tests.races import at_once

PASSWORD = "right-one-11"  # noqa: S105 - of people who exist in tests only
HERE = "192.0.2.1"


def attempt(name: str = "olga", password: str = "wrong", address: str = HERE) -> object:  # noqa: S107
    return verify_password(name, password, address=address)


def pass_time(seconds: float) -> None:
    """Let all failures lie further back."""
    for row in SignInFailures.objects.all():
        row.failed_at -= timedelta(seconds=seconds)
        row.blocked_until -= timedelta(seconds=seconds)
        row.save()


@pytest.fixture
def olga(db: None) -> User:
    return factories.user("olga", password=PASSWORD)


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 0), (5, 0), (6, 2), (7, 4), (8, 8), (14, 512), (15, 900), (99, 900)],
)
def test_the_delay_of_an_account_doubles_up_to_a_quarter_of_an_hour(
    failures: int, seconds: float
) -> None:
    assert delay_s(Subject.ACCOUNT, failures) == seconds


def test_an_address_may_fail_more_often_before_it_waits() -> None:
    assert delay_s(Subject.ADDRESS, 20) == 0
    assert delay_s(Subject.ADDRESS, 21) == 2


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "1 second"),
        (59, "59 seconds"),
        (60, "1 minute"),
        (61, "2 minutes"),
        (900, "15 minutes"),
    ],
)
def test_waiting_times_are_rounded_up(seconds: float, text: str) -> None:
    assert wait_text(seconds) == text


def test_an_account_is_the_same_in_all_spellings() -> None:
    assert account_key("Olga") == account_key("olga") == account_key("\uff4flga")


def test_the_right_password_is_verified(olga: User) -> None:
    assert attempt(password=PASSWORD) == Verified(olga)
    assert not SignInFailures.objects.exists()


@pytest.mark.parametrize("name", ["olga", "nobody"])
def test_the_sixth_failure_blocks_the_account_whether_or_not_it_exists(
    olga: User, name: str
) -> None:
    outcomes = [attempt(name) for _ in range(7)]
    assert outcomes[:6] == [Rejected()] * 6
    assert isinstance(outcomes[6], Blocked)
    assert 1 < outcomes[6].wait_s <= 2


def test_a_blocked_account_refuses_the_right_password_from_everywhere(olga: User) -> None:
    for i in range(6):
        attempt(address=f"192.0.2.{i}")
    assert isinstance(attempt(password=PASSWORD, address="198.51.100.1"), Blocked)
    pass_time(2.0)
    assert attempt(password=PASSWORD) == Verified(olga)


def test_an_attempt_while_blocked_does_not_prolong_the_wait(olga: User) -> None:
    for _ in range(6):
        attempt()
    before = SignInFailures.objects.get(subject="account").blocked_until
    attempt()
    assert SignInFailures.objects.get(subject="account").blocked_until == before


def test_the_wait_grows_to_the_limit(olga: User) -> None:
    for _ in range(15):
        attempt()
        pass_time(MAX_DELAY_S)
    attempt()
    blocked = attempt()
    assert isinstance(blocked, Blocked)
    assert MAX_DELAY_S - 5 < blocked.wait_s <= MAX_DELAY_S


def test_an_address_that_tries_many_accounts_is_blocked(olga: User) -> None:
    for i in range(FREE["address"] + 1):
        assert attempt(f"name-{i}") == Rejected()
    assert isinstance(attempt(password=PASSWORD), Blocked)
    assert attempt(password=PASSWORD, address="198.51.100.1") == Verified(olga)


def test_a_blocked_address_fills_no_table_with_names(olga: User) -> None:
    for n in range(100):
        verify_password(f"u{n}", "wrong", address=HERE)
    assert SignInFailures.objects.count() <= 25


def test_ipv6_addresses_of_one_network_count_together(olga: User) -> None:
    for i in range(FREE["address"] + 1):
        attempt(f"name-{i}", address=f"2001:db8::{i + 1:x}")
    assert isinstance(attempt(password=PASSWORD, address="2001:db8::ffff"), Blocked)


def test_a_success_does_not_clear_the_address(olga: User) -> None:
    """Otherwise the owner of one account could try the others without a limit."""
    for i in range(FREE["address"]):
        attempt(f"name-{i}")
    assert attempt(password=PASSWORD) == Verified(olga)
    assert SignInFailures.objects.get(subject="address").failures == FREE["address"]
    attempt("one-more")
    assert isinstance(attempt(password=PASSWORD), Blocked)


def test_failures_are_forgotten_after_a_day(olga: User) -> None:
    for _ in range(6):
        attempt()
    pass_time(_FORGET.total_seconds() + 1)
    attempt()
    assert SignInFailures.objects.get(subject="account").failures == 1


@pytest.mark.django_db(transaction=True)
def test_attempts_at_the_same_time_do_not_exceed_the_limit() -> None:
    factories.user("olga", password=PASSWORD)
    outcomes = at_once(12, attempt)
    assert sum(isinstance(outcome, Rejected) for outcome in outcomes) == FREE["account"] + 1


def test_failures_are_audited_without_names_of_unknown_users(olga: User) -> None:
    attempt("olga")
    attempt("my secret password")
    known, unknown = AuditEntry.objects.filter(action="sign_in.failed").order_by("id")
    assert (known.object_name, known.after) == ("olga", {"failures": 1, "wait_s": 0.0})
    assert (unknown.object_name, unknown.message) == ("", "There is no user of this name.")
    assert not SignInFailures.objects.filter(key__contains="secret").exists()


def test_inactive_users_and_service_accounts_do_not_sign_in(db: None) -> None:
    factories.user("gone", password=PASSWORD, is_active=False)
    add_user(username="nightly", role=Role.SUBMITTER, service=True)
    assert attempt("gone", PASSWORD) == Rejected()
    assert attempt("nightly", "") == Rejected()


def sign_in(client: Client, name: str, password: str, **extra: Any) -> int:
    response = client.post("/login/", {"username": name, "password": password}, **extra)
    return response.status_code


def test_the_page_says_how_long_to_wait(olga: User, client: Client) -> None:
    for _ in range(6):
        assert sign_in(client, "olga", "wrong") == 200
    response = client.post("/login/", {"username": "olga", "password": PASSWORD})
    assert response.status_code == 429
    assert response["Retry-After"] in {"1", "2"}
    assert b"Too many failed attempts" in response.content
    assert b"Try again in 2 seconds." in response.content


def test_unknown_names_get_the_same_page(olga: User, client: Client) -> None:
    def page(name: str) -> bytes:
        response = client.post("/login/", {"username": name, "password": "wrong"})
        text = response.content.replace(name.encode(), b"NAME")
        return b"".join(line for line in text.splitlines() if b"csrfmiddlewaretoken" not in line)

    assert page("olga") == page("zoya")


def test_addresses_behind_a_trusted_proxy_are_told_apart(
    olga: User, client: Client, settings: Settings
) -> None:
    settings.BERTH_TRUSTED_PROXIES = read_networks("10.0.0.0/8")
    proxy = {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_FORWARDED_FOR": "1.1.1.1, 198.51.100.7"}
    sign_in(client, "olga", "wrong", **proxy)
    assert SignInFailures.objects.get(subject="address").key == "198.51.100.7"


def test_a_client_cannot_choose_its_address(olga: User, client: Client) -> None:
    for i in range(3):
        claim = {"REMOTE_ADDR": "198.51.100.7", "HTTP_X_FORWARDED_FOR": f"1.1.1.{i}"}
        sign_in(client, "olga", "wrong", **claim)
    assert SignInFailures.objects.get(subject="address").failures == 3


def test_signing_in_and_out_is_audited_with_the_session(olga: User, client: Client) -> None:
    sign_in(client, "olga", PASSWORD, REMOTE_ADDR=HERE, HTTP_USER_AGENT="Firefox")
    session = BrowserSession.objects.get()
    assert (session.user, session.address, session.user_agent) == (olga, HERE, "Firefox")
    assert session.session_key == client.session.session_key
    client.post("/logout/")
    assert not BrowserSession.objects.exists()
    told = AuditEntry.objects.order_by("id").values_list("action", "username", "address")
    assert list(told) == [
        ("sign_in.succeeded", "olga", HERE),
        ("sign_in.ended", "olga", "127.0.0.1"),
    ]


def new_person() -> str:
    return add_user(username="sue", role=Role.SUBMITTER).password or ""


def test_a_one_time_password_opens_nothing_but_its_replacement(db: None, client: Client) -> None:
    assert sign_in(client, "sue", new_person()) == 302
    for path in ("/", "/jobs/", "/search/?q=web", "/figures/queue/", "/map/state.json"):
        response = client.get(path)
        assert (response.status_code, response["Location"]) == (302, "/account/password/")
    refused = client.get("/api/v1/jobs/")
    assert (refused.status_code, refused.json()["code"]) == (403, "password_change_required")
    assert client.get("/api/v1/me/").status_code == 200
    assert b"Choose a password" in client.get("/account/password/").content


def change(client: Client, new: str, current: str | None = None) -> int:
    content = {"new_password": new, **({} if current is None else {"current_password": current})}
    url = "/api/v1/account/password/"
    return client.post(url, content, content_type="application/json").status_code


def test_a_one_time_password_works_until_it_is_replaced(db: None, client: Client) -> None:
    password = new_person()
    sign_in(client, "sue", password)
    assert change(client, password) == 422
    assert change(client, "short") == 422
    assert change(client, "sufficiently-long-1") == 204
    assert client.get("/jobs/").status_code == 200
    assert client.get("/account/password/")["Location"] == "/account/"
    assert attempt("sue", password) == Rejected()
    assert isinstance(attempt("sue", "sufficiently-long-1"), Verified)


def test_tokens_work_before_the_one_time_password_is_replaced(db: None, client: Client) -> None:
    token = add_user(username="sue", role=Role.SUBMITTER).token
    response = client.get("/api/v1/jobs/", headers={"Authorization": f"Bearer {token}"})
    assert response.status_code == 200


def test_changing_the_password_needs_the_current_one(olga: User, client: Client) -> None:
    sign_in(client, "olga", PASSWORD)
    new = "sufficiently-long-1"
    assert change(client, new) == 422
    assert change(client, new, "wrong") == 422
    assert change(client, new, PASSWORD) == 204


def test_guessing_the_current_password_is_throttled_like_signing_in(
    olga: User, client: Client
) -> None:
    sign_in(client, "olga", PASSWORD)
    statuses = [change(client, "sufficiently-long-1", "no") for _ in range(7)]
    assert statuses == [422] * 6 + [429]


def test_changing_the_password_ends_all_other_sessions(olga: User) -> None:
    here, there = Client(), Client()
    for client in (here, there):
        sign_in(client, "olga", PASSWORD)
    assert change(here, "sufficiently-long-1", PASSWORD) == 204
    assert here.get("/jobs/").status_code == 200
    assert there.get("/jobs/").status_code == 302
    assert BrowserSession.objects.get().session_key == here.session.session_key
    assert AuditEntry.objects.latest("id").action == "user.password_changed"


def test_own_sessions_are_listed_and_revoked(olga: User) -> None:
    here, there = Client(), Client()
    for client in (here, there):
        sign_in(client, "olga", PASSWORD)
    rows = here.get("/api/v1/account/sessions/").json()["results"]
    assert [row["is_current"] for row in rows] == [False, True]
    url = f"/api/v1/account/sessions/{rows[0]['id']}/"
    assert here.delete(url).status_code == 204
    assert here.delete(url).status_code == 404
    assert there.get("/jobs/").status_code == 302
    assert AuditEntry.objects.latest("id").action == "session.revoked"


def test_all_other_sessions_end_at_once(olga: User) -> None:
    clients = [Client() for _ in range(3)]
    for client in clients:
        sign_in(client, "olga", PASSWORD)
    assert clients[0].delete("/api/v1/account/sessions/").status_code == 204
    assert [client.get("/jobs/").status_code for client in clients] == [200, 302, 302]


def test_sessions_of_others_are_not_revoked(olga: User, client: Client) -> None:
    factories.user("ned", password=PASSWORD)
    other = Client()
    sign_in(other, "ned", PASSWORD)
    sign_in(client, "olga", PASSWORD)
    row = BrowserSession.objects.get(user__username="ned")
    assert client.delete(f"/api/v1/account/sessions/{row.pk}/").status_code == 404
    assert other.get("/jobs/").status_code == 200


def test_a_deactivated_user_is_signed_out(olga: User, client: Client) -> None:
    ada = factories.user("ada", role=Role.ADMIN)
    sign_in(client, "olga", PASSWORD)
    update_user(olga.pk, is_active=False, by=ada.pk)
    assert client.get("/jobs/").status_code == 302
    assert not BrowserSession.objects.exists()


def test_pruning_keeps_what_still_counts(olga: User, client: Client) -> None:
    sign_in(client, "olga", PASSWORD)
    attempt("nobody", address="198.51.100.1")
    attempt("long-ago", address="198.51.100.2")
    old = SignInFailures.objects.filter(key__in=[account_key("long-ago"), "198.51.100.2"])
    old.update(failed_at=timezone.now() - 2 * _FORGET)
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store.create()
    BrowserSession.objects.create(user=olga, session_key="ended")
    prune_sign_ins()
    assert SignInFailures.objects.count() == 2
    assert BrowserSession.objects.get().session_key == client.session.session_key
    assert client.get("/jobs/").status_code == 200
