"""Periodic tasks: retention, and expired leases of operations."""

from celery import shared_task

from apps.operations.services import release_expired_operations
from apps.operations.services.retention import operation_kinds, run_retention


@shared_task(name="operations.prune")
def prune_history() -> None:
    """Delete expired events, idempotency keys and operations."""
    run_retention(operation_kinds())


@shared_task(name="operations.sweep")
def sweep() -> None:
    """Requeue operations with an expired lease."""
    release_expired_operations()
