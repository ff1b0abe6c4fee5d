"""Advisory locks of PostgreSQL: one transaction or process at a time, without a row to lock."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum, unique

from apps.common.infrastructure.database import fetch_rows


@unique
class AdvisoryLock(IntEnum):
    """Keys of all advisory locks, except those of `log_numbers`.

    They are numbers below 2^48, those of the logs above.
    """

    JOB_COUNTS = 7103  # folds changes of the counts
    FEEDBACK = 7104  # observes jobs
    FRONT_QUEUE = 7111  # numbers of fronts, and the claim of a search
    ACTIVATION = 7112  # the weights in force
    START_ESTIMATES = 7113  # estimates the starts of waiting jobs
    FAIR_SHARE = 7114  # stores the shares of projects
    RESERVATIONS = 7115  # plans a reservation
    SHADOWS = 7116  # starts a shadow policy
    SAMPLING_CHECKS = 7117  # requests a measurement of the sampling
    MEASURED_PAIRS = 7118  # requests or deletes pairs
    LAB = 7119  # begins, claims or deletes comparisons


def acquire(lock: AdvisoryLock) -> None:
    """Wait for a lock; the end of the transaction releases it."""
    fetch_rows("SELECT pg_advisory_xact_lock(%s)", [int(lock)])


def try_acquire(lock: AdvisoryLock) -> bool:
    """Return whether the lock was free; the end of the transaction releases it."""
    ((is_ours,),) = fetch_rows("SELECT pg_try_advisory_xact_lock(%s)", [int(lock)])
    return bool(is_ours)


@contextmanager
def held_if_free(lock: AdvisoryLock) -> Iterator[bool]:
    """Hold a lock over several transactions if it is free; yields whether it was.

    It ends with the connection at the latest.
    """
    ((is_ours,),) = fetch_rows("SELECT pg_try_advisory_lock(%s)", [int(lock)])
    try:
        yield is_ours
    finally:
        if is_ours:
            fetch_rows("SELECT pg_advisory_unlock(%s)", [int(lock)])
