"""The backend of agents for its contract: two agents, and processes of this machine."""

import json
import os
import time
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from apps.execution.backends.agent.suspension import descendants
from apps.execution.core.agent.wire import GRACE_S
from apps.execution.models import JobSample
from apps.execution.services import probes
from apps.execution.services.heartbeats import store_heartbeats
from apps.inventory.models import ServerReading
from apps.workloads.models import Job
from tests.contracts.execution.worlds import BackendWorld, server_of
from tests.execution.agents.conftest import Machine, Site, eventually

_WAITS = "while [ ! -e go ]; do sleep 0.02; done"


class AgentWorld(BackendWorld):
    """Two machines; the processes of Berth that run the backend are their agents."""

    name = "agent"

    def __init__(self, site: Site) -> None:
        self._site = site
        for name in ("box-1", "box-2"):
            site.machine(name)

    def begin(self) -> Job:
        return self.until_state(self._site.submit("sh", "-c", _WAITS), "running")

    def finish(self, job: Job) -> None:
        (task,) = self._running(job)
        (task / "work/go").touch()
        eventually((task / "exit.json").exists, "the command ends")

    def begin_refused(self) -> Job:
        return self._site.submit("no-such-program")

    def begin_copyable(self) -> Job:
        """Submit a short command whose copies may run."""
        short = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"
        return self._site.submit("sh", "-c", short, copyable=True)

    def turn(self) -> None:
        probes.advance_probes()
        self._site.scheduler.work(for_s=0.5)
        time.sleep(0.02)

    def stop(self) -> None:
        for machine in self._site.machines:
            machine.kill()

    def start(self) -> None:
        for machine in self._site.machines:
            machine.start()

    def starts(self, job: Job) -> int:
        return len(self._tasks(job, "started.json"))

    def runs_on(self, job: Job) -> set[str]:
        return {task.parent.parent.name for task in self._running(job)}

    def is_stopped(self, job: Job) -> bool:
        (task,) = self._running(job)
        before = _ticks_and_states(task)
        time.sleep(0.2)
        return before == _ticks_and_states(task)

    def has_usage(self, job: Job) -> bool:
        return JobSample.objects.filter(job=job, memory_bytes__gt=0).exists()

    def lose_server(self, job: Job) -> None:
        server = server_of(job)
        (machine,) = (each for each in self._site.machines if each.name == server.name)
        machine.stop_everything()
        store_heartbeats()
        silent = timezone.now() - timedelta(seconds=settings.AGENT_LEASE_S + GRACE_S + 1.0)
        ServerReading.objects.filter(server=server).update(at=silent)

    def cores_of(self, job: Job) -> set[int]:
        (task,) = self._running(job)
        started = json.loads((task / "started.json").read_text())
        return set(os.sched_getaffinity(started["pid"]))

    def _running(self, job: Job) -> list[Path]:
        ended = self._tasks(job, "exit.json")
        return [task for task in self._tasks(job, "started.json") if task not in ended]

    def _tasks(self, job: Job, file: str) -> list[Path]:
        """Return the directories of a job's tasks that have a file."""
        launches = {str(launch.pk) for launch in job.launches.all()}
        return [
            path.parent
            for machine in self._site.machines
            for path in _files(machine, file)
            if path.parent.name in launches
        ]


def _files(machine: Machine, file: str) -> list[Path]:
    return sorted(machine.state.glob(f"tasks/*/{file}"))


def _ticks_and_states(task: Path) -> list[str]:
    """Return the CPU ticks and the next children of all processes of a task."""
    claim = json.loads((task / "supervisor.json").read_text())
    found = []
    for process in sorted(descendants(claim["pid"])):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        found.append(f"{process} {fields[11]} {fields[12]}")
    return found
