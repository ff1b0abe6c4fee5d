"""Readiness, metrics and versions."""

from unittest.mock import patch

import pytest
from django.db import OperationalError
from django.test import Client
from pytest_django import Settings
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.accounts.services import create_token
from apps.common.infrastructure.database import database_now
from apps.inventory.models import ServerReading
from tests.api.cluster import build_cluster, place
from tests.api.samples import submitted


def test_a_process_with_an_up_to_date_database_is_ready(db: None) -> None:
    assert Client().get("/readyz").status_code == 200


def test_a_process_with_unapplied_migrations_is_not_ready(db: None) -> None:
    with patch("controlplane.api_views._unapplied", return_value=2):
        response = Client().get("/readyz")
    assert (response.status_code, response.content) == (503, b"2 migrations are not applied\n")


@pytest.mark.parametrize("url", ["/readyz", "/metrics"])
def test_an_unreachable_database_gives_503(url: str, settings: Settings) -> None:
    settings.BERTH_METRICS_OPEN = True
    broken = OperationalError("lost")
    with (
        patch("controlplane.api_views._unapplied", side_effect=broken),
        patch("controlplane.metrics.job_counts", side_effect=broken),
    ):
        assert Client().get(url).status_code == 503


def test_metrics_need_a_token(submitter: User) -> None:
    secret = create_token(user=submitter, name="prometheus").secret
    assert Client().get("/metrics").status_code == 401
    assert (
        Client().get("/metrics", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
    )


def test_metrics_count_by_class(api: APIClient, settings: Settings) -> None:
    settings.BERTH_METRICS_OPEN = True
    build_cluster()
    place(submitted(api))
    submitted(api)
    ServerReading.objects.update(at=database_now())
    lines = Client().get("/metrics").content.decode().splitlines()
    assert 'berth_jobs{state="submitted"} 1.0' in lines
    assert 'berth_jobs{state="starting"} 1.0' in lines
    assert 'berth_jobs{state="failed"} 0.0' in lines
    assert 'berth_pending_jobs{reason="WaitingForAgent"} 1.0' in lines
    assert 'berth_servers{state="active"} 3.0' in lines
    assert "berth_units 10.0" in lines
    assert "berth_units_allocated 2.0" in lines
    assert "berth_cluster_power_watts 125.0" in lines


def test_the_version_needs_no_token() -> None:
    assert APIClient().get("/api/v1/version/").json()["api"] == "1.0"
