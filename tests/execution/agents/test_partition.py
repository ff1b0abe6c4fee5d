"""A machine that is cut off: its agent hears nothing, and nobody hears it."""

import json
import time
from datetime import timedelta

import pytest
from pytest_django import Settings

from apps.common.infrastructure.database import database_now
from apps.execution.models import Launch
from apps.execution.services.heartbeats import store_heartbeats
from apps.execution.services.recovery import requeue_lost_jobs
from apps.inventory.models import ServerReading
from tests.execution.agents.conftest import Site, eventually
from tests.execution.agents.gate import gate_to
from tests.execution.agents.partition import network

pytestmark = pytest.mark.agent
LEASE_S = 12.0
WAIT = "date +%s%N >> starts; while [ ! -e go ]; do sleep 0.05; done; echo done"


@pytest.mark.parametrize("kind", ["veth", "proxy"])
def test_a_machine_that_is_cut_off_for_a_moment_keeps_its_tasks(
    site: Site, settings: Settings, kind: str
) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    with network(kind, site.url) as way:
        machine = site.machine("box-1", is_started=False)
        machine.url, machine.prefix = way.url, way.prefix
        machine.options = ("--insecure-http",)  # a network of this machine
        machine.start()
        job = site.submit("sh", "-c", WAIT)
        site.until(job, "running")
        way.cut()
        machine.file(job, "work/go").touch()
        eventually(machine.file(job, "exit.json").exists, "it ends without the control plane")
        job.refresh_from_db()
        assert job.state == "running"
        way.mend()
        job = site.done(job)
        assert (job.state, job.attempts) == ("succeeded", 1)
        machine.stop_everything()


@pytest.mark.parametrize("kind", ["veth", "proxy"])
def test_a_machine_that_is_cut_off_for_its_lease_stops_its_tasks_before_they_run_again(
    site: Site, settings: Settings, kind: str
) -> None:
    settings.ALLOWED_HOSTS, settings.AGENT_LEASE_S = ["*"], LEASE_S
    with network(kind, site.url) as way:
        machine = site.machine("box-1", is_started=False)
        machine.url, machine.prefix = way.url, way.prefix
        machine.options = ("--insecure-http",)  # a network of this machine
        machine.start()
        job = site.submit("sh", "-c", WAIT)
        site.until(job, "running")
        first = machine.file(job, "exit.json")
        way.cut()
        eventually(first.exists, "the supervisor stops it when the lease ends")
        ended = json.loads(first.read_text())
        assert ended["reason"] == "fenced"
        ended_at = time.time() - time.monotonic() + ended["at_s"]
        way.mend()
        eventually(lambda: site.until(job, "running").attempts == 2, "it runs again")
        assert Launch.objects.get(attempt=1).outcome == "lost"
        second = Launch.objects.get(attempt=2).pk
        starts = machine.state / "tasks" / str(second) / "work" / "starts"
        eventually(lambda: starts.exists() and starts.read_text())
        assert int(starts.read_text()) / 1e9 > ended_at
        (starts.parent / "go").touch()
        assert site.done(job).state == "succeeded"
        machine.stop_everything()


def test_a_task_outlives_a_short_lease_if_the_cluster_has_a_long_one(
    site: Site, settings: Settings
) -> None:
    settings.AGENT_LEASE_S = 10.0 * LEASE_S
    with gate_to(site.url) as gate:
        site.url = gate.url
        machine = site.machine("box-1")
        job = site.submit("sh", "-c", WAIT)
        site.until(job, "running")
        store_heartbeats()
        gate.close()
        time.sleep(1.5 * LEASE_S)
        now = database_now()
        ServerReading.objects.update(at=now - timedelta(seconds=8.0 * LEASE_S))
        assert requeue_lost_jobs(silent_before=now) == 0
        assert not machine.file(job, "exit.json").exists()
        machine.file(job, "work/go").touch()
        eventually(machine.file(job, "exit.json").exists, "it ends without the control plane")
        gate.open()
        job = site.done(job)
        assert (job.state, job.attempts) == ("succeeded", 1)
        machine.stop_everything()
