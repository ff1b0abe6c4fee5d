"""Probes come from inside the network: by plain HTTP, and under the address of a container."""

import pytest
from django.test import Client
from pytest_django import Settings

INSIDE = {"Host": "10.0.0.7:8000"}


@pytest.fixture(autouse=True)
def deployed(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["berth.example"]
    settings.SECURE_SSL_REDIRECT = True
    settings.BERTH_METRICS_OPEN = False


@pytest.mark.django_db
@pytest.mark.broker
@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/readyz", 200)])
def test_a_probe_needs_neither_https_nor_a_known_host(path: str, status: int) -> None:
    assert Client().get(path, headers=INSIDE).status_code == status


@pytest.mark.django_db
def test_metrics_ask_for_the_token_and_not_for_the_host() -> None:
    assert Client().get("/metrics", headers=INSIDE).status_code == 401


@pytest.mark.django_db
def test_a_probe_has_a_request_id() -> None:
    response = Client().get("/readyz", headers={**INSIDE, "X-Request-ID": "mine"})
    assert response["X-Request-ID"] == "mine"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path", ["/", "/login/", "/api/v1/version/", "/api/docs/", "/healthz/", "/healthz/x"]
)
def test_everything_else_refuses_an_unknown_host(path: str) -> None:
    https = {**INSIDE, "X-Forwarded-Proto": "https"}
    assert Client().get(path, secure=True, headers=https).status_code == 400


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/api/v1/version/", "/api/docs/"])
def test_everything_else_is_redirected_to_https(path: str) -> None:
    response = Client().get(path, headers={"Host": "berth.example"})
    assert (response.status_code, response["Location"]) == (301, f"https://berth.example{path}")
