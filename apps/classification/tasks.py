"""Learning the matrices anew in the background, and drawing for processes that wait."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID, uuid4

from celery import shared_task
from kombu.exceptions import OperationalError

from apps.classification.core.matrix import MatrixName
from apps.classification.services import Drawn, NewOverride, reclassify_if_due
from apps.classification.services.drafts import WAIT_S, await_draft, leave_draft
from apps.classification.services.reclassification import TASK
from apps.common.core.errors import TransientError
from apps.common.poke import poked
from apps.workloads.models import Application

QUEUE: Final = "default"


@shared_task(name=TASK)
def reclassify() -> int | None:
    """Make the next revision where one is wanted or due; returns its number."""
    poked(TASK)
    return reclassify_if_due()


@shared_task(name="classification.draft")
def draft(key: str, application_id: str, cells: list[tuple[str, str, float]]) -> None:
    """Draw a profile that somebody waits for; see `services.drafts`."""
    overrides = [NewOverride(MatrixName(matrix), column, value) for matrix, column, value in cells]
    leave_draft(key, UUID(application_id), overrides)


def draft_by_worker(application: Application, cells: Sequence[NewOverride]) -> Drawn:
    """Have a worker draw the profile that corrections would give, and wait for it.

    Raises
    ------
    ConflictError : no profile can be drawn, there are no matrices that know this cluster.
    TransientError : no worker answered in time, or none can be asked.
    """
    key = uuid4().hex
    told = [(cell.matrix.value, cell.column, cell.value) for cell in cells]
    try:
        draft.apply_async((key, str(application.pk), told), queue=QUEUE, expires=WAIT_S)
    except (OperationalError, OSError) as error:
        raise TransientError("The workers cannot be asked now.") from error
    return await_draft(key, application)
