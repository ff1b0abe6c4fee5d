"""Agents let jobs wait for better units, by the admission control of the settings."""

import json
import zlib
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client, override_settings
from django.utils import timezone

from apps.accounts.core.roles import Role
from apps.inventory.models import Cluster, ResourceUnit
from apps.scheduling.models import AdmissionState, Decision, Reservation
from apps.scheduling.selectors.waits import admission_now, requested_per_s
from apps.scheduling.services import release
from apps.scheduling.services.agent import SchedulingAgent, make_agent
from apps.scheduling.services.replay import replay
from apps.workloads.models import Application, Job, WaitingShape
from tests import factories
from tests.scheduling.world import build, known, state_and_reason, waiting

pytestmark = pytest.mark.django_db

NOW_S = 3000.0
ROUND_S = 100.0


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=NOW_S)


def at(cluster_s: float) -> None:
    Cluster.objects.update(seen_cluster_s=cluster_s)


def job(of: Application, units: int, **values: Any) -> Job:
    fields = {"target": {"kind": "best_effort"}, "target_kind": "best_effort", "gang": False}
    size = {"units_requested": units, "input_bytes": 10**10, "submitted_s": NOW_S}
    return waiting(of, **{**fields, **size, **values})


def decide(by: SchedulingAgent) -> None:
    WaitingShape.objects.update(due_at=timezone.now())
    Job.objects.filter(state__in=["submitted", "queued"]).update(claimed_until=None)
    by.work(for_s=0.3)


def end(one: Job) -> None:
    ended = {"state": "succeeded", "finished_at": timezone.now(), "finished_s": NOW_S}
    Job.objects.filter(id=one.id).update(**ended)
    release([one.id])


def busy_server() -> tuple[SchedulingAgent, Application, float]:
    """A server whose four units were freed every 100 s, six times; now three are busy."""
    build("a")
    of, by = known(), make_agent("agent-1")
    for i in range(6):
        at(NOW_S + i * ROUND_S)
        one = job(of, 4)
        decide(by)
        end(one)
    now_s = NOW_S + 6 * ROUND_S
    at(now_s)
    job(of, 3)
    decide(by)
    return by, of, now_s


@override_settings(ADMISSION="count")
def test_a_job_waits_for_expected_units_until_its_bound() -> None:
    """The wait for two units is uniform in 0 to 100 s: 90 s are below 50 + 2 · 29 = 108 s."""
    by, of, now_s = busy_server()
    late = job(of, 2, submitted_s=now_s)
    decide(by)
    assert state_and_reason(late) == ("queued", "WaitingForBucket")
    decision = Decision.objects.get(job=late)
    assert decision.dropped == {"busy": 3, "admission": 1}
    late.refresh_from_db()
    assert late.reason_message.startswith("1 of 2 free units; the others are expected within 9")
    assert replay(decision.pk).detail == (
        "it was decided by the admission control, before a policy examined any server"
    )
    at(now_s + 95.0)
    decide(by)
    assert state_and_reason(late)[0] == "queued"
    at(now_s + 115.0)
    decide(by)
    assert state_and_reason(late)[0] == "starting"


@override_settings(ADMISSION="count")
def test_time_in_profiling_does_not_count_as_waiting() -> None:
    by, of, now_s = busy_server()
    late = job(of, 2, submitted_s=now_s - 2000.0, profiled_s=now_s - 10.0)
    decide(by)
    assert state_and_reason(late) == ("queued", "WaitingForBucket")


@pytest.mark.parametrize(
    "chosen", [{"ADMISSION": "none"}, {"ADMISSION": "count", "ADMISSION_MAX_WAIT_S": 0.0}]
)
def test_jobs_start_at_once_without_admission_or_with_a_bound_of_zero(
    chosen: dict[str, Any],
) -> None:
    with override_settings(**chosen):
        by, of, now_s = busy_server()
        late = job(of, 2, submitted_s=now_s)
        decide(by)
        assert state_and_reason(late)[0] == "starting"


