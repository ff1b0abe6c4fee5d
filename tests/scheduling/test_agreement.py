"""A dry run, then the submission of the same job: both agree, and the first writes nothing.

The rules of quotas, of the admission control and of reservations are those of the agent.
"""

from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership, Project
from apps.inventory.core.backends import AGENT
from apps.inventory.models import ChangeKind, Cluster, Server
from apps.inventory.selectors import cluster_time
from apps.inventory.services import NewChange, append_changes
from apps.operations.models import Event
from apps.profiling.models import ProfilingRun
from apps.scheduling.models import AdmissionState, Allocation, Decision, Reservation
from apps.scheduling.selectors import ClusterFollower
from apps.scheduling.services import release
from apps.scheduling.services.agent import SchedulingAgent, make_agent
from apps.workloads.models import Application, Job, WaitingShape
from tests import factories
from tests.scheduling.world import Greedy, agent, build, decide_again, known, waiting

pytestmark = pytest.mark.django_db

NOW_S = 3000.0
READS = {"SELECT", "SAVEPOINT", "RELEASE"}


@pytest.fixture(autouse=True)
def clock(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
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
        about = [
            query["sql"] or ""
            for query in captured.captured_queries
            if "accounts_token" not in str(query)
        ]
        assert {sql.lstrip().split()[0] for sql in about} <= READS
        assert [sql for sql in about if " FOR " in sql and "UPDATE" in sql] == []
        answer: dict[str, Any] = response.json()
        return answer


def written() -> tuple[int, ...]:
    tables = (Job, Application, Decision, Allocation, Reservation, Event)
    return tuple(table.objects.count() for table in tables)


@pytest.fixture
def scene() -> Scene:
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


@pytest.fixture
def greedy_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.scheduling.services.dry_run._policy", lambda _: Greedy())


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


def agreed(scene: Scene, job: dict[str, Any]) -> tuple[dict[str, Any], Job]:
    """Return the answer of the dry run, and the job, which waits for the same reason."""
    answer = scene.check(job)
    stored = scene.submit(job)
    assert (answer["outcome"], stored.state) == ("waits", "queued")
    assert answer["reason"] == stored.reason_code
    assert answer["summary"] == f"The job would wait: {stored.reason_message}."
    assert answer["dropped"] == Decision.objects.get(job=stored).dropped
    return answer, stored


def placed(scene: Scene, job: dict[str, Any]) -> tuple[dict[str, Any], Job]:
    """Return the answer of the dry run, and the job, which starts on as many units."""
    answer = scene.check(job)
    stored = scene.submit(job)
    assert (answer["outcome"], stored.state) == ("placed", "starting")
    return answer, stored


def test_a_project_at_its_maximum_would_wait_with_the_figures(scene: Scene) -> None:
    build("a", "b")
    quota("vision", limit=2)
    placed(scene, body(scene, 2))
    answer, _ = agreed(scene, body(scene))
    assert answer["reason"] == "QuotaExceeded"
    assert "project vision uses 2 of at most 2 units" in answer["summary"]
    assert answer["start"] is None, "no simulation knows quotas"


def test_a_borrower_would_wait_while_another_project_claims_its_guarantee(scene: Scene) -> None:
    build("a", "b")
    quota("vision", 2)
    quota("web", 6)
    placed(scene, body(scene, 2))
    other(scene, 7)
    decide_again(scene.agent)
    answer, _ = agreed(scene, body(scene))
    assert answer["reason"] == "QuotaExceeded"
    assert "web" not in answer["summary"]


def test_a_project_within_its_guarantee_would_start_although_others_claim_units(
    scene: Scene,
) -> None:
    build("a", "b")
    quota("vision", 2)
    quota("web", 8)
    placed(scene, body(scene))
    other(scene, 8)
    decide_again(scene.agent)
    placed(scene, body(scene))


def test_a_job_would_start_with_the_units_that_the_quota_leaves(scene: Scene) -> None:
    build("a")
    quota("vision", limit=3)
    answer, stored = placed(scene, body(scene, 4, gang=False))
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
    answer, stored = placed(greedy, job)
    assert (answer["units"], stored.units, stored.units_missing) == (2, 2, 0)


def test_the_units_are_those_that_the_policy_chooses(scene: Scene, greedy_policy: None) -> None:
    build("a", "b")
    greedy = scene._replace(agent=agent("agent-1", Greedy()))
    due = {"kind": "completion_time", "seconds": 100.0}
    answer, stored = placed(greedy, body(greedy, gigabytes=9, units=None, target=due))
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
    answer, _ = agreed(scene, body(scene, 1, 150))
    assert answer["reason"] == "UnitsReserved"
    assert answer["dropped"]["reserved"] == 7
    assert gang.name not in str(answer)


def test_a_job_that_ends_in_time_would_be_backfilled(scene: Scene) -> None:
    reserved(scene)
    placed(scene, body(scene, 1, 50))


@override_settings(BACKFILL="conservative")
def test_conservative_backfill_would_block_a_job_at_once(scene: Scene) -> None:
    reserved(scene, submitted_s=NOW_S)
    answer, _ = agreed(scene, body(scene, 1, 150))
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
        placed(scene, body(scene, 1, 10_000))


def test_without_admission_control_a_job_would_start_with_the_free_unit(scene: Scene) -> None:
    scene = busy(scene, "none")
    answer, stored = placed(scene, body(scene, 2, gang=False))
    assert (answer["units"], stored.units, stored.units_missing) == (2, 1, 1)


@override_settings(ADMISSION="count")
def test_before_an_agent_has_stored_a_history_a_job_would_be_admitted(scene: Scene) -> None:
    build("a")
    placed(scene, body(scene, 2))


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
    placed(scene, COPYABLE)


def test_an_operator_would_have_the_command_measured_for_all_projects(scene: Scene) -> None:
    machine()
    by_operator = scene._replace(client=client_of(Role.OPERATOR))
    answer, stored = by_operator.check(COPYABLE), by_operator.submit(COPYABLE)
    assert answer["summary"].startswith("train was not measured yet")
    assert stored.application.name == "train"
