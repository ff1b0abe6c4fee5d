"""The scheduling agent as a Celery task, started by notifications and periodically by beat."""

import logging
import os
import socket
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

import numpy as np
from celery import current_app, shared_task
from celery.signals import worker_process_init
from django.conf import settings

from apps.common.infrastructure.collector import spare_loaded_objects
from apps.common.infrastructure.notifications import acknowledge, notify
from apps.common.infrastructure.warm_up import Kernels, warming_up
from apps.common.infrastructure.worker_results import store_result
from apps.scheduling.core.policy_errors import PolicyFailedError
from apps.scheduling.core.warm_up import compile_kernels
from apps.scheduling.selectors import ClusterFollower
from apps.scheduling.services.agent import SchedulingAgent, make_agent
from apps.scheduling.services.by_worker import COUNTERFACTUAL_TASK, FLIPS_TASK, REPLAY_TASK
from apps.scheduling.services.checkpoints import write_checkpoint
from apps.scheduling.services.counterfactuals import Changes, counterfactual
from apps.scheduling.services.fair_share import update_shares
from apps.scheduling.services.flips import flips
from apps.scheduling.services.release import AGENT_QUEUE, AGENT_TASK
from apps.scheduling.services.repeats import NotRepeatableError
from apps.scheduling.services.replay import replay
from apps.scheduling.services.shadow_turns import ShadowWorker
from apps.scheduling.services.start_estimates import update_start_estimates

logger = logging.getLogger(__name__)

TURN_S: Final = 20.0  # wall seconds; well below the broker's visibility timeout
LINGER_S: Final = 0.008


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


@shared_task(name="scheduling.fair_shares")
def fair_shares() -> int:
    """Store the decayed shares of the projects; returns their number, 0 without fair share."""
    return update_shares()


@shared_task(name="scheduling.checkpoint")
def checkpoint() -> bool:
    """Store the cluster if a checkpoint is due; returns whether one was stored."""
    return write_checkpoint(_cluster(os.getpid()))


@lru_cache(maxsize=1)
def _shadows(process: int) -> ShadowWorker:
    return ShadowWorker()


@shared_task(name="scheduling.shadow")
def shadow() -> int:
    """Let the shadows decide on new decisions; returns on how many."""
    budget_s = settings.SHADOW_CPU * settings.CELERY_BEAT_SCHEDULE["scheduling.shadow"]["schedule"]
    return _shadows(os.getpid()).turn(budget_s=budget_s)


@shared_task(name=REPLAY_TASK)
def replay_decision(key: str, decision_id: str) -> None:
    """Repeat a decision for a waiting process."""
    store_result(key, replay(UUID(decision_id)).as_json())


@shared_task(name=COUNTERFACTUAL_TASK)
def redecide(key: str, decision_id: str, changes: dict[str, Any]) -> None:
    """Decide again with changes, for a waiting process."""
    without = tuple(changes.pop("without"))
    _store(key, lambda: counterfactual(UUID(decision_id), Changes(**changes, without=without)))


@shared_task(name=FLIPS_TASK)
def find_flips(key: str, decision_id: str, server_id: int | None) -> None:
    """Find the changes with which a server is chosen, for a waiting process."""
    _store(key, lambda: flips(UUID(decision_id), server_id))


def _store(key: str, compute: Callable[[], dict[str, Any]]) -> None:
    try:
        result = compute()
    except NotRepeatableError as error:
        result = {"unavailable": str(error)}
    except PolicyFailedError as error:
        logger.exception("a decision cannot be made again")
        result = {"failed": str(error)}
    store_result(key, result)


@worker_process_init.connect
def warm_up(**_: Any) -> None:
    """Load the compiled kernels before the first job needs them, in workers that run agents."""
    if AGENT_QUEUE in current_app.amqp.queues.consume_from:
        with warming_up(Kernels.SCHEDULING):
            compile_kernels()
        spare_loaded_objects()
