"""The wall clock of the database steps: cluster time moves little, and an event reports it."""

from datetime import datetime, timedelta
from time import monotonic
from typing import Any
from unittest.mock import Mock

import pytest
from django.test import Client

from apps.common.infrastructure.database import database_now
from apps.common.infrastructure.stop_signal import StopSignal
from apps.execution.management.commands.run_emulator import _environment
from apps.execution.services.recovery import sweep
from apps.inventory.core.usage import SILENT_S
from apps.inventory.models import CLOCK_UNSEEN_S, Cluster, Server
from apps.inventory.selectors import cluster_now
from apps.inventory.services import record_cluster_time, save_clock, start_clock
from apps.operations.models import Event as LoggedEvent
from apps.operations.models import Operation
from apps.operations.services import LEASE
from apps.workloads.models import Job, WaitingShape
from apps.workloads.services import claim_incomplete, claim_shapes, claim_waiting
from tests import factories
from tests.execution.migration_world import cluster, plane
from tests.scheduling.shapes import shaped

pytestmark = pytest.mark.django_db
HOUR_S = 3600.0
SPEED = 60.0
RECORDED_S = 7200.0
BOUND_S = CLOCK_UNSEEN_S * SPEED  # cluster seconds


def step(by_s: float) -> None:
    """Let the wall clock of the database step, just after the cluster clock was recorded."""
    factories.cluster(
        seen_cluster_s=RECORDED_S,
        wall_anchor_s=database_now().timestamp() - by_s,
        speed=SPEED,
    )


def steps() -> list[LoggedEvent]:
    return list(LoggedEvent.objects.filter(kind="cluster.clock_stepped"))


def expected_s(by_s: float) -> float:
    return RECORDED_S + (BOUND_S if by_s > 0 else 0.0)


@pytest.mark.parametrize("by_s", [HOUR_S, -HOUR_S])
def test_cluster_time_moves_by_at_most_the_bound(by_s: float) -> None:
    step(by_s)
    assert cluster_now() == expected_s(by_s)


@pytest.mark.parametrize("by_s", [HOUR_S, -HOUR_S])
def test_a_report_of_the_emulator_does_not_move_the_bound(by_s: float) -> None:
    step(by_s)
    record_cluster_time(cluster_s=cluster_now() + 60.0)
    assert cluster_now() == expected_s(by_s)


@pytest.mark.parametrize("by_s", [HOUR_S, -HOUR_S])
def test_the_sweep_reports_the_step_and_cluster_time_continues(by_s: float) -> None:
    step(by_s)
    sweep()
    (event,) = steps()
    assert (event.topic, event.subject) == ("cluster", "1")
    assert event.data["step_s"] == pytest.approx(by_s, abs=20.0)
    begin, end = (datetime.fromisoformat(event.data[name]) for name in ("from", "to"))
    assert (end - begin).total_seconds() == pytest.approx(event.data["step_s"], abs=0.01)
    assert event.data["cluster_s"] == expected_s(by_s)
    Cluster.objects.update(wall_anchor_s=database_now().timestamp() - 10.0)
    assert cluster_now() >= expected_s(by_s) + 10.0 * SPEED
    sweep()
    assert len(steps()) == 1


@pytest.mark.parametrize("queued_s", [HOUR_S - 60.0, -HOUR_S])
def test_waiting_jobs_are_evaluated_at_once_after_a_step_back_and_victims_get_no_units(
    queued_s: float,
) -> None:
    refused, new = shaped(), factories.job("new", state="submitted")
    incomplete: dict[str, Any] = {"state": "running", "units": 1, "units_missing": 1}
    job, victim = factories.job("job", **incomplete), factories.job("victim", **incomplete)
    Job.objects.update(placed_at=factories.MOMENT)
    ahead = database_now() + timedelta(seconds=HOUR_S - 30.0)
    queued_at = database_now() + timedelta(seconds=queued_s)
    WaitingShape.objects.update(due_at=ahead, claimed_until=ahead, queued_at=queued_at)
    Job.objects.update(claimed_until=ahead)
    Job.objects.filter(pk=victim.pk).update(claimed_until=ahead + timedelta(days=1))
    step(-HOUR_S)
    sweep()
    assert list(claim_shapes(agent="agent-2", limit=9).job_ids) == [refused.pk]
    assert claim_waiting(agent="agent-2", limit=9) == [new.pk]
    assert claim_incomplete(agent="agent-2", limit=9) == [job.pk]


