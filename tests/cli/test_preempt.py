"""The verb `berth preempt`."""

import json

import pytest

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.accounts.services import create_user
from apps.execution.models import Launch
from apps.inventory.models import Cluster
from apps.workloads.models import Job
from controlplane.cli.errors import Exit
from tests import factories
from tests.cli.conftest import Berth
from tests.execution.migration_world import cluster, launch_of, running


@pytest.fixture
def user(transactional_db: None) -> User:
    return create_user(username="olga", password=None, role=Role.OPERATOR)


@pytest.fixture
def victim(user: User) -> Job:
    cluster("a")
    job = running([0, 1, 2, 3], name="low", target={"kind": "best_effort"})
    Cluster.objects.update(seen_cluster_s=7560.0)
    waiting = factories.job("urgent", priority=5, target={"kind": "best_effort"})
    factories.waiting_shape(waiting, units=2, min_units=2)
    return job


def test_victims_are_shown_and_stopped_only_with_yes(berth: Berth, victim: Job) -> None:
    code, text, _ = berth("preempt", "urgent")
    assert code == Exit.OK
    assert text.splitlines()[1].split() == [
        *("low", "default", "0", "4", "1,440", "kept"),
        *("it", "has", "no", "target;", "2", "units", "short", "without", "it"),
    ]
    assert "chosen among 1 running jobs: no other victims cost less" in text
    assert "to stop them: berth preempt" in text
    assert not launch_of(victim).cancel_requested
    assert "they are being stopped" in berth("preempt", "urgent", "--yes")[1]
    assert launch_of(victim).cancel_requested


def test_a_job_that_cannot_preempt_others_is_a_conflict(berth: Berth, victim: Job) -> None:
    code, text, error = berth("preempt", "low")
    assert (code, text) == (Exit.CONFLICT, "")
    assert "Only queued jobs can preempt others." in error


def test_the_answer_as_json_is_that_of_the_server(berth: Berth, victim: Job) -> None:
    found = json.loads(berth("preempt", "urgent", "--json")[1])
    assert (found["outcome"], found["victims"][0]["id"]) == ("possible", str(victim.id))
    Launch.objects.update(cancel_requested=True)  # it stops for another reason
    assert berth("preempt", "urgent")[0] == Exit.CONFLICT
