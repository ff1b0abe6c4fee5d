"""Periodic work of execution, started by beat."""

from celery import shared_task

from apps.common.poke import poked
from apps.execution import pruning, services
from apps.execution.feedback import give_feedback


@shared_task(name="execution.sweep")
def sweep() -> None:
    """Repair what stopped without saying so."""
    services.sweep()


@shared_task(name=services.CLASSIFY_TASK)
def classify() -> int:
    """Draw the profiles that are wanted; woken by pokes, and by beat for pokes that were lost."""
    poked(services.CLASSIFY_TASK)
    return services.draw_profiles()


@shared_task(name="execution.frame")
def frame() -> None:
    """Keep how the cluster looks, once each cluster minute."""
    services.keep_frame()


@shared_task(name="execution.prune")
def prune() -> None:
    """Delete frames, prediction errors, profiles and changes beyond what the settings keep."""
    pruning.prune()


@shared_task(name="execution.feedback")
def feedback() -> int:
    """Hold what jobs achieve against what was predicted, and learn from it."""
    return give_feedback()
