"""Proposed preemptions over REST: who sees what, approval, refusal with the difference."""

import json
from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.services import join_project
from apps.execution.models import PreemptionProposal
from apps.inventory.models import Cluster
from apps.scheduling.selectors import ClusterFollower
from apps.workloads.models import Job
from tests import factories
from tests.api.conftest import Speak
from tests.execution.migration_world import cluster, end, launch_of, running

pytestmark = pytest.mark.django_db
LIST = "/api/v1/preemptions/"


@pytest.fixture
def victim(monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setattr("apps.scheduling.services.dry_run._COPY", ClusterFollower())
    cluster("a")
    Cluster.objects.update(seen_cluster_s=7260.0)
    other = factories.project("other")
    return running([0, 1, 2, 3], name="low", target={"kind": "best_effort"}, project=other)


@pytest.fixture
def proposal(victim: Job) -> PreemptionProposal:
    """For a waiting job of two units of the project `default`."""
    job = factories.job("urgent", priority=5, target={"kind": "best_effort"})
    factories.waiting_shape(job, units=2, min_units=2)
    return factories.preemption_proposal(job, victim)


def address(proposal: PreemptionProposal, verb: str = "") -> str:
    return f"{LIST}{proposal.pk}/" + (f"{verb}/" if verb else "")


def member(as_user: Speak) -> APIClient:
    user = factories.user("mia", role=Role.VIEWER)
    join_project(user=user, project=factories.project("default"), role=Role.VIEWER)
    return as_user(user)


def test_a_list_has_a_row_for_each_proposal(
    power: APIClient, proposal: PreemptionProposal
) -> None:
    (row,) = power.get(LIST).json()["results"]
    assert row.pop("created_at")
    assert row == {
        "id": proposal.pk, "job": str(proposal.job_id), "job_name": "urgent",
        "project": "default", "priority": 5, "state": "proposed", "message": "",
        "is_automatic": False, "victims": 1, "lost_unit_seconds": 240, "broken_promises": 0,
        "decided_at": None, "decided_by": "", "overridden_limits": [],
    }  # fmt: skip


def test_it_is_filtered_by_state_and_job_and_paged(
    power: APIClient, proposal: PreemptionProposal
) -> None:
    job = Job.objects.get(pk=proposal.job_id)
    old = factories.preemption_proposal(job, state="withdrawn")
    new = factories.preemption_proposal(job, state="applied")

    def found(query: str) -> list[int]:
        return [row["id"] for row in power.get(f"{LIST}?{query}").json()["results"]]

    assert found("state=withdrawn") == [old.pk]
    assert found("state__in=proposed,applied") == [new.pk, proposal.pk]
    assert found(f"job={job.pk}") == [new.pk, old.pk, proposal.pk]
    first = power.get(f"{LIST}?limit=2").json()
    second = power.get(first["next"]).json()
    assert [row["id"] for row in first["results"]] == [new.pk, old.pk]
    assert [row["id"] for row in second["results"]] == [proposal.pk]
    assert power.get(f"{LIST}?state=open").status_code == 400


def test_a_list_takes_few_queries(
    power: APIClient, proposal: PreemptionProposal, django_assert_max_num_queries: Any
) -> None:
    job = Job.objects.get(pk=proposal.job_id)
    for _ in range(5):
        factories.preemption_proposal(job, state="withdrawn")
    power.get(LIST)
    with django_assert_max_num_queries(6):
        power.get(LIST)


def test_operators_see_the_victims_and_whether_they_are_right(
    power: APIClient, proposal: PreemptionProposal, victim: Job
) -> None:
    body = power.get(address(proposal)).json()
    assert body["named"] == [{
        "id": str(victim.pk), "name": "low", "units": 4, "lost_unit_seconds": 240,
        "breaks_promise": False, "reason": "Without it, 2 units are missing.",
    }]  # fmt: skip
    assert body["check"] == {
        "can_apply": True, "difference": None, "lost_unit_seconds": 240, "exceeded_limits": [],
    }  # fmt: skip


def test_a_member_sees_the_proposal_but_no_victim_of_another_project(
    as_user: Speak, proposal: PreemptionProposal
) -> None:
    api = member(as_user)
    body = api.get(address(proposal)).json()
    (named,) = body["named"]
    assert (named["id"], named["name"], named["units"]) == (None, "", 4)
    assert body["check"] is None
    assert len(api.get(LIST).json()["results"]) == 1
    assert api.post(address(proposal, "apply"), {}, format="json").status_code == 403
    assert api.post(address(proposal, "dismiss")).status_code == 403


def test_others_do_not_learn_that_it_exists(as_user: Speak, proposal: PreemptionProposal) -> None:
    stranger = as_user(factories.user("otto", role=Role.VIEWER))
    assert stranger.get(LIST).json()["results"] == []
    assert stranger.get(address(proposal)).status_code == 404


def test_it_is_applied_once_per_key(
    power: APIClient, proposal: PreemptionProposal, victim: Job
) -> None:
    headers = {"Idempotency-Key": "k-1"}
    first = power.post(address(proposal, "apply"), {}, format="json", headers=headers)
    assert (first.status_code, first.json()["state"]) == (202, "applied")
    assert first.json()["decided_by"] == "olga"
    again = power.post(address(proposal, "apply"), {}, format="json", headers=headers)
    assert (again.status_code, again.json()) == (202, first.json())
    assert launch_of(victim).cancel_requested


def test_members_read_no_name_of_another_project_in_stored_messages(
    power: APIClient, as_user: Speak, proposal: PreemptionProposal, victim: Job, settings: Any
) -> None:
    end(victim)
    power.post(address(proposal, "apply"), {}, format="json")
    shown = member(as_user).get(address(proposal)).json()
    assert (shown["state"], "low" in json.dumps(shown)) == ("withdrawn", False)
    assert power.get(address(proposal)).json()["message"].startswith("low no longer runs.")


def test_members_read_no_name_of_another_project_in_overridden_limits(
    power: APIClient, as_user: Speak, proposal: PreemptionProposal
) -> None:
    limit = {"limit": "per_job", "setting": "BERTH_PREEMPTIONS_PER_JOB", "message": "low was."}
    PreemptionProposal.objects.update(overridden=[limit])
    shown = member(as_user).get(LIST).json()["results"][0]["overridden_limits"]
    assert shown == [{**limit, "message": "BERTH_PREEMPTIONS_PER_JOB was exceeded."}]
    assert power.get(address(proposal)).json()["overridden_limits"] == [limit]


def test_a_changed_proposal_is_refused_with_the_difference_and_a_new_one(
    power: APIClient, proposal: PreemptionProposal, victim: Job
) -> None:
    end(victim)
    running([0, 1, 2, 3], name="next", target={"kind": "best_effort"})
    answer = power.post(address(proposal, "apply"), {}, format="json")
    body = answer.json()
    assert (answer.status_code, body["code"]) == (409, "state_conflict")
    assert body["detail"].startswith("low no longer runs.")
    assert body["difference"]["gone"] == ["low"]
    assert power.get(address(proposal)).json()["state"] == "withdrawn"
    renewed = power.get(f"{LIST}{body['proposal']}/").json()
    assert (renewed["state"], [each["name"] for each in renewed["named"]]) == (
        "proposed",
        ["next"],
    )


def test_a_limit_is_named_and_can_be_overridden(
    power: APIClient, proposal: PreemptionProposal, settings: Any
) -> None:
    settings.PREEMPTIONS_PER_HOUR = 0
    refused = power.post(address(proposal, "apply"), {}, format="json")
    limit = {
        "limit": "per_hour", "setting": "BERTH_PREEMPTIONS_PER_HOUR",
        "message": "Only 0 more jobs may be preempted within this hour.",
    }  # fmt: skip
    assert (refused.status_code, refused.json()["exceeded_limits"]) == (409, [limit])
    assert power.get(address(proposal)).json()["check"]["exceeded_limits"] == [limit]
    body = {"override_limits": True}
    done = power.post(address(proposal, "apply"), body, format="json")
    assert (done.status_code, done.json()["overridden_limits"]) == (202, [limit])


def test_a_preview_names_the_limits_that_it_overrides(
    power: APIClient, proposal: PreemptionProposal, settings: Any
) -> None:
    settings.PREEMPTIONS_PER_HOUR = 0
    found = power.get(f"/api/v1/jobs/{proposal.job_id}/preemption/").json()
    assert [each["limit"] for each in found["overridden_limits"]] == ["per_hour"]


def test_a_dismissal_stops_nothing(
    power: APIClient, proposal: PreemptionProposal, victim: Job
) -> None:
    done = power.post(address(proposal, "dismiss"))
    assert (done.status_code, done.json()["state"]) == (200, "dismissed")
    assert not launch_of(victim).cancel_requested
    assert power.post(address(proposal, "dismiss")).status_code == 409