@override_settings(ADMISSION="count")
def test_a_job_that_lacks_units_gets_them_without_admission() -> None:
    by, of, now_s = busy_server()
    late = job(of, 2, submitted_s=now_s - 500.0)
    decide(by)
    late.refresh_from_db()
    assert (late.units, late.units_missing) == (1, 1)
    end(Job.objects.filter(state="starting").exclude(id=late.id).get())
    decide(by)
    late.refresh_from_db()
    assert (late.units, late.units_missing) == (2, 0)


@override_settings(ADMISSION="count")
def test_units_that_are_reserved_for_another_job_are_not_free_to_admission() -> None:
    """Three of four units are busy, and the other one is reserved."""
    by, of, now_s = busy_server()
    gang = job(of, 4, submitted_s=now_s, gang=True)
    decide(by)
    assert state_and_reason(gang) == ("queued", "NotEnoughFreeUnits")
    free = ResourceUnit.objects.get(allocation_id=None)
    Reservation.objects.create(
        job_id=gang.id, unit_ids=[free.id], made_s=now_s, start_s=now_s + 50, promised_s=now_s
    )
    late = job(of, 2, submitted_s=now_s)
    decide(by)
    assert state_and_reason(late) == ("queued", "UnitsReserved")


@override_settings(ADMISSION="count")
def test_a_job_with_a_reservation_gets_its_units_without_admission() -> None:
    """Nobody else may use them meanwhile."""
    by, of, now_s = busy_server()
    late = job(of, 2, submitted_s=now_s)
    decide(by)
    assert state_and_reason(late) == ("queued", "WaitingForBucket")
    Reservation.objects.create(
        job_id=late.id, unit_ids=[], made_s=now_s, start_s=now_s, promised_s=now_s
    )
    decide(by)
    assert state_and_reason(late)[0] == "starting"


@override_settings(ADMISSION="best")
def test_an_unknown_admission_control_stops_an_agent() -> None:
    with pytest.raises(ValueError, match="'best' is not a valid Control"):
        make_agent("agent-1")


@override_settings(ADMISSION="count")
def test_the_state_is_stored_and_shown(client: Client) -> None:
    client.force_login(factories.user(role=Role.ADMIN))
    assert client.get("/api/v1/queues/").json()["admission"] == {
        "control": "count",
        "at": None,
        "cluster_seconds": None,
        "queues": [],
    }
    assert "No agent has reported the admission control yet" in page(client)
    by, of, now_s = busy_server()
    job(of, 2, submitted_s=now_s)
    decide(by)
    AdmissionState.objects.update(at=timezone.now() - timedelta(minutes=1))
    by._admission._stored_s -= 10.0
    decide(by)
    (queue,) = client.get("/api/v1/queues/").json()["admission"]["queues"]
    assert queue["name"] == "all units"
    assert (queue["servers"], queue["free_units"], queue["waiting"]) == (1, 1, 1)
    assert queue["freed_per_second"] == 24 / 600.0
    assert queue["mean_seconds"] == pytest.approx(50.0, abs=1.0)
    assert queue["bound_seconds"] == pytest.approx(108.0, abs=2.0)
    assert "Jobs wait for units of 1 of 1 bucket" in page(client)


@pytest.mark.parametrize(
    "values",
    [{"held": True}, {"state": "cancelled", "finished_at": timezone.now(), "finished_s": NOW_S}],
    ids=["held", "cancelled"],
)
@override_settings(ADMISSION="count")
def test_a_job_that_is_held_or_cancelled_no_longer_waits_at_admission(
    values: dict[str, Any],
) -> None:
    by, of, now_s = busy_server()
    first = job(of, 2, submitted_s=now_s)
    decide(by)
    assert state_and_reason(first) == ("queued", "WaitingForBucket")
    Job.objects.filter(id=first.id).update(shape=None, **values)
    by._admission._stored_s -= 10.0
    decide(by)
    later = job(of, 2, submitted_s=now_s)
    decide(by)
    assert state_and_reason(later) == ("queued", "WaitingForBucket")
    assert by._admission._control is not None
    assert list(by._admission._control.waiting) == [str(later.id)]


