"""Advisory locks of the placement app, held until the transaction ends."""

from enum import IntEnum

from django.db import connection


class AdvisoryLock(IntEnum):
    """Keys of advisory locks."""

    FRONT_QUEUE = 7111  # numbers of fronts, and the claim of a search
    ACTIVATION = 7112  # the weights in force


def acquire(lock: AdvisoryLock) -> None:
    """Wait for a lock; the end of the transaction releases it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [int(lock)])
