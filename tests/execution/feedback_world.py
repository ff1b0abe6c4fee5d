"""One profiled application, and jobs of it that run or ran on known servers."""

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.classification.core.feedback import (
    NEIGHBOURS,
)
from apps.classification.models import Profile
from apps.execution.services.profiles import infer_profiles, record_measurements
from apps.inventory.models import Cluster, Server
from apps.profiling.models import ProfilingRun
from apps.profiling.services import request_runs
from apps.workloads.models import Application, Job
from tests import factories

PLATFORMS = ("cr1.8xlarge", "m1.large", "c1.medium")
UNMEASURED = PLATFORMS[2]
PLAN = {
    "runs": [
        {"platform": name, "servers": 1, "units": units, "sources": []}
        for name, units in ((PLATFORMS[0], 1), (PLATFORMS[0], 4), (PLATFORMS[1], 1))
    ]
}
BYTES = 10**12


@dataclass(frozen=True)
class World:
    """One profiled application, and a server of each platform."""

    about: Application
    servers: tuple[Server, ...]

    def ran(self, relative: float = 1.0, *, on: int = 1, **values: Any) -> Job:
        """A job that just ended after 1,000 s; at ``relative`` times the rate of its profile."""
        finished_s = now() - 1.0
        rate = relative * self.believed(on)
        ended = {
            "state": "succeeded",
            "input_bytes": int(rate * 1000.0),
            "finished_s": finished_s,
            "finished_at": timezone.now(),
        }
        begun_s = finished_s - 1000.0
        job = self._job(started_s=begun_s, **{**ended, **values})
        factories.allocation(
            job,
            self.servers[on],
            acquired_s=begun_s - 1.0,
            released_s=finished_s,
            released_seq=10**9,
        )
        return job

    def running(self, *, since_s: float) -> Job:
        """A job on one unit of a server."""
        job = self._job(state="running", input_bytes=BYTES, started_s=since_s)
        factories.allocation(job, self.servers[1], acquired_s=since_s - 1.0)
        return job

    def _job(self, **values: Any) -> Job:
        return factories.job(application=self.about, units=1, attempts=1, **values)

    def believed(self, on: int) -> float:
        """Predicted speed of one unit in isolation, from profiling alone."""
        first = Profile.objects.filter(application=self.about).earliest("number")
        cells = first.cells
        return float(
            NEIGHBOURS * cells["base_rate"]["value"][1] * cells["heterogeneity"]["value"][on]
        )


def now() -> float:
    return Cluster.objects.get().seen_cluster_s


def wall() -> Any:
    return timezone.now()


def later(seconds: float) -> None:
    factories.cluster(seen_cluster_s=now() + seconds)


def make_world() -> World:
    """An application without a measurement of one platform."""
    factories.cluster(seen_cluster_s=10_000.0)
    servers = [
        factories.server(of=factories.platform(name, cores=8, rank=rank))
        for rank, name in enumerate(PLATFORMS)
    ]
    factories.library(PLATFORMS)
    about = factories.application("sort")
    profiled(about)
    return World(about, tuple(servers))


def profiled(about: Application) -> None:
    with transaction.atomic():
        request_runs([about.id])
    measured(about)


def measured(about: Application) -> None:
    """Report the measurements of the open run and infer the profile."""
    run = ProfilingRun.objects.get(application=about, state="queued")
    run.plan, run.seed = PLAN, 7  # the same cells in every test
    cells = [cell for cell in factories.cells(about, run=run) if cell.column != UNMEASURED]
    with transaction.atomic():
        record_measurements(run.id, now(), cells)
    infer_profiles()
