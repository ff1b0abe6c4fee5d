"""Dry runs and submissions agree on commands, and on refused submissions."""

from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.core.roles import Role
from apps.accounts.models import Project
from apps.inventory.core.backends import AGENT
from apps.inventory.models import ChangeKind, Server
from apps.inventory.selectors import cluster_time
from apps.inventory.services import NewChange, append_changes
from apps.profiling.models import ProfilingRun
from apps.workloads.models import Job
from tests import factories
from tests.scheduling.dry_runs.scene import (
    NOW_S,
    Scene,
    assert_starts,
    body,
    client_of,
)
from tests.scheduling.world import build

pytestmark = pytest.mark.django_db


def machine() -> Server:
    """A server that runs commands and profiles copies of them."""
    box = factories.platform("box", cores=2)
    server = factories.server("box-1", of=box, backend=AGENT)
    now = cluster_time()
    append_changes([NewChange(ChangeKind.TOPOLOGY, server.id)], at=now.at, cluster_s=now.cluster_s)
    return server


COPYABLE = {"command": ["train"], "copyable": True}


def test_a_copyable_command_would_be_profiled_as_an_application_of_its_project(
    scene: Scene,
) -> None:
    machine()
    answer = scene.check(COPYABLE)
    stored = scene.submit(COPYABLE)
    assert (answer["outcome"], stored.state) == ("profiling", "profiling")
    assert answer["reason"] == stored.reason_code == "WaitingForProfile"
    assert stored.application.name == "vision:train"
    assert answer["summary"].startswith("vision:train was not measured yet")


def test_a_copyable_command_would_not_be_measured_again_after_a_failed_run(scene: Scene) -> None:
    machine()
    first = scene.submit(COPYABLE)
    ProfilingRun.objects.update(state="failed")
    Job.objects.filter(id=first.id).update(
        state="cancelled", finished_at=timezone.now(), finished_s=NOW_S
    )
    assert_starts(scene, COPYABLE)


def test_an_operator_would_have_the_command_measured_for_all_projects(scene: Scene) -> None:
    machine()
    by_operator = scene._replace(client=client_of(Role.OPERATOR))
    answer, stored = by_operator.check(COPYABLE), by_operator.submit(COPYABLE)
    assert answer["summary"].startswith("train was not measured yet")
    assert stored.application.name == "train"


def refusals(scene: Scene, job: dict[str, Any]) -> tuple[Any, Any]:
    """Return the answers to the dry run and to the submission of a job, without request ids."""
    answers = [
        scene.client.post(url, job, format="json").json()
        for url in ("/api/v1/checks/", "/api/v1/jobs/")
    ]
    for each in answers:
        each.pop("request_id", None)
        each.pop("instance", None)
    return answers[0], answers[1]


def test_a_dry_run_for_an_archived_project_is_refused_as_the_submission(scene: Scene) -> None:
    build("a")
    Project.objects.filter(name="vision").update(archived_at=timezone.now())
    checked, submitted = refusals(scene, body(scene, project="vision"))
    assert checked == submitted
    assert checked["status"] == 409
    assert "The project vision is archived" in checked["detail"]


def test_a_command_of_an_emulated_application_is_refused_as_the_submission(scene: Scene) -> None:
    machine()
    job = {"command": ["train"], "application": scene.application.name}
    checked, submitted = refusals(scene, job)
    assert checked == submitted
    assert checked["status"] == 409
    assert "is emulated: it runs no command" in checked["detail"]
