"""Dry runs and submissions agree on quotas and on reservations."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from django.test import override_settings

from apps.scheduling.models import Reservation
from apps.workloads.models import Job
from tests.scheduling.dry_runs.scene import (
    NOW_S,
    Scene,
    assert_starts,
    assert_waits,
    body,
    other,
    quota,
)
from tests.scheduling.world import FirstFree, Greedy, agent, build, decide_again

if TYPE_CHECKING:
    from apps.scheduling.core.types import Placed

pytestmark = pytest.mark.django_db


@pytest.fixture
def greedy_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.scheduling.services.dry_run._policy", lambda _: Greedy())


def test_a_project_at_its_maximum_would_wait_with_the_figures(scene: Scene) -> None:
    build("a", "b")
    quota("vision", limit=2)
    assert_starts(scene, body(scene, 2))
    answer, _ = assert_waits(scene, body(scene))
    assert answer["reason"] == "QuotaExceeded"
    assert "project vision uses 2 of at most 2 units" in answer["summary"]
    assert answer["start"] is None, "no simulation knows quotas"


def test_a_gang_larger_than_the_maximum_of_its_project_is_infeasible(scene: Scene) -> None:
    build("a", "b")
    quota("vision", limit=3)
    answer, stored = scene.check(body(scene, 4)), scene.submit(body(scene, 4))
    never = "the job needs 4 units at once, and project vision may use at most 3"
    assert (answer["outcome"], answer["feasible"]) == ("infeasible", False)
    assert answer["summary"] == f"The job cannot start: {never}."
    assert answer["next_action"].startswith("Request fewer units")
    assert (stored.state, stored.reason_code) == ("queued", "QuotaExceeded")
    assert stored.reason_message == never


def test_a_borrower_would_wait_while_another_project_claims_its_guarantee(scene: Scene) -> None:
    build("a", "b")
    quota("vision", 2)
    quota("web", 6)
    assert_starts(scene, body(scene, 2))
    other(scene, 7)
    decide_again(scene.agent)
    answer, _ = assert_waits(scene, body(scene))
    assert answer["reason"] == "QuotaExceeded"
    assert "web" not in answer["summary"]


def test_a_project_within_its_guarantee_would_start_although_others_claim_units(
    scene: Scene,
) -> None:
    build("a", "b")
    quota("vision", 2)
    quota("web", 8)
    assert_starts(scene, body(scene))
    other(scene, 8)
    decide_again(scene.agent)
    assert_starts(scene, body(scene))


def test_a_job_would_start_with_the_units_that_the_quota_leaves(scene: Scene) -> None:
    build("a")
    quota("vision", limit=3)
    answer, stored = assert_starts(scene, body(scene, 4, gang=False))
    assert (stored.units, stored.units_missing) == (3, 1)
    assert answer["summary"].startswith("The job would start now: 3 of 4 units on 1 server")


def test_a_policy_that_wants_more_than_the_maximum_would_get_the_size_of_the_job(
    scene: Scene, greedy_policy: None
) -> None:
    build("a", "b")
    greedy = scene._replace(agent=agent("agent-1", Greedy()))
    quota("vision", limit=2)
    due = {"kind": "completion_time", "seconds": 100.0}
    job = body(greedy, gigabytes=9, units=None, target=due)
    answer, stored = assert_starts(greedy, job)
    assert (answer["units"], stored.units, stored.units_missing) == (2, 2, 0)


class Careless(FirstFree):
    """Takes four units, whatever is requested."""

    def place(self, *args: Any) -> Any:
        """Serve the requests as if they were for four units."""
        snapshot, requests, rng = args
        outcomes = super().place(snapshot, [replace(one, units=4) for one in requests], rng)
        return [replace(cast("Placed", each), wanted=4) for each in outcomes]


@override_settings(AGENT_RETRIES=0)
def test_without_retries_a_lost_commit_would_refuse_the_job(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    build("a", "b")
    monkeypatch.setattr("apps.scheduling.services.dry_run._policy", lambda _: Careless())
    careless = scene._replace(agent=agent("agent-1", Careless()))
    quota("vision", limit=2)
    due = {"kind": "completion_time", "seconds": 100.0}
    job = body(careless, gigabytes=9, units=None, target=due)
    answer, stored = careless.check(job), careless.submit(job)
    assert answer["reason"] == stored.reason_code == "CommitConflict"
    assert answer["summary"] == f"The job would wait: {stored.reason_message}."
    assert stored.reason_message == "other agents were faster in 1 attempt"


def test_the_units_are_those_that_the_policy_chooses(scene: Scene, greedy_policy: None) -> None:
    build("a", "b")
    greedy = scene._replace(agent=agent("agent-1", Greedy()))
    due = {"kind": "completion_time", "seconds": 100.0}
    answer, stored = assert_starts(greedy, body(greedy, gigabytes=9, units=None, target=due))
    assert (answer["units"], stored.units, stored.units_missing) == (4, 4, 0)


def reserved(scene: Scene, **more: Any) -> Job:
    """A gang of another project with a reservation of all eight units, one of them busy."""
    build("a", "b")
    other(scene, 1, 100)
    decide_again(scene.agent)
    gang = other(scene, 8, **{"submitted_s": NOW_S - 700.0, **more})
    decide_again(scene.agent)
    assert Reservation.objects.get().job_id == gang.id
    return gang


def test_a_job_that_ends_too_late_would_wait_for_reserved_units(scene: Scene) -> None:
    gang = reserved(scene)
    answer, _ = assert_waits(scene, body(scene, 1, 150))
    assert answer["reason"] == "UnitsReserved"
    assert answer["dropped"]["reserved"] == 7
    assert gang.name not in str(answer)


def test_a_job_that_ends_in_time_would_be_backfilled(scene: Scene) -> None:
    reserved(scene)
    assert_starts(scene, body(scene, 1, 50))


@override_settings(BACKFILL="conservative")
def test_conservative_backfill_would_block_a_job_at_once(scene: Scene) -> None:
    reserved(scene, submitted_s=NOW_S)
    answer, _ = assert_waits(scene, body(scene, 1, 150))
    assert answer["reason"] == "UnitsReserved"


def test_a_dry_run_needs_a_project_of_the_caller_and_tells_nothing_of_others(
    scene: Scene,
) -> None:
    build("a")
    quota("web", limit=1)
    refused = scene.client.post("/api/v1/checks/", body(scene, project="web"), format="json")
    assert refused.status_code == 422
    assert "must be one of your projects: vision" in refused.content.decode()
    assert scene.check(body(scene, 2))["outcome"] == "placed", "the maximum of web binds only web"