@pytest.mark.parametrize("was_running", [True, False])
def test_a_step_back_while_nothing_ran_is_followed_too(was_running: bool) -> None:
    new = factories.job("new", state="submitted")
    Job.objects.update(claimed_until=database_now() + timedelta(seconds=HOUR_S - 30.0))
    step(-HOUR_S)
    if not was_running:
        Cluster.objects.update(speed=0.0)
    start_clock(speed=SPEED, was_still=True)
    sweep()
    assert claim_waiting(agent="agent-2", limit=9) == [new.pk]


def test_a_step_is_followed_by_the_next_sweep_if_one_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new = factories.job("new", state="submitted")
    Job.objects.update(claimed_until=database_now() + timedelta(seconds=HOUR_S - 30.0))
    step(-HOUR_S)
    with monkeypatch.context() as patch:
        patch.setattr("apps.workloads.services.shift_claims", Mock(side_effect=RuntimeError))
        with pytest.raises(RuntimeError):
            sweep()
    assert claim_waiting(agent="agent-2", limit=9) == []
    sweep()
    assert claim_waiting(agent="agent-2", limit=9) == [new.pk]
    later = database_now() + timedelta(seconds=HOUR_S)
    Job.objects.update(claimed_until=later)
    sweep()  # the step is followed once
    assert Job.objects.get().claimed_until == later


def test_leases_of_dead_processes_end_after_a_step_back() -> None:
    ahead = database_now() + timedelta(seconds=HOUR_S - 30.0)
    run = factories.profiling_run(
        factories.application(), state="running", claimed_by="dead", claimed_until=ahead
    )
    operation, kept = (
        Operation.objects.create(kind="front", status="running", lease_until=until)
        for until in (ahead, database_now() + LEASE)
    )
    step(-HOUR_S)
    sweep()
    for row in (run, operation, kept):
        row.refresh_from_db()
    past = ahead - timedelta(seconds=HOUR_S - 10.0)
    assert run.claimed_until is not None
    assert operation.lease_until is not None
    assert kept.lease_until is not None
    assert max(run.claimed_until, operation.lease_until) < past < kept.lease_until


def test_the_clock_of_the_emulator_is_monotonic_and_bounded() -> None:
    cluster("a")
    Cluster.objects.update(wall_anchor_s=database_now().timestamp() - 10.0, speed=SPEED)
    clock, now_s = plane().clock(), monotonic()
    assert _environment(StopSignal()).wall_s is monotonic
    assert clock.at(now_s) == pytest.approx(RECORDED_S + 10.0 * SPEED, abs=15.0 * SPEED)
    assert clock.at(now_s + HOUR_S) - clock.at(now_s) == pytest.approx(BOUND_S, abs=15.0 * SPEED)


@pytest.mark.parametrize("by_s", [CLOCK_UNSEEN_S - 20.0, 15.0 - CLOCK_UNSEEN_S])
def test_a_small_step_is_not_reported(by_s: float) -> None:
    step(by_s)
    save_clock()
    assert steps() == []
    assert RECORDED_S <= Cluster.objects.get().seen_cluster_s <= RECORDED_S + BOUND_S


def test_a_stopped_clock_does_not_step() -> None:
    step(HOUR_S)
    Cluster.objects.update(speed=0.0)
    save_clock()
    assert steps() == []
    assert cluster_now() == RECORDED_S


def test_servers_are_not_silent_because_the_wall_clock_stepped() -> None:
    server, other = factories.server(), factories.server()
    factories.reading(server, at=database_now() - timedelta(seconds=HOUR_S))
    factories.reading(other, at=database_now())  # the first that reports after the step
    step(HOUR_S)
    sweep()
    assert Server.objects.get(pk=server.pk).state == "active"
    past_s = SILENT_S + 1.0
    later = database_now().timestamp() - past_s
    seen_s = Cluster.objects.get().seen_cluster_s + past_s * SPEED
    Cluster.objects.update(wall_anchor_s=later, seen_cluster_s=seen_s)
    sweep()
    assert Server.objects.get(pk=server.pk).state == "down"


def test_the_system_page_shows_the_last_step(admin_client: Client) -> None:
    assert "Last clock step" not in admin_client.get("/system/").content.decode()
    step(HOUR_S)
    save_clock()
    page = admin_client.get("/system/").content.decode()
    assert "Last clock step" in page
    assert "+1 h" in page
