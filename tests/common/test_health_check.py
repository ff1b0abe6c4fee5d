"""The health check of kept database connections."""

import select
from typing import Any

import psycopg
import pytest
from django.db import connection

from apps.common.infrastructure.database import fetch_nothing, fetch_rows


def as_in_the_next_request() -> None:
    kept: Any = connection  # its types lack both
    kept.health_check_enabled, kept.health_check_done = True, False


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return the answers of connections that were asked whether they work."""
    answers: list[bool] = []
    usual = connection.is_usable

    def ask() -> bool:
        answers.append(usual())
        return answers[-1]

    monkeypatch.setattr(connection, "is_usable", ask)
    return answers


@pytest.mark.django_db(transaction=True)
def test_a_connection_without_anything_to_read_is_not_asked(asked: list[bool]) -> None:
    fetch_rows("SELECT 1")
    before = connection.connection
    as_in_the_next_request()
    assert fetch_rows("SELECT 2") == [(2,)]
    assert connection.connection is before
    assert asked == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_read_first", [False, True])
def test_a_connection_that_the_server_ended_is_replaced(
    is_read_first: bool, asked: list[bool]
) -> None:
    ((pid,),) = fetch_rows("SELECT pg_backend_pid()")
    ended = connection.connection
    end_backend(pid)
    if is_read_first:
        with pytest.raises(psycopg.OperationalError):
            ended.execute("SELECT 1")
    as_in_the_next_request()
    assert fetch_rows("SELECT 2") == [(2,)]
    assert connection.connection is not ended
    assert asked == [False]


def end_backend(pid: int) -> None:
    """End a connection of the server from another one, and wait until it has ended."""
    with psycopg.connect(connection.connection.info.dsn, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


def wait_until_readable(kept: psycopg.Connection[Any]) -> None:
    """Wait for the notice: the server process of this connection sends it when it gets to run."""
    readable, _, _ = select.select([kept], [], [], 60)
    assert readable


@pytest.mark.django_db(transaction=True)
def test_a_notice_is_no_reason_to_replace_a_connection(asked: list[bool]) -> None:
    fetch_nothing("LISTEN news")
    before = connection.connection
    with psycopg.connect(before.info.dsn, autocommit=True) as other:
        other.execute("NOTIFY news")
    wait_until_readable(before)
    as_in_the_next_request()
    assert fetch_rows("SELECT 2") == [(2,)]
    assert connection.connection is before
    assert asked == [True]
    fetch_nothing("UNLISTEN news")
