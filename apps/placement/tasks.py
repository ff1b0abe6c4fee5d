"""Searching for fronts in the background."""

from celery import shared_task

from apps.common.poke import poked
from apps.placement.core.live import to_instance
from apps.placement.selectors.cluster import read_cluster
from apps.placement.services.fronts import (
    TASK,
    Workload,
    prepare_search,
    search_waiting,
)


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
