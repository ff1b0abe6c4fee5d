"""Housekeeping of events, keys and operations; started by beat."""

from celery import shared_task

from apps.operations.services import prune, release_expired_operations


@shared_task(name="operations.prune")
def prune_history() -> None:
    """Delete events and keys older than the settings keep."""
    prune()


@shared_task(name="operations.sweep")
def sweep() -> None:
    """Give back operations whose worker went silent."""
    release_expired_operations()
