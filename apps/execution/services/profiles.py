"""Profiles from measurements: store the cells of profiling runs and infer the missing ones."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from apps.classification import services as classification
from apps.common.infrastructure.notifications import notify
from apps.profiling import services as profiling
from apps.profiling.core.measurements import MeasuredCell
from apps.scheduling.services.release import AGENT_QUEUE, AGENT_TASK

CLASSIFY_TASK: Final = "execution.classify"
CLASSIFY_QUEUE: Final = "default"


def record_measurements(run: UUID, at_s: float, cells: Sequence[MeasuredCell]) -> None:
    """Store the cells of a profiling run and request a profile from them.

    Runs in the caller's transaction. A repeated report changes nothing.
    """
    application = profiling.record_measurements(run, at_s=at_s, cells=cells)
    if application is not None:
        classification.request_folds([application.id])
        notify(CLASSIFY_TASK, queue=CLASSIFY_QUEUE)


def infer_profiles() -> int:
    """Infer all requested profiles, and let their jobs continue; returns their number."""
    inferred = 0
    while new := classification.fold_pending():
        inferred += new
        notify(AGENT_TASK, queue=AGENT_QUEUE)
    return inferred
