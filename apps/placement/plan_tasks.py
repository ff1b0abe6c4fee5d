"""Making plans, carrying them out, the online loop, and previews for who waits for them."""

import logging
from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

from celery import shared_task
from kombu.exceptions import OperationalError

from apps.common.core.errors import TransientError
from apps.common.poke import poked
from apps.inventory.selectors import cluster_now
from apps.placement.services import carrying, classes, making, previews, settling
from apps.placement.services import loop as loops
from apps.placement.services.activations import watch_guards
from apps.placement.services.plans import CARRY_TASK, TASK
from apps.placement.services.proposing import compare

_logger = logging.getLogger(__name__)
PREVIEW_QUEUE: Final = "placement"


@shared_task(name=TASK)
def make_plans() -> int:
    """Make the plans that were asked for; woken by pokes, and by beat for pokes that were lost."""
    poked(TASK)
    return making.make_plans()


@shared_task(name=CARRY_TASK)
def carry_out() -> None:
    """Look after the plans that are under way, and settle those whose moves have ended."""
    poked(CARRY_TASK)
    for plan_id in carrying.carry_out():
        settling.settle(plan_id, compare=compare)


@shared_task(name="placement.watch")
def watch() -> None:
    """Keep classes of containers up to date, and look whether the weights in force do harm."""
    now_s = cluster_now()
    classes.refresh(now_s)
    watch_guards(now_s)


@shared_task(name="placement.loop")
def loop() -> None:
    """Make a plan when it is time and one pays, of containers as they are now."""
    now_s = loops.claim_look()
    if now_s is not None:
        classes.refresh(now_s)
        loops.look()


@shared_task(name="placement.preview")
def preview(
    preview_id: str, weights: Mapping[str, float], racks: Collection[str], limit_s: float
) -> None:
    """Search what somebody waits for; see `services.previews`."""
    try:
        previews.search_preview(UUID(preview_id), weights, racks, limit_s)
    except Exception:
        _logger.exception("preview %s broke", preview_id)
        previews.fail_preview(UUID(preview_id), "The search broke; the log holds the rest.")


def preview_by_worker(
    by: UUID, weights: Mapping[str, float], racks: Collection[str], limit_s: float
) -> UUID:
    """Have a worker search a preview; its id.

    Raises
    ------
    TransientError : the workers cannot be asked.
    """
    preview_id = previews.open_preview(by)
    asked = (str(preview_id), dict(weights), list(racks), limit_s)
    try:
        preview.apply_async(asked, queue=PREVIEW_QUEUE, expires=previews.SOON_S)
    except (OperationalError, OSError) as error:
        previews.fail_preview(preview_id, "The workers cannot be asked now.")
        raise TransientError("The workers cannot be asked now.") from error
    return preview_id
