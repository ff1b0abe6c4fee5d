"""Commands that are restarted on another server: real processes, `./dev test -m agent`."""

import time

import pytest

from apps.execution.models import Launch, Migration
from apps.execution.services.migrations import (
    AcceptedMigration,
    MigrationRequest,
    request_migrations,
)
from apps.inventory.models import Server
from apps.scheduling.models import Allocation
from tests.execution.agents.conftest import Machine, Site, eventually

pytestmark = pytest.mark.agent
WRITES = "date +%s%N; sleep 600"


def tasks(machine: Machine) -> list[str]:
    """Return the launches that an agent has started."""
    return sorted(path.parent.name for path in machine.state.glob("tasks/*/started.json"))


def test_a_command_is_stopped_and_starts_on_the_other_machine(site: Site) -> None:
    machines = {name: site.machine(name) for name in ("box-1", "box-2")}
    job = site.until(site.submit("sh", "-c", WRITES), "running")
    held = Allocation.objects.get(job=job, released_seq=None)
    source = Server.objects.get(pk=held.server_id)
    target = Server.objects.exclude(pk=source.pk).get()
    time.sleep(1.0)
    request = MigrationRequest(job.pk, held.pk, target.pk, "plan")
    (answer,) = request_migrations([request])
    assert isinstance(answer, AcceptedMigration)
    assert answer.predicted_s > 7.0  # a second of work, and the time to stop

    def restarted() -> bool:
        job.refresh_from_db()
        return (job.state, job.attempts) == ("running", 2)

    eventually(restarted, f"{job.state}; {site.logs()}")
    first, second = Launch.objects.filter(job=job).order_by("id")
    assert (first.outcome, second.state) == ("moved", "running")
    assert tasks(machines[source.name]) == [str(first.pk)]
    assert tasks(machines[target.name]) == [str(second.pk)]
    old, new = (
        machines[server.name].state / "tasks" / str(launch.pk)
        for server, launch in ((source, first), (target, second))
    )
    assert (old / "exit.json").exists()
    # the second process began after the first one had ended
    assert (new / "started.json").stat().st_mtime > (old / "exit.json").stat().st_mtime
    assert Migration.objects.get().state == "done"
    source.refresh_from_db()
    target.refresh_from_db()
    assert (source.used_cores, target.used_cores) == (0, 1)
