"""Requests to workers to decide a stored decision again; the caller waits for the answer.

Workers have the compiled kernels, which the web process does not import.
"""

from typing import Any, Final
from uuid import UUID, uuid4

from celery import current_app
from kombu.exceptions import OperationalError

from apps.common.core.errors import TransientError
from apps.common.infrastructure.worker_results import await_result

REPLAY_TASK: Final = "scheduling.replay"
COUNTERFACTUAL_TASK: Final = "scheduling.counterfactual"
FLIPS_TASK: Final = "scheduling.flips"
WORKERS: Final = "default"  # queue of tasks that a process waits for
WAIT_S: Final = 20.0  # wall seconds: after an installation the kernels are compiled first


def replay_by_worker(decision_id: UUID) -> dict[str, Any]:
    """Have a worker repeat a decision, and wait for the result.

    Raises
    ------
    TransientError : no worker answered in time, or the queue is down.
    """
    return _by_worker(REPLAY_TASK, str(decision_id))


def counterfactual_by_worker(decision_id: UUID, changes: dict[str, Any]) -> dict[str, Any]:
    """Have a worker decide again with changes, and wait; raises as `replay_by_worker`."""
    return _by_worker(COUNTERFACTUAL_TASK, str(decision_id), changes)


def flips_by_worker(decision_id: UUID, server_id: int | None) -> dict[str, Any]:
    """Have a worker find the flips of a decision, and wait; raises as `replay_by_worker`."""
    return _by_worker(FLIPS_TASK, str(decision_id), server_id)


def _by_worker(task: str, *arguments: Any) -> dict[str, Any]:
    key = uuid4().hex
    request = current_app.signature(task, args=(key, *arguments))
    try:
        request.apply_async(queue=WORKERS, expires=WAIT_S)
    except (OperationalError, OSError) as error:
        raise TransientError("The task queue is not available.") from error
    result: dict[str, Any] = await_result(key, within_s=WAIT_S)
    return result
