"""Searching for fronts in the background, and solving for processes that wait."""

from collections.abc import Mapping
from uuid import UUID, uuid4

from celery import shared_task
from kombu.exceptions import OperationalError

from apps.common.core.errors import TransientError
from apps.common.poke import poked
from apps.placement.core.live import to_instance
from apps.placement.selectors.cluster import read_cluster
from apps.placement.services import classes
from apps.placement.services.checks import WAIT_S, Star, await_star, leave_star
from apps.placement.services.fronts import (
    QUEUE,
    TASK,
    Workload,
    prepare_search,
    prune_fronts,
    prune_versions,
    search_waiting,
)
from apps.placement.services.plans import prune_plans


@shared_task(name=TASK)
def search_fronts() -> str | None:
    """Search the front that waits longest, if none is searched; returns its id."""
    poked(TASK)
    prepare_search()
    found = search_waiting(_read)
    return None if found is None else str(found)


def _read(at_s: float | None) -> Workload:
    """Return what runs on the cluster."""
    cluster = read_cluster(at_s)
    return Workload(to_instance(cluster), cluster.at_s)


@shared_task(name="placement.prune")
def prune() -> None:
    """Forget containers long gone, old fronts and what led to them, plans come to nothing."""
    classes.prune()
    prune_fronts()
    prune_versions()
    prune_plans()


@shared_task(name="placement.check")
def check(key: str, front_id: str, weights: dict[str, float]) -> None:
    """Solve the workload of a front for somebody who waits; see `services.checks`."""
    leave_star(key, UUID(front_id), weights)


def star_by_worker(front_id: UUID, weights: Mapping[str, float]) -> Star:
    """Have a worker solve the workload of a front, and wait for it.

    Raises
    ------
    TransientError : no worker answered in time, or none can be asked.
    """
    key = uuid4().hex
    try:
        check.apply_async((key, str(front_id), dict(weights)), queue=QUEUE, expires=WAIT_S)
    except (OperationalError, OSError) as error:
        raise TransientError("The workers cannot be asked now.") from error
    return await_star(key)