def page(client: Client) -> str:
    return client.get("/queues/").content.decode()


def test_without_admission_nothing_is_shown(client: Client) -> None:
    client.force_login(factories.user(role=Role.ADMIN))
    assert admission_now() is None
    assert client.get("/api/v1/queues/").json()["admission"] is None
    assert "Longest wait" not in page(client)


@override_settings(ADMISSION="count")
@pytest.mark.parametrize(("later_s", "state"), [(10.0, "queued"), (1300.0, "starting")])
def test_an_agent_that_starts_continues_from_a_stored_history_that_is_not_old(
    later_s: float, state: str
) -> None:
    by, of, now_s = busy_server()
    by._admission._stored_s -= 10.0
    AdmissionState.objects.update(at=timezone.now() - timedelta(minutes=1))
    decide(by)
    at(now_s + later_s)
    late = job(of, 2, submitted_s=now_s + later_s)
    decide(make_agent("agent-2"))
    assert state_and_reason(late)[0] == state


@override_settings(ADMISSION="count")
def test_a_history_of_an_earlier_version_is_not_read() -> None:
    _, of, now_s = busy_server()
    memory = zlib.compress(json.dumps({"freed": []}).encode())
    AdmissionState.objects.update(memory=memory, cluster_s=now_s)
    late = job(of, 2, submitted_s=now_s)
    decide(make_agent("agent-2"))
    assert state_and_reason(late)[0] == "starting"


@override_settings(ADMISSION="arq")
def test_the_rates_of_classes_count_the_jobs_with_rates_of_all_agents(client: Client) -> None:
    """Of eight units that were requested in 3,600 s, this agent has evaluated two."""
    build("a", "b", "c")
    of, by = known(), make_agent("agent-1")
    job(of, 2)
    decide(by)
    for _ in range(6):
        factories.job(state="running", units=1, submitted_s=NOW_S, placed_s=NOW_S)
    at(NOW_S + 600.0)
    AdmissionState.objects.update(at=timezone.now() - timedelta(minutes=1))
    by._admission._stored_s -= 10.0
    decide(by)
    client.force_login(factories.user(role=Role.ADMIN))
    queues = client.get("/api/v1/queues/").json()["admission"]["queues"]
    assert sum(queue["arrived_per_second"] for queue in queues) == pytest.approx(8 / 3600.0)


def test_requested_units_are_those_of_jobs_that_agents_have_or_will_evaluate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """3 + 2 + 4 units of three jobs, and one of unknown size, in 3,000 s."""
    assert requested_per_s(NOW_S) is None
    placed: dict[str, Any] = {"state": "succeeded", "placed_s": NOW_S, "finished_s": NOW_S}
    finished: dict[str, Any] = {"finished_at": timezone.now(), "submitted_s": 2000.0}
    factories.job(units=3, **placed, **finished)
    factories.job(units=1, units_missing=1, state="running", placed_s=NOW_S, submitted_s=1000.0)
    factories.waiting_shape(factories.job(units_requested=2, submitted_s=1500.0), units=4)
    factories.job(submitted_s=2000.0)
    factories.job(units_requested=50, held=True, submitted_s=2000.0)
    factories.job(units_requested=50, state="cancelled", finished_s=NOW_S, **finished)
    assert requested_per_s(NOW_S) == pytest.approx(4 * 3.0 / 3000.0)
    assert requested_per_s(8500.0) == pytest.approx(3 * 3.5 / 7200.0)  # without the second
    monkeypatch.setattr("apps.scheduling.selectors.waits.REQUESTED", 2)
    assert requested_per_s(NOW_S) == pytest.approx(2 * 4.0 / (NOW_S - 1500.0))  # the newest two
