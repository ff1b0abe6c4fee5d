"""Celery tasks that search fronts and solve for waiting web processes."""

from collections.abc import Mapping
from functools import lru_cache
from uuid import UUID, uuid4

from celery import shared_task
from kombu.exceptions import OperationalError

from apps.common.core.errors import TransientError
from apps.common.infrastructure.notifications import acknowledge
from apps.common.infrastructure.warm_up import Kernels, warming_up
from apps.operations.services.retention import run_retention
from apps.placement.core.rebalancing.cluster import to_instance
from apps.placement.selectors.cluster import read_cluster
from apps.placement.services.front.fronts import (
    QUEUE,
    TASK,
    Workload,
    prepare_search,
    search_next_front,
)
from apps.placement.services.preference.checks import (
    ANSWER_TIMEOUT_S,
    SolverAnswer,
    await_solver_answer,
    solve_and_store,
)
from apps.placement.services.retention import placement_kinds


@shared_task(name=TASK)
def search_fronts() -> str | None:
    """Search the oldest queued front unless a search runs; returns its id."""
    acknowledge(TASK)
    load_kernels()
    front_id = search_next_front(_read_workload)
    return None if front_id is None else str(front_id)


@lru_cache(maxsize=1)
def load_kernels() -> None:
    """Load the search kernels, compiling them after an installation; once per process."""
    with warming_up(Kernels.PLACEMENT):
        prepare_search()


def _read_workload(at_s: float | None) -> Workload:
    """Return the running containers as an instance."""
    cluster = read_cluster(at_s)
    return Workload(to_instance(cluster), cluster.at_s)


@shared_task(name="placement.prune")
def prune() -> None:
    """Delete expired container classes, fronts, front versions and plans."""
    run_retention(placement_kinds())


@shared_task(name="placement.check")
def solve_for_check(key: str, front_id: str, weights: dict[str, float]) -> None:
    """Solve the workload of a front; see `services.preference.checks`."""
    load_kernels()
    solve_and_store(key, UUID(front_id), weights)


def solve_on_worker(front_id: UUID, weights: Mapping[str, float]) -> SolverAnswer:
    """Solve the workload of a front on a worker, and wait for the answer.

    Raises
    ------
    TransientError : no worker answered in time, or the task queue is not available.
    """
    key = uuid4().hex
    try:
        solve_for_check.apply_async(
            (key, str(front_id), dict(weights)), queue=QUEUE, expires=ANSWER_TIMEOUT_S
        )
    except (OperationalError, OSError) as error:
        raise TransientError("The task queue is not available.") from error
    return await_solver_answer(key)
