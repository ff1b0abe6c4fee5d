"""Dry runs and submissions agree on the admission control."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone

from apps.inventory.models import Cluster
from apps.scheduling.models import AdmissionState, Decision
from apps.scheduling.services import release
from apps.scheduling.services.agent import make_agent
from apps.workloads.models import Job
from tests.scheduling.dry_runs.scene import (
    NOW_S,
    Scene,
    assert_starts,
    body,
    other,
)
from tests.scheduling.world import build, decide_again

pytestmark = pytest.mark.django_db


def stored_history(scene: Scene) -> None:
    """Let the agent store the history of its admission control."""
    AdmissionState.objects.update(at=timezone.now() - timedelta(minutes=1))
    scene.agent._admission._stored_s -= 10.0
    scene.agent.take_turn()


def busy(scene: Scene, control: str) -> Scene:
    """A server whose four units were freed every 100 s, six times; now three are busy."""
    with override_settings(ADMISSION=control):
        scene = scene._replace(agent=make_agent("agent-1"))
        build("a")
        for i in range(6):
            at(NOW_S + 100.0 * i)
            one = other(scene, 4)
            decide_again(scene.agent)
            stored_history(scene)
            ended = {"state": "succeeded", "finished_at": timezone.now(), "finished_s": NOW_S}
            Job.objects.filter(id=one.id).update(**ended)
            release([one.id])
        at(NOW_S + 600.0)
        other(scene, 3)
        decide_again(scene.agent)
        stored_history(scene)
    return scene


def at(cluster_s: float) -> None:
    Cluster.objects.update(seen_cluster_s=cluster_s)


def delayed(scene: Scene, control: str, job: dict[str, Any]) -> tuple[str, Job]:
    """Return the summary of the dry run, and the job that admission holds back."""
    with override_settings(ADMISSION=control):
        answer = scene.check(job)
        stored = scene.submit(job)
    assert (answer["outcome"], stored.state) == ("waits", "queued")
    assert answer["reason"] == stored.reason_code
    assert answer["dropped"] == Decision.objects.get(job=stored).dropped
    assert answer["start"] is None, "no simulation knows the admission control"
    return answer["summary"], stored


@pytest.mark.parametrize("control", ["count", "tarcil_lsh"])
def test_a_job_would_wait_for_units_of_its_buckets(scene: Scene, control: str) -> None:
    scene = busy(scene, control)
    summary, stored = delayed(scene, control, body(scene, 2, gang=False))
    assert stored.reason_code == "WaitingForBucket"
    reason = "free units; the others are expected within"
    assert reason in summary
    assert reason in stored.reason_message


def test_a_job_would_wait_for_units_of_the_pool_of_its_class(scene: Scene) -> None:
    scene = busy(scene, "arq")
    summary, stored = delayed(scene, "arq", body(scene, 2, 10_000, gang=False))
    assert stored.reason_code == "WaitingForBucket"
    pool, _, _ = stored.reason_message.partition(";")
    assert pool.startswith("1 of 2 free units in the pool of class ")
    assert summary.startswith(f"The job would wait: {pool};")


def test_a_job_would_wait_for_better_units_than_the_free_one(scene: Scene) -> None:
    scene = busy(scene, "tarcil_lsh")
    summary, stored = delayed(scene, "tarcil_lsh", body(scene))
    assert stored.reason_code == "QualityShort"
    assert "0 of 1 suitable free units" in summary


@pytest.mark.parametrize("control", ["count", "arq"])
def test_a_job_that_needs_no_other_units_would_be_admitted(scene: Scene, control: str) -> None:
    scene = busy(scene, control)
    with override_settings(ADMISSION=control):
        assert_starts(scene, body(scene, 1, 10_000))


def test_without_admission_control_a_job_would_start_with_the_free_unit(scene: Scene) -> None:
    scene = busy(scene, "none")
    answer, stored = assert_starts(scene, body(scene, 2, gang=False))
    assert (answer["units"], stored.units, stored.units_missing) == (2, 1, 1)


@override_settings(ADMISSION="count")
def test_before_an_agent_has_stored_a_history_a_job_would_be_admitted(scene: Scene) -> None:
    build("a")
    assert_starts(scene, body(scene, 2))
