"""Readiness, metrics and versions."""

from unittest.mock import patch

import pytest
from django.db import OperationalError
from django.test import Client
from pytest_django import Settings
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.accounts.services import create_token
from controlplane.metrics import Metric, exposition
from tests.api.cluster import build_cluster, place
from tests.api.samples import submitted


def test_a_process_with_an_up_to_date_database_is_ready(db: None) -> None:
    assert Client().get("/readyz").status_code == 200


def test_a_process_whose_tables_are_old_is_not_ready(db: None) -> None:
    with patch("controlplane.api_views._unapplied", return_value=2):
        response = Client().get("/readyz")
    assert (response.status_code, response.content) == (503, b"2 migrations are not applied\n")


@pytest.mark.parametrize("url", ["/readyz", "/metrics"])
def test_a_database_that_is_away_is_said_so(url: str, settings: Settings) -> None:
    settings.BERTH_METRICS_OPEN = True
    broken = OperationalError("lost")
    with (
        patch("controlplane.api_views._unapplied", side_effect=broken),
        patch("controlplane.api_views.collect", side_effect=broken),
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
    lines = Client().get("/metrics").content.decode().splitlines()
    assert 'berth_jobs{state="submitted"} 1' in lines
    assert 'berth_jobs{state="starting"} 1' in lines
    assert 'berth_jobs{state="failed"} 0' in lines
    assert 'berth_pending_jobs{reason="WaitingForAgent"} 1' in lines
    assert 'berth_servers{state="active"} 3' in lines
    assert "berth_units 10" in lines
    assert "berth_units_allocated 2" in lines
    assert "berth_cluster_power_watts 125" in lines


def test_labels_are_escaped() -> None:
    metric = Metric("m", "gauge", "Help.", [((("a", 'x"\\\n'),), 1.5)])
    assert exposition([metric]) == ('# HELP m Help.\n# TYPE m gauge\nm{a="x\\"\\\\\\n"} 1.5\n')


def test_versions_are_told_to_everybody() -> None:
    assert APIClient().get("/api/v1/version/").json()["api"] == "1.0"
