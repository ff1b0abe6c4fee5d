"""The operation that runs a comparison: every setting with every seed, then the statistics."""

import logging
import time
from typing import Final

from django.conf import settings
from django.db import transaction
from django.db.models import F

from apps.common.core.errors import ConflictError, InvalidInputError
from apps.operations.core.states import OperationStatus
from apps.operations.models import Operation
from apps.operations.services import (
    MAX_ATTEMPTS,
    OperationLostError,
    advance_operation,
    claim_operation,
    finish_owned,
    owned_operation,
)
from apps.operations.services.leases import lease_kept
from apps.testbed.core.lab import LabPlan, LabSetting
from apps.testbed.core.lab_results import RunRecord, compared
from apps.testbed.core.lab_runs import run_setting
from apps.testbed.core.lab_sweeps import next_runs
from apps.testbed.core.replay.errors import ReplayCancelledError, ReplayError
from apps.testbed.core.replay.model import ReplayProgress
from apps.testbed.models import LabComparison, LabRun
from apps.testbed.selectors.lab import (
    is_comparison_running,
    rows_of,
    runs_of,
    runs_of_other_versions,
    waiting_comparison,
)
from apps.testbed.selectors.lab_plans import plan_of_comparison
from apps.testbed.services.lab_requests import lock_lab

Run = tuple[str, int]
REPORT_S: Final = 1.0  # wall seconds between reports of progress; the lease is much longer
_logger = logging.getLogger(__name__)


def run_open_comparison() -> bool:
    """Run the oldest waiting comparison unless one runs; return whether it was completed.

    One at a time, so that the other workers of the queue stay free for placement. A comparison
    that a killed worker left continues with the runs that are not stored yet. Runs of another
    version of Berth are made again.
    """
    claimed = _claimed()
    if claimed is None:
        return False
    comparison, operation = claimed
    try:
        with lease_kept(operation):
            return _work(comparison, operation)
    except OperationLostError as error:
        _logger.warning("%s", error)
        return False


def _claimed() -> tuple[LabComparison, Operation] | None:
    with transaction.atomic():
        lock_lab()
        comparison = None if is_comparison_running() else waiting_comparison()
        operation = None if comparison is None else claim_operation(comparison.operation_id)
    return None if comparison is None or operation is None else (comparison, operation)


def _work(comparison: LabComparison, operation: Operation) -> bool:
    try:
        _discard_other_versions(comparison, operation)
        rows = rows_of(comparison)
        _count_attempt(operation, len(rows))
        plan = plan_of_comparison(comparison)
        _run_all(comparison, operation, plan, rows)
        result = compared(plan, [run.record for run in runs_of(comparison.pk)])
    except ReplayCancelledError:
        finish_owned(operation, status=OperationStatus.CANCELLED)
        return False
    except (ReplayError, InvalidInputError, ConflictError, _WornOutError) as error:
        problem = {"title": "The comparison failed", "detail": str(error)}
        finish_owned(operation, status=OperationStatus.FAILED, problem=problem)
        return False
    with transaction.atomic():
        owned_operation(operation)
        LabComparison.objects.filter(pk=comparison.pk).update(result=result)
        finish_owned(
            operation,
            status=OperationStatus.SUCCEEDED,
            result={"comparison": str(comparison.pk), "verdict": result["verdict"]},
        )
    return True


def _discard_other_versions(comparison: LabComparison, operation: Operation) -> None:
    """Delete the runs of other versions, whose results this one might not repeat."""
    version = settings.BERTH_VERSION
    with transaction.atomic():
        owned_operation(operation)
        discarded = runs_of_other_versions(comparison).only("pk").delete()[0]
        if discarded or comparison.version != version:
            LabComparison.objects.filter(pk=comparison.pk).update(
                version=version, runs_discarded=F("runs_discarded") + discarded
            )


def _run_all(
    comparison: LabComparison, operation: Operation, plan: LabPlan, rows: dict[Run, RunRecord]
) -> None:
    """Run what is missing; a sweep decides after each round what comes next."""
    while (following := next_runs(plan, rows)).runs:
        _set_total(operation, following.total)
        for setting, seed in following.runs:
            record = _run(comparison, operation, plan, setting, seed, len(rows))
            rows[setting.name, seed] = record["row"]
    _set_total(operation, len(rows))


def _set_total(operation: Operation, total: int) -> None:
    """Store the number of runs, which a sweep lowers."""
    with transaction.atomic():
        owned = owned_operation(operation)
        if owned.total != total:
            owned.total = total
            owned.save(update_fields=["total", "updated_at"])


class _WornOutError(Exception):
    """Several workers ended without storing a run."""


def _count_attempt(operation: Operation, done: int) -> None:
    """Count the attempts since the last run was stored.

    Raises
    ------
    _WornOutError : several workers ended during the same run.
    """
    with transaction.atomic():
        owned = owned_operation(operation)
        before = owned.arguments.get("tried", {})
        times = before["times"] + 1 if before.get("done") == done else 1
        owned.arguments["tried"] = {"done": done, "times": times}
        owned.save(update_fields=["arguments", "updated_at"])
    if times > MAX_ATTEMPTS:
        raise _WornOutError(f"{MAX_ATTEMPTS} workers ended during it: {owned.message}.")


def _run(
    comparison: LabComparison,
    operation: Operation,
    plan: LabPlan,
    setting: LabSetting,
    seed: int,
    place: int,
) -> RunRecord:
    """Run a setting with a seed, and store the result together with the progress."""
    began = time.monotonic()
    watch = _Watch(operation, place, f"{setting.name}, seed {seed}")
    watch.report(None)
    record, performance = run_setting(plan, setting, seed, watch.report, watch.is_cancelled)
    with transaction.atomic():
        owned = owned_operation(operation)
        owned.arguments["tried"] = {"done": place + 1, "times": 1}
        owned.save(update_fields=["arguments", "updated_at"])
        LabRun.objects.create(
            comparison=comparison,
            setting=setting.name,
            seed=seed,
            record=record,
            performance=performance.tobytes(),
            wall_seconds=time.monotonic() - began,
            version=settings.BERTH_VERSION,
        )
    if not advance_operation(operation, progress=place + 1, message=watch.message):
        raise ReplayCancelledError("cancelled after a run")
    return record


class _Watch:
    """Stores progress once a second, and remembers whether the operation was cancelled."""

    def __init__(self, operation: Operation, place: int, message: str) -> None:
        self.message = message
        self._operation, self._place = operation, place
        self._reported_at = -REPORT_S
        self._is_cancelled = False

    def report(self, progress: ReplayProgress | None) -> None:
        """Store how far the run is."""
        now = time.monotonic()
        if now - self._reported_at < REPORT_S:
            return
        self._reported_at = now
        message = self.message
        if progress is not None and progress.jobs:
            message += f", {progress.jobs_ended:,} of {progress.jobs:,} jobs"
        going = advance_operation(self._operation, progress=self._place, message=message)
        self._is_cancelled = not going

    def is_cancelled(self) -> bool:
        """Whether a user cancelled the comparison."""
        return self._is_cancelled
