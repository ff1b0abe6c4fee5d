"""Celery tasks of placement; importing the package registers all of them."""

from apps.placement.tasks import fronts, plans

__all__ = ["fronts", "plans"]
