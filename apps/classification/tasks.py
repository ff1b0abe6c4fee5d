"""Retrain the matrices in the background, and infer previews for waiting processes."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID, uuid4

from celery import current_app, shared_task
from celery.signals import worker_process_init
from kombu.exceptions import OperationalError

from apps.classification.core.inference import compile_kernels
from apps.classification.core.matrix import MatrixName
from apps.classification.services import InferredProfile, NewOverride, reclassify_if_due
from apps.classification.services.override_previews import WAIT_S, await_preview, store_preview
from apps.classification.services.reclassification import TASK
from apps.common.core.errors import TransientError
from apps.common.infrastructure.collector import spare_loaded_objects
from apps.common.infrastructure.notifications import acknowledge
from apps.common.infrastructure.warm_up import Kernels, warming_up
from apps.workloads.models import Application

QUEUE: Final = "default"


@worker_process_init.connect
def warm_up(**_: Any) -> None:
    """Load the compiled kernels before the first profile needs them, in workers that infer."""
    if QUEUE in current_app.amqp.queues.consume_from:
        with warming_up(Kernels.CLASSIFICATION):
            compile_kernels()
        spare_loaded_objects()


@shared_task(name=TASK)
def reclassify() -> int | None:
    """Create the next revision if one is requested or due; return its number."""
    acknowledge(TASK)
    return reclassify_if_due()


@shared_task(name="classification.draft")
def infer_preview(key: str, application_id: str, cells: list[tuple[str, str, float]]) -> None:
    """Infer a profile for a waiting process; see `services.override_previews`."""
    overrides = [NewOverride(MatrixName(matrix), column, value) for matrix, column, value in cells]
    store_preview(key, UUID(application_id), overrides)


def preview_by_worker(application: Application, cells: Sequence[NewOverride]) -> InferredProfile:
    """Have a worker infer the profile that overrides would give, and wait for it.

    Raises
    ------
    ConflictError : no matrix revision covers this cluster.
    TransientError : no worker answered in time, or the queue is down.
    """
    key = uuid4().hex
    values = [(cell.matrix.value, cell.column, cell.value) for cell in cells]
    try:
        infer_preview.apply_async((key, str(application.pk), values), queue=QUEUE, expires=WAIT_S)
    except (OperationalError, OSError) as error:
        raise TransientError("The task queue is not available.") from error
    return await_preview(key, application)
