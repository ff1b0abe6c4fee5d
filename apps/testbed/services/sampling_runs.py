"""The operation that measures the quality of sampling, at all sample sizes."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from django.db import transaction

from apps.operations.core.states import OperationStatus
from apps.operations.models import Operation
from apps.operations.services import (
    OperationLostError,
    advance_operation,
    claim_operation,
    finish_owned,
)
from apps.operations.services.operations import MAX_ATTEMPTS, owned_operation
from apps.scheduling.core.registry import make, sampling_policy
from apps.scheduling.selectors.default_policy import policy_in_use
from apps.testbed.core.sampling_quality import SamplingExperiment, measure
from apps.testbed.selectors.sampling_checks import SAMPLE_SIZES, open_sampling_check
from apps.testbed.services.sampling_checks import save_sampling_check

REPORT_S: Final = 1.0  # wall seconds between reports of progress; the lease is much longer
_logger = logging.getLogger(__name__)


class _StoppedError(Exception):
    """The operation was cancelled."""


def run_sampling_check(experiment: SamplingExperiment | None = None) -> bool:
    """Run the open measurement, if any; return whether it was completed.

    A measurement that a killed worker left continues with the sizes that are not stored yet.
    """
    waiting = open_sampling_check()
    operation = None if waiting is None else claim_operation(waiting.pk)
    if operation is None:
        return False
    try:
        return _work(operation, experiment or SamplingExperiment())
    except OperationLostError as error:
        _logger.warning("%s", error)
        return False


def _work(operation: Operation, experiment: SamplingExperiment) -> bool:
    if operation.arguments["attempt"] > MAX_ATTEMPTS:
        problem = {
            "title": "The measurement failed",
            "detail": f"{MAX_ATTEMPTS} workers ended during it.",
        }
        finish_owned(operation, status=OperationStatus.FAILED, problem=problem)
        return False
    try:
        for place, size in enumerate(SAMPLE_SIZES):
            if size not in operation.arguments.get("done", []):
                _measure(operation, replace(experiment, size=size), place)
    except _StoppedError:
        finish_owned(operation, status=OperationStatus.CANCELLED)
        return False
    finish_owned(operation, status=OperationStatus.SUCCEEDED, result={"sizes": SAMPLE_SIZES})
    return True


def _measure(operation: Operation, experiment: SamplingExperiment, place: int) -> None:
    """Measure one size, and store the result together with the fact that it is stored."""
    before = place * experiment.decisions
    message = f"R = {experiment.size}, {experiment.servers} emulated servers"
    report = _reporter(operation, before, message)
    quality = measure(experiment, make(sampling_policy(policy_in_use())), report)
    with transaction.atomic():
        owned = owned_operation(operation)
        save_sampling_check(quality)
        owned.arguments["done"] = [*owned.arguments.get("done", []), experiment.size]
        owned.save(update_fields=["arguments", "updated_at"])


def _reporter(operation: Operation, before: int, message: str) -> Callable[[int], None]:
    """Return a function that stores progress once a second and stops a cancelled operation."""
    reported_at = -REPORT_S

    def report(measured: int) -> None:
        nonlocal reported_at
        now = time.monotonic()
        if now - reported_at < REPORT_S:
            return
        reported_at = now
        if not advance_operation(operation, progress=before + measured, message=message):
            raise _StoppedError

    return report
