"""The origin by which a page reads the event stream."""

import pytest
from django.test import Client
from pytest_django import Settings

from apps.common.infrastructure.stream_origin import stream_origin


@pytest.mark.parametrize(
    ("setting", "host", "expected"),
    [
        ("http://127.0.0.1:8001", "127.0.0.1:8000", "http://127.0.0.1:8001"),
        ("http://127.0.0.1:8001", "localhost:8000", "http://localhost:8001"),
        ("http://localhost:8001", "127.0.0.1", "http://127.0.0.1:8001"),
        ("http://127.0.0.1", "localhost", "http://localhost"),
        ("http://[::1]:8001", "[::1]:8000", "http://[::1]:8001"),
        ("http://[::1]:8001", "localhost:8000", "http://localhost:8001"),
        ("http://127.0.0.1:8001", "berth.example", "http://127.0.0.1:8001"),
        ("http://127.0.0.1:8001", "evil;example", "http://127.0.0.1:8001"),
        ("https://stream.example", "localhost:8000", "https://stream.example"),
        ("", "localhost:8000", ""),
    ],
)
def test_a_page_names_the_stream_of_this_machine_as_it_is_named_itself(
    settings: Settings, setting: str, host: str, expected: str
) -> None:
    settings.BERTH_STREAM_ORIGIN = setting
    assert stream_origin(host) == expected


@pytest.mark.django_db
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_the_content_security_policy_allows_the_stream_by_the_name_of_the_page(
    settings: Settings, host: str
) -> None:
    settings.BERTH_STREAM_ORIGIN = "http://127.0.0.1:8001"
    response = Client().get("/healthz/live", headers={"host": host})
    assert f"connect-src 'self' http://{host}:8001;" in response["Content-Security-Policy"]


@pytest.mark.django_db
def test_pages_read_the_stream_by_their_own_name(settings: Settings, admin_client: Client) -> None:
    settings.BERTH_STREAM_ORIGIN = "http://127.0.0.1:8001"
    page = admin_client.get("/", headers={"host": "localhost:8000"}, follow=True)
    assert b'content="http://localhost:8001/api/v1/stream/"' in page.content


@pytest.mark.django_db
def test_the_route_of_the_stream_redirects_by_the_name_of_the_caller(
    settings: Settings, admin_client: Client
) -> None:
    settings.BERTH_STREAM_ORIGIN = "http://127.0.0.1:8001"
    answer = admin_client.get("/api/v1/stream/?topics=job", headers={"host": "localhost:8000"})
    assert answer["Location"] == "http://localhost:8001/api/v1/stream/?topics=job"
