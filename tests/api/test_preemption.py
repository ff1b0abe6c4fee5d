"""Preemption over REST: preview, application once per key, conflicts, roles."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.execution.models import Launch
from apps.inventory.models import Cluster
from apps.scheduling.models import Reservation
from apps.scheduling.selectors import ClusterFollower
from apps.workloads.models import Job
from tests import factories
from tests.execution.migration_world import cluster, end, launch_of, running

pytestmark = pytest.mark.django_db


@pytest.fixture
def victim(monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setattr("apps.scheduling.services.dry_run._COPY", ClusterFollower())
    cluster("a")
    job = running([0, 1, 2, 3], name="low", target={"kind": "best_effort"})
    Cluster.objects.update(seen_cluster_s=7260.0)
    return job


@pytest.fixture
def address(victim: Job) -> str:
    """The preemption of a waiting job of two units."""
    job = factories.job("urgent", priority=5, target={"kind": "best_effort"})
    factories.waiting_shape(job, units=2, min_units=2)
    return f"/api/v1/jobs/{job.id}/preemption/"


def test_a_preview_names_victims_losses_and_reasons(power: APIClient, address: str) -> None:
    body = power.get(address).json()
    basis = body.pop("basis")
    assert len(basis) == 32
    (named,) = body.pop("victims")
    cost = {"broken_promises": 0, "lost_unit_seconds": 240, "jobs": 1}
    assert body == {
        "job": address.split("/")[4], "outcome": "possible", "message": "", "units": 2,
        "candidates": 1, "cost": cost, "bound": cost, "is_best": True, "overridden_limits": [],
    }  # fmt: skip
    assert named.pop("id")
    assert named.pop("application").startswith("app-")
    assert named == {
        "name": "low", "project": "default", "priority": 0, "units": 4,
        "servers": [{"server": "a", "units": 4}], "lost_unit_seconds": 240,
        "breaks_promise": False, "promise": "it has no target", "short_units": 2,
        "reason": "Without it, 2 units are missing for the waiting job. 240 unit-seconds are"
        " lost, and no target is missed.",
    }  # fmt: skip
    assert not Launch.objects.filter(cancel_requested=True).exists()


def test_it_is_applied_once_per_key(power: APIClient, address: str, victim: Job) -> None:
    basis = power.get(address).json()["basis"]

    def send() -> Any:
        body, key = {"basis": basis}, {"Idempotency-Key": "k-1"}
        return power.post(f"{address}apply/", body, format="json", headers=key)

    first = send()
    assert (first.status_code, first.json()["outcome"]) == (202, "possible")
    again = send()
    assert (again.status_code, again.json()) == (202, first.json())
    assert again["Idempotency-Replayed"] == "true"
    assert launch_of(victim).cancel_requested
    assert len(Reservation.objects.get().unit_ids) == 2


def test_a_changed_preview_is_a_conflict(power: APIClient, address: str, victim: Job) -> None:
    basis = power.get(address).json()["basis"]
    end(victim)
    answer = power.post(f"{address}apply/", {"basis": basis}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "state_conflict")
    assert "Enough units are free" in answer.json()["detail"]
    assert not Reservation.objects.exists()


def test_the_victims_of_the_preview_are_stopped_whatever_would_be_chosen_now(
    power: APIClient, address: str, victim: Job
) -> None:
    found = power.get(address).json()
    seen = [{"id": each["id"], "breaks_promise": True} for each in found["victims"]]
    for body, status in (({}, 409), ({"victims": seen}, 202)):
        answer = power.post(f"{address}apply/", {"basis": "other", **body}, format="json")
        assert answer.status_code == status
    assert launch_of(victim).cancel_requested


def test_the_basis_is_required(power: APIClient, address: str) -> None:
    answer = power.post(f"{address}apply/", {}, format="json")
    assert answer.status_code == 422
    assert "basis" in answer.content.decode()


def test_submitters_neither_see_nor_stop_the_jobs_of_others(api: APIClient, address: str) -> None:
    assert api.get(address).status_code == 403
    assert api.post(f"{address}apply/", {"basis": "0"}, format="json").status_code == 403


def test_a_job_that_does_not_exist_is_not_found(power: APIClient, address: str) -> None:
    missing = "/api/v1/jobs/00000000-0000-0000-0000-000000000000/preemption/"
    assert power.get(missing).status_code == 404
