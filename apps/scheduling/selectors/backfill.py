"""When waiting jobs may get reservations, by the settings."""

import math

from django.conf import settings

from apps.scheduling.core.reservations.modes import Backfill


def waits_before_reservation_s(units: int) -> float:
    """Return how many cluster seconds a job waits before it may get one; infinite: it never does.

    Parameters
    ----------
    units : units that it needs at once
    """
    if settings.BACKFILL == Backfill.CONSERVATIVE:
        return 0.0
    return settings.RESERVE_AFTER_S if units > 1 else math.inf
