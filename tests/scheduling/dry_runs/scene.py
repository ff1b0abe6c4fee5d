"""A dry run, then the submission of the same job, over HTTP."""

from datetime import timedelta
from typing import Any, Final, NamedTuple

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership, Project
from apps.operations.models import Event
from apps.scheduling.models import Allocation, Decision, Reservation
from apps.scheduling.selectors import ClusterFollower
from apps.scheduling.services.agent import SchedulingAgent, make_agent
from apps.workloads.models import Application, Job, WaitingShape
from tests import factories
from tests.scheduling.world import known, waiting

NOW_S: Final = 3000.0
READS: Final = {"SELECT", "SAVEPOINT", "RELEASE"}


def begin(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """Set the clock, and forget the copy of the cluster that dry runs use."""
    settings.BERTH_RATES = {}
    monkeypatch.setattr("apps.scheduling.services.dry_run._COPY", ClusterFollower())
    factories.cluster(seen_cluster_s=NOW_S)


class Scene(NamedTuple):
    """A submitter of the project "vision" and the agent."""

    client: APIClient
    agent: SchedulingAgent
    application: Application

    def submit(self, body: dict[str, Any]) -> Job:
        """Submit a job and let the agent decide on it alone."""
        response = self.client.post("/api/v1/jobs/", body, format="json")
        assert response.status_code == 201, response.content
        WaitingShape.objects.update(due_at=timezone.now() + timedelta(hours=1))
        self.agent.take_turn()
        return Job.objects.get(id=response.json()["metadata"]["id"])

    def check(self, body: dict[str, Any]) -> dict[str, Any]:
        """Run a dry run, which must write nothing."""
        before = written()
        with CaptureQueriesContext(connection) as captured:
            response = self.client.post("/api/v1/checks/", body, format="json")
        assert response.status_code == 200, response.content
        assert written() == before
        statements = [query["sql"] or "" for query in captured.captured_queries]
        assert {sql.lstrip().split()[0] for sql in statements} <= READS
        assert [sql for sql in statements if " FOR " in sql and "UPDATE" in sql] == []
        answer: dict[str, Any] = response.json()
        return answer


def written() -> tuple[int, ...]:
    tables = (Job, Application, Decision, Allocation, Reservation, Event)
    return tuple(table.objects.count() for table in tables)


def new_scene() -> Scene:
    """Return a scene with an application of a known profile."""
    return Scene(client_of(Role.VIEWER), make_agent("agent-1"), known())


def client_of(role: Role) -> APIClient:
    """A client of a user with a role in the cluster, who submits to the project "vision"."""
    user = factories.user(role=role)
    Membership.objects.create(
        user=user, project=factories.project("vision"), role=Role.SUBMITTER.value
    )
    client = APIClient()
    client.force_login(user)
    return client


def body(scene: Scene, units: int | None = 1, gigabytes: int = 10, **more: Any) -> dict[str, Any]:
    """Work of 10 s per gigabyte on one unit."""
    return {
        "application": scene.application.name,
        "target": {"kind": "best_effort"},
        "units": units,
        "input_bytes": gigabytes * 10**9,
        "gang": True,
        **more,
    }


def quota(name: str, guaranteed: int | None = None, limit: int | None = None) -> Project:
    row = factories.project(name)
    row.guaranteed_units, row.max_units = guaranteed, limit
    row.save()
    return row


def other(scene: Scene, units: int, gigabytes: int = 10, **more: Any) -> Job:
    """A waiting job of another project."""
    fields: dict[str, Any] = {
        "target": {"kind": "best_effort"},
        "target_kind": "best_effort",
        "gang": True,
        "submitted_s": NOW_S,
        "project": factories.project("web"),
    }
    size = {"units_requested": units, "input_bytes": gigabytes * 10**9}
    return waiting(scene.application, **{**fields, **size, **more})


def assert_waits(scene: Scene, job: dict[str, Any]) -> tuple[dict[str, Any], Job]:
    """Return the answer of the dry run, and the job, which waits for the same reason."""
    answer = scene.check(job)
    stored = scene.submit(job)
    assert (answer["outcome"], stored.state) == ("waits", "queued")
    assert answer["reason"] == stored.reason_code
    assert answer["summary"] == f"The job would wait: {stored.reason_message}."
    assert answer["dropped"] == Decision.objects.get(job=stored).dropped
    return answer, stored


def assert_starts(scene: Scene, job: dict[str, Any]) -> tuple[dict[str, Any], Job]:
    """Return the answer of the dry run, and the job, which starts on as many servers."""
    answer = scene.check(job)
    stored = scene.submit(job)
    assert (answer["outcome"], stored.state) == ("placed", "starting")
    assert len(answer["servers"]) == Allocation.objects.filter(job=stored).count()
    return answer, stored
