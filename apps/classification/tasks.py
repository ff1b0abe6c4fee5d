"""Learning the matrices anew, in the background."""

from celery import shared_task

from apps.classification.services import reclassify_if_due
from apps.classification.services.reclassification import TASK
from apps.common.poke import poked


@shared_task(name=TASK)
def reclassify() -> int | None:
    """Make the next revision where one is wanted or due; returns its number."""
    poked(TASK)
    return reclassify_if_due()
