"""Celery tasks that create and execute plans, run the loop, and search previews."""

import logging
from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

from celery import shared_task
from kombu.exceptions import OperationalError

from apps.common.core.errors import TransientError
from apps.common.infrastructure.notifications import acknowledge
from apps.inventory.selectors import cluster_now
from apps.placement.services import monitoring
from apps.placement.services.preference.activations import check_guard
from apps.placement.services.rebalancing import evaluation, executor, plan_requests, previews
from apps.placement.services.rebalancing import loop as loops
from apps.placement.services.rebalancing.planner import measure_effect
from apps.placement.services.rebalancing.plans import EXECUTE_TASK, PLAN_TASK
from apps.placement.services.rebalancing.rebasing import rebase_plans

_logger = logging.getLogger(__name__)
PREVIEW_QUEUE: Final = "placement"


@shared_task(name=PLAN_TASK)
def process_plan_requests() -> int:
    """Process plan requests; started by notifications and periodically by beat."""
    acknowledge(PLAN_TASK)
    return plan_requests.process_plan_requests()


@shared_task(name=EXECUTE_TASK)
def execute_plans() -> None:
    """Advance the plans under way, evaluate those that have ended, and re-base the others.

    The re-base comes last: one that fails does not stop the plans under way.
    """
    acknowledge(EXECUTE_TASK)
    for plan_id in executor.execute_plans():
        evaluation.evaluate_plan(plan_id, measure=measure_effect)
    rebase_plans()


@shared_task(name="placement.watch")
def monitor() -> None:
    """Refresh the container classes, and check the guard of the weights in force."""
    now_s = cluster_now()
    monitoring.refresh_classes(now_s)
    check_guard(now_s)


@shared_task(name="placement.loop")
def tick() -> None:
    """Run the tick of the rebalancing loop if one is due, with fresh container classes."""
    now_s = loops.claim_tick()
    if now_s is not None:
        monitoring.refresh_classes(now_s)
        loops.tick()


@shared_task(name="placement.preview")
def run_preview(
    preview_id: str, weights: Mapping[str, float], racks: Collection[str], limit_s: float
) -> None:
    """Search a preview; see `services.rebalancing.previews`."""
    try:
        previews.search_preview(UUID(preview_id), weights, racks, limit_s)
    except Exception:
        _logger.exception("preview %s failed", preview_id)
        message = "The search failed with an internal error; see the log."
        previews.fail_preview(UUID(preview_id), message)


def start_preview(
    by: UUID, weights: Mapping[str, float], racks: Collection[str], limit_s: float
) -> UUID:
    """Start a preview on a worker; returns its id.

    Raises
    ------
    TransientError : the task queue is not available.
    """
    preview_id = previews.open_preview(by)
    arguments = (str(preview_id), dict(weights), list(racks), limit_s)
    try:
        run_preview.apply_async(arguments, queue=PREVIEW_QUEUE, expires=previews.START_TIMEOUT_S)
    except (OperationalError, OSError) as error:
        previews.fail_preview(preview_id, "The task queue is not available.")
        raise TransientError("The task queue is not available.") from error
    return preview_id
