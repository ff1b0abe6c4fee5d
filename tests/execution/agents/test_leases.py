"""Jobs of a machine that is silent: kept until its agent must have stopped them."""

import subprocess
import sys
import time
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from apps.execution.core.agent.wire import GRACE_S, MachineUsage
from apps.execution.infrastructure.agent_readings import note_heartbeat
from apps.execution.models import Launch
from apps.execution.services.heartbeats import beat, store_heartbeats
from apps.execution.services.recovery import requeue_lost_jobs
from apps.inventory.core.usage import SILENT_S
from apps.inventory.models import Server, ServerReading
from apps.inventory.services import mark_silent_servers
from apps.workloads.models import Job
from tests import factories
from tests.execution.agents.test_credentials import SHAPE, registered, sync

pytestmark = pytest.mark.django_db
HOUR_S = 3600.0


@pytest.fixture
def machine() -> Server:
    factories.cluster()
    return factories.server("box-1", backend="agent")


def running_on(machine: Server) -> Job:
    job = factories.job(state="running", attempts=1)
    factories.allocation(job, machine, cores=1, by=factories.decision(job), acquired_seq=0)
    Launch.objects.create(job=job, attempt=1, backend="agent", order={}, state="running")
    return job


def heard(machine: Server, *, ago_s: float) -> None:
    at = timezone.now() - timedelta(seconds=ago_s)
    ServerReading.objects.filter(server=machine).delete()
    factories.reading(machine, at=at, backend="agent")


def recover() -> int:
    return requeue_lost_jobs(silent_before=timezone.now() - timedelta(seconds=SILENT_S))


def test_a_silent_machine_keeps_its_jobs_until_its_lease_must_have_ended(
    machine: Server, settings: Settings
) -> None:
    job = running_on(machine)
    silence_s = settings.AGENT_LEASE_S + GRACE_S
    assert silence_s > SILENT_S + 30
    heard(machine, ago_s=silence_s - 20)
    assert recover() == 0
    heard(machine, ago_s=silence_s + 1)
    assert recover() == 1
    job.refresh_from_db()
    assert job.state == "queued"


def test_the_lease_that_a_machine_was_given_counts_and_not_the_present_setting(
    settings: Settings,
) -> None:
    factories.cluster()
    settings.AGENT_LEASE_S = 4 * HOUR_S
    caller = registered("box-1")
    machine = Server.objects.get(name="box-1")
    running_on(machine)
    settings.AGENT_LEASE_S = 90.0
    heard(machine, ago_s=4 * HOUR_S)
    assert recover() == 0
    # an answer to the registration with the short lease may not have come
    assert caller.post("/api/v1/agents/register/", SHAPE).json()["lease_s"] == 90.0
    heard(machine, ago_s=4 * HOUR_S)
    assert recover() == 0
    assert sync(caller, epoch=2, usage={"cpu_share": 0.0, "memory_share": 0.0}).status_code == 200
    heard(machine, ago_s=90.0 + GRACE_S - 20)
    assert recover() == 0
    heard(machine, ago_s=90.0 + GRACE_S + 1)
    assert recover() == 1


@pytest.mark.parametrize(("text", "is_valid"), [("15", True), ("86400", True), ("5", False),
                                                ("604801", False), ("4h", False)])  # fmt: skip
def test_a_lease_is_between_some_heartbeats_and_a_week(
    monkeypatch: pytest.MonkeyPatch, text: str, is_valid: bool
) -> None:
    monkeypatch.setenv("BERTH_AGENT_LEASE_S", text)
    code = "from controlplane.settings import base; print(base.AGENT_LEASE_S)"
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) is is_valid
    assert ("BERTH_AGENT_LEASE_S" in done.stderr) is not is_valid


def test_the_only_machine_takes_no_work_while_it_is_silent(machine: Server) -> None:
    heard(machine, ago_s=SILENT_S + 5)
    mark_silent_servers(silent_before=timezone.now() - timedelta(seconds=SILENT_S))
    machine.refresh_from_db()
    assert machine.state == "down"


def test_a_heartbeat_is_stored_with_the_time_at_which_it_came(machine: Server) -> None:
    before = timezone.now() - timedelta(seconds=1)
    beat(machine.pk, MachineUsage(cpu_share=0.5, memory_share=0.25, storage_share=0.125))
    assert not ServerReading.objects.exists()
    assert store_heartbeats() == 1
    reading = ServerReading.objects.get(server=machine)
    assert before <= reading.at <= timezone.now()
    assert (reading.cpu_share, reading.memory_share, reading.storage_share) == (0.5, 0.25, 0.125)
    assert (reading.backend, reading.watts) == ("agent", 80.0)


def test_an_old_heartbeat_is_not_stored_again(machine: Server) -> None:
    at_s = (timezone.now() - timedelta(seconds=60)).timestamp()
    note_heartbeat(machine.pk, MachineUsage(0.5, 0.5), at_s=at_s)
    assert store_heartbeats() == 0


@pytest.mark.parametrize("ahead_s", [-60.0, 60.0])
def test_heartbeats_do_not_depend_on_the_clock_of_the_host_that_takes_them(
    machine: Server, monkeypatch: pytest.MonkeyPatch, ahead_s: float
) -> None:
    now_s = time.time
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: now_s() + ahead_s)
        beat(machine.pk, MachineUsage(0.5, 0.5))
    assert store_heartbeats() == 1
    age = timezone.now() - ServerReading.objects.get(server=machine).at
    assert timedelta(seconds=-1) < age < timedelta(seconds=5)


def test_a_heartbeat_of_an_emulated_server_is_ignored() -> None:
    factories.cluster()
    beat(factories.server("srv-1").pk, MachineUsage(0.5, 0.5))
    assert store_heartbeats() == 0
