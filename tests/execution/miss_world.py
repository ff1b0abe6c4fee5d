"""A job that falls below its target when a neighbour arrives, as rows."""

import math
from dataclasses import dataclass

import numpy as np

from apps.accounts.models import Project
from apps.common.core.interference import N_SOURCES, SOURCES
from apps.execution.models import JobSample
from apps.inventory.models import Server
from apps.workloads.models import Job
from tests import factories

BEGIN_S, DIP_S, NOW_S = 6000.0, 6600.0, 7200.0
STEP_S = 10.0
LOST = 0.25  # of the log speed
IPS = 1e9


@dataclass(frozen=True, slots=True)
class Missed:
    """The job, its neighbour, and the servers they are and are not on."""

    job: Job
    neighbour: Job
    here: Server
    empty: Server


def missed(*, project: Project | None = None, hidden: Project | None = None) -> Missed:
    """Store the job and its reports until now; ``hidden`` is the project of its neighbour."""
    factories.cluster(seen_cluster_s=NOW_S)
    platform = factories.platform("J", cores=11)
    here, empty = (factories.server(name, of=platform) for name in ("srv-0212", "srv-0317"))
    application = factories.application("search-leaf", kind="single_node")
    factories.profile(application)
    job = factories.job(
        "leaf-04",
        state="running",
        project=project,
        application=application,
        target={"kind": "ips", "ips": IPS},
        submitted_s=BEGIN_S - 20.0,
        placed_s=BEGIN_S - 10.0,
        started_s=BEGIN_S - 5.0,
        units=2,
        attempts=1,
        predicted={"value": 1.0e9, "low": 0.95e9, "high": 1.05e9},
    )
    neighbour = factories.job(
        "shuffle-88",
        state="running",
        project=hidden or project,
        submitted_s=DIP_S - 60.0,
        started_s=DIP_S - 5.0,
    )
    caused = [90.0 if source == "llc_bandwidth" else 0.0 for source in SOURCES]
    factories.allocation(job, here, cores=2, acquired_s=BEGIN_S - 10.0, caused=[0.0] * N_SOURCES)
    factories.allocation(neighbour, here, cores=8, acquired_s=DIP_S - 20.0, caused=caused)
    factories.launch(job, started_s=BEGIN_S - 5.0)
    _report(job)
    return Missed(job, neighbour, here, empty)


def _report(job: Job) -> None:
    rng = np.random.default_rng(4)
    samples = []
    for at_s in np.arange(BEGIN_S, NOW_S + 1.0, STEP_S):
        loss = LOST if at_s >= DIP_S else 0.0
        ratio = 1.08 * math.exp(-loss + 0.01 * rng.standard_normal())
        samples.append(
            JobSample(
                job=job,
                cluster_s=float(at_s),
                progress=0.5,
                performance=ratio * IPS,
                attainment=ratio,
                cpu_share=0.9,
                memory_rate=1e7 * math.exp(0.05 * rng.standard_normal()),
                network_wait=0.1,
                disk_wait=0.1,
            )
        )
    JobSample.objects.bulk_create(samples)
    last = samples[-1]
    job.performance, job.attainment, job.reason_code = (
        last.performance,
        last.attainment,
        ("BelowTarget"),
    )
    job.save(update_fields=["performance", "attainment", "reason_code"])
