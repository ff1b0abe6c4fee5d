"""When waiting jobs may get reservations, by the settings."""

import math

from django.conf import settings

from apps.scheduling.core.reservations.modes import Backfill


def waits_before_reservation_s(units: int, *, lacks_room: bool) -> float:
    """Return how many cluster seconds a job waits before it may get one; infinite: it never does.

    One unit is taken as soon as it is free, unless its server lacks memory, network or storage for
    it: smaller jobs could take whatever is given back.

    Parameters
    ----------
    units : units that it needs at once
    lacks_room : units are free, but not enough memory, network or storage
    """
    if settings.BACKFILL == Backfill.CONSERVATIVE:
        return 0.0
    return settings.RESERVE_AFTER_S if units > 1 or lacks_room else math.inf
