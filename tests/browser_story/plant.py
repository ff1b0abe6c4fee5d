"""A small running cluster: an emulator, and workers started by the beat schedule."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from django.db import close_old_connections, connections

from apps.execution.backends.emulated.emulator import Emulator
from apps.execution.services import recovery
from apps.inventory.models import Cluster, Server
from apps.placement.core.problem.instance import Communication
from apps.placement.models import ContainerClass
from apps.placement.tasks import fronts, plans
from apps.scheduling.models import Allocation
from apps.scheduling.selectors import read_copy
from apps.scheduling.services import commit
from apps.workloads.models import Job
from tests import factories
from tests.execution.emulated_plane import ALWAYS
from tests.execution.migration_world import plane
from tests.placement.rebalancing_world import give_profile
from tests.scheduling.world import ME, build, claimed, proposal

SERVERS, CORES = 10, 4
JOBS = 10
START_S = 7200.0
SPEED = 60.0  # cluster seconds a second
FOREVER = 10**15  # bytes of input: nothing ends by itself
EASY = {
    "kind": "completion_time",
    "seconds": 1e10,
}  # no container is slowed down by its neighbours
EVERY_S = 0.2
_logger = logging.getLogger(__name__)


def lay_out() -> list[Job]:
    """Ten servers half full: each job has two containers, seven servers apart.

    Half the jobs are intense, and every third wishes to be in one rack: less power, less
    disturbance and less traffic are three different placements.
    """
    factories.cluster(seen_cluster_s=START_S)
    build(*(f"s{i}" for i in range(SERVERS)), cores=CORES)
    Cluster.objects.update(
        name="north-quay", wall_anchor_s=time.time(), cluster_anchor_s=START_S, speed=SPEED
    )
    jobs = []
    for i in range(JOBS):
        application = factories.application(f"app-{i}")
        give_profile(application)
        job = claimed(name=f"job-{i}", application=application, input_bytes=FOREVER, target=EASY)
        units = [CORES * i, CORES * ((i + 7) % SERVERS) + 1]
        commit([proposal(job, read_copy().topology, units)], agent=ME)
        jobs.append(job)
    return jobs


def classify() -> None:
    """Store the classes of the running containers."""
    for i, job in enumerate(Job.objects.order_by("name")):
        wish = Communication.RACK if i % 3 == 0 else Communication.CLUSTER
        for held in Allocation.objects.filter(job=job, released_seq=None):
            ContainerClass.objects.update_or_create(
                allocation_id=held.pk,
                defaults={
                    "job": job,
                    "read_s": START_S,
                    "intensity": 0.6 + 0.03 * i if i % 2 else 0.05 * i / JOBS,
                    "is_taz": bool(i % 2),
                    "communication": wish,
                },
            )


def held() -> list[tuple[str, str]]:
    """Pairs of job and server names, one for each allocation."""
    names = dict(Server.objects.values_list("id", "name"))
    live = Allocation.objects.filter(released_seq=None).select_related("job")
    return sorted((row.job.name, names[row.server_id]) for row in live)


@contextmanager
def at_work(*more: Callable[[], object]) -> Iterator[None]:
    """Run the emulator, the workers and more functions until the end.

    An error of a worker is logged at once and raised at the end.
    """
    stop, broken = Event(), list[BaseException]()
    emulator = Emulator(plane(), wall_s=time.time(), pace=ALWAYS)

    def carry_out() -> None:
        plans.process_plan_requests()
        plans.execute_plans()
        recovery.sweep()

    works = (lambda: emulator.tick(time.time()), carry_out, fronts.search_fronts, *more)
    threads = [Thread(target=_repeat, args=(work, stop, broken)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=60.0)
    assert not any(thread.is_alive() for thread in threads)
    if broken:
        raise broken[0]


def _repeat(work: Callable[[], object], stop: Event, broken: list[BaseException]) -> None:
    try:
        while not stop.wait(EVERY_S):
            close_old_connections()
            work()
    except BaseException as error:
        _logger.exception("a worker ended")
        broken.append(error)
    finally:
        connections.close_all()
