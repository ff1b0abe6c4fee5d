from collections.abc import Callable

import pytest

from controlplane.settings.addresses import (
    ONLY_ON_REQUEST,
    SESSION_OPTIONS,
    broker_url,
    client_url,
    database_from_url,
    listed,
)


def test_a_database_url_gives_every_part_of_the_address() -> None:
    database = database_from_url("postgresql://ann:s%40crt@db:5433/berth", conn_max_age_s=7)
    assert database == {
        "ENGINE": "apps.common.infrastructure.postgresql",
        "NAME": "berth",
        "USER": "ann",
        "PASSWORD": "s@crt",
        "HOST": "db",
        "PORT": "5433",
        "CONN_MAX_AGE": 7,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"options": SESSION_OPTIONS, "prepare_threshold": ONLY_ON_REQUEST},
    }


def test_a_socket_directory_becomes_the_host_and_other_options_stay() -> None:
    url = "postgres://ann@/berth?host=/run/pg&port=6000&sslmode=disable&options=-c%20jit%3Doff"
    database = database_from_url(url, conn_max_age_s=0)
    assert (database["HOST"], database["PORT"]) == ("/run/pg", "6000")
    assert database["OPTIONS"] == {
        "sslmode": "disable",
        "options": "-c jit=off",
        "prepare_threshold": ONLY_ON_REQUEST,
    }


@pytest.mark.parametrize("url", ["sqlite:///file", "mysql://a/b", "", "postgresql://host"])
def test_another_database_or_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="DATABASE_URL must"):
        database_from_url(url, conn_max_age_s=0)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://host:port/0", "the port of REDIS_URL must be 1 to 65535"),
        ("redis://host/main", "the database of REDIS_URL must be a number, not 'main'"),
        ("redis://host/0?db=x", "the database of REDIS_URL must be a number, not 'x'"),
        ("unix:///run/v.sock?db=x", "the database of REDIS_URL must be a number, not 'x'"),
    ],
)
def test_a_broker_without_a_port_or_a_database_is_refused(url: str, message: str) -> None:
    for address in (client_url, broker_url):
        with pytest.raises(ValueError, match=message):
            address(url)


@pytest.mark.parametrize("port", ["port", "70000"])
def test_a_port_that_is_none_is_refused_by_name(port: str) -> None:
    with pytest.raises(ValueError, match="the port of DATABASE_URL must be 1 to 65535"):
        database_from_url(f"postgresql://host:{port}/name", conn_max_age_s=0)


@pytest.mark.parametrize(
    "url",
    [
        "unix:///run/v.sock?db=3",
        "redis+socket:///run/v.sock?virtual_host=3",
    ],
)
def test_both_spellings_of_a_socket_serve_client_and_broker(url: str) -> None:
    assert client_url(url) == "unix:///run/v.sock?db=3"
    assert broker_url(url) == "redis+socket:///run/v.sock?virtual_host=3"


def test_a_password_survives_both_spellings() -> None:
    url = "unix://:p%2Fw@/run/v.sock"
    assert client_url(url) == "unix://:p%2Fw@/run/v.sock?db=0"
    assert broker_url(url) == "redis+socket://:p%2Fw@/run/v.sock?virtual_host=0"


@pytest.mark.parametrize("url", ["redis://host:6379/2", "rediss://:pw@host/0"])
def test_a_tcp_address_is_left_alone(url: str) -> None:
    assert (client_url(url), broker_url(url)) == (url, url)


@pytest.mark.parametrize("address", [client_url, broker_url])
def test_another_broker_is_refused(address: Callable[[str], str]) -> None:
    with pytest.raises(ValueError, match="not 'amqp'"):
        address("amqp://host")


@pytest.mark.parametrize(
    ("text", "entries"),
    [("", []), (" ", []), ("a", ["a"]), ("a, b ,", ["a", "b"]), ("[::1],a", ["[::1]", "a"])],
)
def test_a_list_has_no_blanks_and_no_empty_entries(text: str, entries: list[str]) -> None:
    assert listed(text) == entries
