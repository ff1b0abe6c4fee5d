"""What only one transaction does at a time."""

from enum import IntEnum

from django.db import connection


class Lock(IntEnum):
    """Advisory locks; `common.db.Log` holds 7101, the event log 7102."""

    FRONTS = 7111  # numbering, and which one is searched
    WEIGHTS = 7112  # which are in force
    PLANS = 7113


def hold(lock: Lock) -> None:
    """Wait for a lock and hold it until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [int(lock)])
