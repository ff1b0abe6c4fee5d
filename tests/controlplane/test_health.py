from typing import Any

import pytest
from django.db.utils import ConnectionHandler
from django.test import RequestFactory

from controlplane import health
from controlplane.settings.addresses import database_from_url


@pytest.mark.django_db
@pytest.mark.broker
def test_healthy_when_database_and_broker_answer(rf: RequestFactory) -> None:
    answer = health.healthz(rf.get("/healthz"))
    assert (answer.status_code, answer.content) == (200, b"ok\n")


@pytest.mark.django_db
def test_an_unavailable_broker_is_named(rf: RequestFactory, settings: Any) -> None:
    settings.REDIS_URL = "unix:///nowhere/valkey.sock"
    answer = health.healthz(rf.get("/healthz"))
    assert (answer.status_code, answer.content) == (503, b"broker unavailable\n")


@pytest.mark.django_db
def test_an_unavailable_database_is_named(
    rf: RequestFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = database_from_url("postgresql://nobody@/none?host=/nowhere", conn_max_age_s=0)
    monkeypatch.setattr(health, "connection", ConnectionHandler({"default": away})["default"])
    answer = health.healthz(rf.get("/healthz"))
    assert (answer.status_code, answer.content) == (503, b"database unavailable\n")
