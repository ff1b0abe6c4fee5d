"""Requests of the Lab: scenarios, comparisons, and their deletion."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import ProtectedError

from apps.accounts.services.audit import Act, record_act
from apps.common.core.errors import ConflictError
from apps.common.infrastructure.advisory_locks import AdvisoryLock, acquire
from apps.common.infrastructure.notifications import notify
from apps.common.infrastructure.request_id import current_request_id
from apps.operations.core.states import TERMINAL
from apps.operations.models import Operation
from apps.operations.services import operation_created, record_events
from apps.testbed.core.lab import LabSetting, halving_of
from apps.testbed.core.lab_estimates import run_bytes, run_seconds
from apps.testbed.models import LabComparison, LabRun, LabScenario
from apps.testbed.selectors.lab import KIND, comparison_by_id, open_comparisons, slowness
from apps.testbed.selectors.lab_plans import plan_for

TASK: Final = "testbed.lab"
QUEUE: Final = "placement"
MAX_OPEN: Final = 10
BATCH: Final = 100  # comparisons of one transaction; each has up to 400 runs


def lock_lab() -> None:
    """Wait until no other transaction begins, claims or deletes a comparison."""
    acquire(AdvisoryLock.LAB)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a comparison will take: runs, wall seconds on one core, bytes of memory."""

    runs: int
    seconds: float
    memory_bytes: int


def estimate(*, jobs: int, servers: int, settings_count: int, seeds: int) -> Estimate:
    """Estimate a comparison from the runs that this installation has measured."""
    runs = settings_count * seeds
    return Estimate(
        runs=runs,
        seconds=runs * run_seconds(jobs, servers) * slowness(),
        memory_bytes=run_bytes(jobs, servers),
    )


def begin_comparison(
    *, name: str, scenario: LabScenario, choices: Mapping[str, Any], by: UUID | None
) -> LabComparison:
    """Request a comparison; a worker starts it immediately, or after those before it.

    Parameters
    ----------
    choices : settings, seeds, baseline, bound, halving

    Raises
    ------
    InvalidInputError : see `plan_for`.
    ConflictError : too many comparisons wait, or the scenario was deleted.
    """
    plan = plan_for(scenario, choices)
    with transaction.atomic():
        _require_room()
        if not LabScenario.objects.filter(pk=scenario.pk).exists():
            raise ConflictError("The scenario was deleted.")
        operation = _operation(len(plan.runs), by)
        comparison = LabComparison.objects.create(
            name=name,
            scenario=scenario,
            grid=[_setting_json(setting) for setting in plan.settings],
            seeds=list(plan.seeds),
            baseline=plan.baseline,
            bound=plan.bound or "",
            halving=halving_of(plan.first_seeds).get("halving"),
            digest=plan.digest,
            version=settings.BERTH_VERSION,
            operation=operation,
            created_by_id=by,
        )
        after = {"scenario": scenario.name, "runs": len(plan.runs)}
        record_act(Act("comparison.requested", str(comparison.pk), name, after=after), by=by)
        record_events([operation_created(operation)])
        notify(TASK, queue=QUEUE)
    return comparison


def _require_room() -> None:
    lock_lab()
    if open_comparisons() >= MAX_OPEN:
        raise ConflictError(f"{MAX_OPEN} comparisons wait or run; cancel one or wait.")


def _operation(total: int, by: UUID | None) -> Operation:
    """Create the operation of a comparison; the caller records its event last."""
    return Operation.objects.create(
        kind=KIND, created_by_id=by, total=total, request_id=current_request_id()
    )


def _setting_json(setting: LabSetting) -> dict[str, Any]:
    return {"name": setting.name, "options": dict(setting.options)}


def resume_comparison(comparison_id: UUID, *, by: UUID | None) -> LabComparison:
    """Continue a cancelled or failed comparison with the runs that are not stored yet.

    The worker makes the runs of other versions of Berth again.

    Raises
    ------
    NotFoundError : there is none with this id.
    ConflictError : it waits, runs or is complete, or too many others wait.
    """
    with transaction.atomic():
        _require_room()
        comparison = comparison_by_id(comparison_id)
        if comparison.result is not None:
            raise ConflictError("The comparison is complete.")
        if comparison.operation.status not in TERMINAL:
            raise ConflictError(f"The comparison is already {comparison.operation.status}.")
        total = len(comparison.grid) * len(comparison.seeds)
        operation = _operation(total, by)
        LabComparison.objects.filter(pk=comparison_id).update(operation=operation)
        act = Act("comparison.resumed", str(comparison_id), comparison.name)
        record_act(act, by=by)
        record_events([operation_created(operation)])
        notify(TASK, queue=QUEUE)
    return comparison_by_id(comparison_id)


def delete_comparison(comparison_id: UUID) -> None:
    """Delete a comparison that has ended, with its runs.

    Raises
    ------
    NotFoundError : there is none with this id.
    ConflictError : it waits or runs.
    """
    with transaction.atomic():
        lock_lab()
        comparison = comparison_by_id(comparison_id)
        if comparison.operation.status not in TERMINAL:
            raise ConflictError(
                f"The comparison is {comparison.operation.status}; cancel it first."
            )
        before = {"scenario": comparison.scenario.name, "runs": comparison.runs.count()}
        _delete([comparison_id])
        record_act(Act("comparison.deleted", str(comparison_id), comparison.name, before))


def delete_scenario(scenario: LabScenario) -> None:
    """Delete a scenario without comparisons.

    Raises
    ------
    ConflictError : a comparison uses it.
    """
    with transaction.atomic():
        lock_lab()
        try:
            LabScenario.objects.filter(pk=scenario.pk).only("pk").delete()
        except ProtectedError as error:
            raise ConflictError(
                f"Comparisons use the scenario {scenario.name}; delete them first."
            ) from error
        before = {"jobs": scenario.jobs_total, "servers": scenario.servers}
        record_act(Act("scenario.deleted", str(scenario.pk), scenario.name, before))


def prune_comparisons(*, before: datetime | None) -> int:
    """Delete comparisons that ended before; returns their number. None: keep all."""
    if before is None:
        return 0
    with transaction.atomic():
        lock_lab()
        old = LabComparison.objects.filter(operation__finished_at__lt=before)
        return _delete(list(old.order_by("id").values_list("pk", flat=True)[:BATCH]))


def prune_scenarios(*, before: datetime | None) -> int:
    """Delete scenarios stored before that no comparison uses; returns their number."""
    if before is None:
        return 0
    with transaction.atomic():
        lock_lab()
        old = LabScenario.objects.filter(created_at__lt=before, comparisons=None)
        keys = list(old.order_by("id").values_list("pk", flat=True)[:BATCH])
        return LabScenario.objects.filter(pk__in=keys).only("pk").delete()[0]


def _delete(keys: list[UUID]) -> int:
    LabRun.objects.filter(comparison_id__in=keys).only("pk").delete()
    return LabComparison.objects.filter(pk__in=keys).only("pk").delete()[0]
