"""A running cluster of any size on which jobs end and others arrive all the time."""

import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from apps.inventory.core.snapshot import Snapshot
from apps.inventory.models import Cluster
from apps.placement.core.problem.instance import Communication
from apps.placement.models import ContainerClass
from apps.scheduling.models import Allocation
from apps.scheduling.selectors import read_copy
from apps.scheduling.services import commit
from apps.workloads.models import Application, Job
from apps.workloads.services.changes import cancel_jobs
from tests import factories
from tests.browser_story.plant import CORES, EASY, FOREVER, SPEED, START_S
from tests.placement.rebalancing_world import give_profile
from tests.scheduling.world import ME, build, claimed, proposal

SERVERS: Final = 600
HALF_LIFE_S: Final = 5.0 * 3600.0  # of jobs, in cluster time: that of the services of a replay
APPLICATIONS: Final = 12


def lay_out(rng: np.random.Generator) -> list[Application]:
    """Servers half full: each job has two containers of one unit on random servers."""
    factories.cluster(seen_cluster_s=START_S)
    build(*(f"s{i:03}" for i in range(SERVERS)), cores=CORES)
    Cluster.objects.update(
        name="north-quay", wall_anchor_s=time.time(), cluster_anchor_s=START_S, speed=SPEED
    )
    applications = [factories.application(f"app-{i}") for i in range(APPLICATIONS)]
    for application in applications:
        give_profile(application)
    arrive(applications, SERVERS, rng)
    return applications


def arrive(applications: list[Application], number: int, rng: np.random.Generator) -> None:
    """Submit and place jobs on random free units."""
    copy = read_copy()
    free = rng.permutation(free_units(copy.snapshot()))
    pairs = free[: 2 * (min(2 * number, free.size) // 2)].reshape(-1, 2)
    proposals, first_job = [], Job.objects.first()
    whose: dict[str, Any] = (
        {}
        if first_job is None
        else {"project": first_job.project, "created_by": first_job.created_by}
    )
    for first, second in pairs.tolist():
        kind = int(rng.integers(len(applications)))
        job = claimed(
            name=f"{applications[kind].name}-{factories.number()}",
            application=applications[kind],
            input_bytes=FOREVER,
            target=EASY,
            **whose,
        )
        proposals.append(proposal(job, copy.topology, sorted((first, second))))
    commit(proposals, agent=ME)
    classify(applications)


def free_units(snapshot: Snapshot) -> np.ndarray:
    """Indices of the units that no job holds."""
    return np.flatnonzero(snapshot.unit_free)


def classify(applications: list[Application]) -> None:
    """Store the classes of the containers that have none; they depend on the application."""
    place = {application.pk: i for i, application in enumerate(applications)}
    known = ContainerClass.objects.values("allocation_id")
    live = Allocation.objects.filter(released_seq=None).exclude(pk__in=known)
    ContainerClass.objects.bulk_create(
        [
            ContainerClass(
                allocation_id=held.pk,
                job=held.job,
                read_s=START_S,
                intensity=0.6 + 0.03 * i if i % 2 else 0.04 * i / APPLICATIONS,
                is_taz=bool(i % 2),
                communication=Communication.RACK if i % 3 == 0 else Communication.CLUSTER,
            )
            for held in live.select_related("job")
            for i in [place[held.job.application_id]]
        ],
        ignore_conflicts=True,
    )


def turnover(applications: list[Application], rng: np.random.Generator) -> Callable[[], None]:
    """Return a function that ends as many jobs as the time since its last call asks for.

    As many others arrive, so that the cluster stays half full.
    """
    last = [time.monotonic()]

    def turn_over() -> None:
        now = time.monotonic()
        elapsed_s, last[0] = SPEED * (now - last[0]), now
        running = list(
            Job.objects.filter(state="running", cancel_requested=False).values_list(
                "pk", flat=True
            )
        )
        share = 1.0 - 0.5 ** (elapsed_s / HALF_LIFE_S)
        ending = [pk for pk in running if rng.random() < share]
        if ending:
            cancel_jobs(ending)
        missing = SERVERS - len(running) + len(ending)
        starting = Job.objects.filter(state__in=["queued", "starting"]).count()
        if missing > starting:
            arrive(applications, missing - starting, rng)

    return turn_over
