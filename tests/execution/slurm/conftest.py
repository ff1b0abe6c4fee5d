"""A real Slurm for all tests of this folder, and a Berth for each."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from apps.accounts.services import ensure_project
from apps.common.infrastructure.database import database_now
from apps.execution.backends.slurm.commands import Slurm
from apps.execution.backends.slurm.holder import SlurmBackend
from apps.execution.core.slurm.values import SlurmJob
from apps.execution.models import BackendHolder
from apps.inventory.models import Server
from apps.inventory.services import start_clock
from apps.scheduling.services.agent import SchedulingAgent, make_agent
from apps.workloads.models import Job
from tests.execution.slurm import cluster
from tests.execution.slurm.cluster import SlurmCluster
from tests.execution.waiting import until

HOOK = Path(__file__).parents[3] / "deploy/slurm/job_submit.lua"
TIMEOUT_S = 180.0  # of a busy machine


def require_slurm(*, accounting: bool = False) -> None:
    """Skip a test where Slurm is not installed; CI installs it, and must not skip."""
    missing = cluster.missing(accounting=accounting)
    if os.geteuid() != 0:
        missing.append("root")
    if missing:
        reason = (
            f"SLURM TESTS SKIPPED: needs {', '.join(missing)} (apt-get install {cluster.PACKAGES})"
        )
        assert not os.environ.get("BERTH_SLURM_REQUIRED"), reason
        pytest.skip(reason)


def a_cluster(hook: str, *, accounting: bool = False) -> Iterator[SlurmCluster]:
    """Start a cluster in a new directory, and stop it."""
    work = Path(tempfile.mkdtemp(prefix="berth-slurm."))
    work.chmod(0o755)
    found = SlurmCluster(work, hook, accounting)
    try:
        found.start()
        yield found
    finally:
        found.stop()
        shutil.rmtree(work, ignore_errors=True)


@pytest.fixture(scope="session")
def daemons() -> Iterator[SlurmCluster]:
    """Six nodes without accounting, with the hook that Berth ships."""
    require_slurm()
    yield from a_cluster(HOOK.read_text())


@dataclass
class World:
    """Slurm and Berth; nothing happens in Berth unless a test lets it."""

    slurm: SlurmCluster
    backend: SlurmBackend
    scheduler: SchedulingAgent

    def turn(self) -> None:
        """Let the backend and the scheduler work once."""
        self.backend.tick(time.monotonic())
        self.scheduler.work(for_s=1.0)

    def restart(self) -> None:
        """Replace the backend by a new process that knows nothing, after the old one has died."""
        BackendHolder.objects.update(held_until=database_now())
        self.backend = SlurmBackend(self.backend.slurm, "slurm-test-again", self.backend.options)
        self.backend.hold()

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        """Let Berth work until something is true, and return it."""

        def alive() -> str:
            slurm = self.slurm
            jobs = slurm.run("squeue", "-o", "%i %T %r %N %S")
            return f"{jobs} {slurm.states()} {slurm.log('slurmctld')}"

        return until(self.turn, holds, what, timeout_s=TIMEOUT_S, pause_s=0.05, also=alive)

    def submit(self, script: str = "sleep 300", *options: str) -> int:
        """Submit a script as a user does."""
        return self.slurm.sbatch(script, *options)

    def jobs(self) -> dict[int, SlurmJob]:
        """Return the jobs of Slurm by id."""
        return {job.id: job for job in self.backend.slurm.jobs()}

    def job(self, slurm_id: int) -> Job:
        """Return the newest job of Berth that is this one of Slurm."""
        return Job.objects.filter(slurm__slurm_id=slurm_id).latest("created_at")

    def until_state(self, slurm_id: int, *states: str) -> Job:
        """Let Berth work until a job is in one of the states."""

        def is_there() -> bool:
            found = Job.objects.filter(slurm__slurm_id=slurm_id).order_by("-created_at").first()
            return found is not None and found.state in states

        self.until(is_there, f"job {slurm_id} is {states}")
        return self.job(slurm_id)

    def node_of(self, job: Job) -> str:
        """Return the server of a job's live launch."""
        ((server, _),) = job.launches.exclude(state="ended").get().order["parts"]
        return Server.objects.get(pk=server).name


@pytest.fixture
def world(transactional_db: None, daemons: SlurmCluster, settings: Settings) -> Iterator[World]:
    """A Berth without servers before this Slurm."""
    yield from a_world(daemons, settings)


def a_world(
    daemons: SlurmCluster, settings: Settings, slurm: Slurm | None = None
) -> Iterator[World]:
    """Set up a Berth whose clock runs as the wall clock does; clears the Slurm afterwards."""
    settings.BERTH_RATES = {}
    ensure_project("default")
    start_clock(speed=1.0)
    slurm = slurm or Slurm(daemons.environment["SLURM_CONF"], daemons.environment["PATH"])
    backend = SlurmBackend(slurm, "slurm-test")
    backend.hold()
    found = World(daemons, backend, make_agent("scheduler-1"))
    yield found
    daemons.clear()
