"""Periodic tasks: retention of sessions and failed sign-ins."""

from celery import shared_task

from apps.accounts.services import prune_sign_ins


@shared_task(name="accounts.prune")
def prune() -> None:
    """Delete ended sessions and forgotten failures."""
    prune_sign_ins()
