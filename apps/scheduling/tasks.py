"""The scheduling agent as a Celery task, started by notifications and periodically by beat."""

import os
import socket
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final
from uuid import UUID, uuid4

import numpy as np
from celery import Task, current_app, shared_task
from celery.signals import worker_process_init
from kombu.exceptions import OperationalError

from apps.common.core.errors import TransientError
from apps.common.infrastructure.notifications import acknowledge, notify
from apps.common.infrastructure.warm_up import Kernels, warming_up
from apps.common.infrastructure.worker_results import await_result, store_result
from apps.scheduling.core import fused
from apps.scheduling.selectors import ClusterFollower
from apps.scheduling.services.agent import SchedulingAgent, make_agent
from apps.scheduling.services.checkpoints import write_checkpoint
from apps.scheduling.services.counterfactuals import Changes, counterfactual
from apps.scheduling.services.flips import flips
from apps.scheduling.services.release import AGENT_QUEUE, AGENT_TASK
from apps.scheduling.services.replay import NotRepeatableError, replay
from apps.scheduling.services.start_estimates import update_start_estimates

TURN_S: Final = 20.0  # wall seconds; well below the broker's visibility timeout
LINGER_S: Final = 0.02
WORKERS: Final = "default"  # queue of tasks that a process waits for
WAIT_S: Final = 20.0  # wall seconds: after an installation the kernels are compiled first


@lru_cache(maxsize=1)
def _agent(process: int) -> SchedulingAgent:
    return make_agent(f"{socket.gethostname()[:40]}-{process}")


@shared_task(name=AGENT_TASK)
def agent() -> int:
    """Decide on waiting jobs until none is left; returns their number."""
    acknowledge(AGENT_TASK)
    until = time.monotonic() + TURN_S
    decided = 0
    worker = _agent(os.getpid())
    while new := worker.work(for_s=until - time.monotonic()):
        decided += new
        time.sleep(LINGER_S)  # under load, more jobs arrive: one task decides on many batches
    if time.monotonic() >= until:
        notify(AGENT_TASK, queue=AGENT_QUEUE)
    return decided


@lru_cache(maxsize=1)
def _cluster(process: int) -> ClusterFollower:
    return ClusterFollower()


@shared_task(name="scheduling.estimate_starts")
def estimate_starts() -> int:
    """Estimate when the waiting jobs start; returns the number of new estimates."""
    return update_start_estimates(_cluster(os.getpid()), np.random.default_rng())


@shared_task(name="scheduling.checkpoint")
def checkpoint() -> bool:
    """Store the cluster if a checkpoint is due; returns whether one was stored."""
    return write_checkpoint(_cluster(os.getpid()))


@shared_task(name="scheduling.replay")
def replay_decision(key: str, decision_id: str) -> None:
    """Repeat a decision for a waiting process."""
    store_result(key, replay(UUID(decision_id)).as_json())


@shared_task(name="scheduling.counterfactual")
def redecide(key: str, decision_id: str, changes: dict[str, Any]) -> None:
    """Decide again with changes, for a waiting process."""
    without = tuple(changes.pop("without"))
    _store(key, lambda: counterfactual(UUID(decision_id), Changes(**changes, without=without)))


@shared_task(name="scheduling.flips")
def find_flips(key: str, decision_id: str, server_id: int | None) -> None:
    """Find the changes with which a server is chosen, for a waiting process."""
    _store(key, lambda: flips(UUID(decision_id), server_id))


def _store(key: str, compute: Callable[[], dict[str, Any]]) -> None:
    try:
        result = compute()
    except NotRepeatableError as error:
        result = {"unavailable": str(error)}
    store_result(key, result)


def counterfactual_by_worker(decision_id: UUID, changes: dict[str, Any]) -> dict[str, Any]:
    """Have a worker decide again with changes, and wait; raises as `replay_by_worker`."""
    return _by_worker(redecide, str(decision_id), changes)


def flips_by_worker(decision_id: UUID, server_id: int | None) -> dict[str, Any]:
    """Have a worker find the flips of a decision, and wait; raises as `replay_by_worker`."""
    return _by_worker(find_flips, str(decision_id), server_id)


def replay_by_worker(decision_id: UUID) -> dict[str, Any]:
    """Have a worker repeat a decision, and wait for the result.

    Raises
    ------
    TransientError : no worker answered in time, or the queue is down.
    """
    return _by_worker(replay_decision, str(decision_id))


def _by_worker(task: "Task[Any, None]", *arguments: Any) -> dict[str, Any]:
    key = uuid4().hex
    try:
        task.apply_async((key, *arguments), queue=WORKERS, expires=WAIT_S)
    except (OperationalError, OSError) as error:
        raise TransientError("The task queue is not available.") from error
    result: dict[str, Any] = await_result(key, within_s=WAIT_S)
    return result


@worker_process_init.connect
def warm_up(**_: Any) -> None:
    """Load the compiled kernels before the first job needs them, in workers that run agents."""
    if AGENT_QUEUE in current_app.amqp.queues.consume_from:
        with warming_up(Kernels.SCHEDULING):
            fused.warm_up()
