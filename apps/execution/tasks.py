"""Periodic tasks of execution, started by beat."""

from celery import shared_task

from apps.common.infrastructure.notifications import acknowledge
from apps.execution.services import feedback as feedback_service
from apps.execution.services import (
    frames,
    profiles,
    proposed_preemptions,
    recovery,
    system_samples,
)
from apps.execution.services.retention import execution_kinds
from apps.operations.services.retention import run_retention


@shared_task(name="execution.sweep")
def sweep() -> None:
    """Repair launches, servers and runs whose process has died."""
    recovery.sweep()


@shared_task(name=profiles.CLASSIFY_TASK)
def classify() -> int:
    """Infer the requested profiles; started by notifications, and by beat if one was lost."""
    acknowledge(profiles.CLASSIFY_TASK)
    return profiles.infer_profiles()


@shared_task(name="execution.frame")
def frame() -> None:
    """Store a frame of the cluster if one is due."""
    frames.store_due_frame()


@shared_task(name="execution.sample_system")
def sample_system() -> None:
    """Store the state of queues, agents and event streams."""
    system_samples.sample_system()


@shared_task(name="execution.prune")
def prune() -> None:
    """Average samples, and delete jobs and other history beyond the limits in the settings."""
    run_retention(execution_kinds())


@shared_task(name="execution.feedback")
def feedback() -> int:
    """Compare the performance of running jobs with their predictions and update profiles."""
    return feedback_service.update_from_feedback()


@shared_task(name="execution.preempt")
def preempt() -> int:
    """Propose preemptions for waiting jobs of high priority, and apply them in automatic mode."""
    return proposed_preemptions.propose_preemptions()
