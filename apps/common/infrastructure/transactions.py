"""One more attempt for a transaction that PostgreSQL has rolled back in favour of another.

Transactions lock rows in one order (`locks`), so deadlocks should not happen. If one does, the
victim has changed nothing and runs again, and the attempt is counted for the metrics.
"""

import logging
import time
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from django.db import Error, OperationalError, connection

from apps.common.infrastructure.database import fetch_rows

_logger = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")

PAUSE_S: Final = 0.1
CONFLICTS: Final = {"40P01": "deadlock", "40001": "serialization failure"}  # by SQLSTATE


def retry_once(act: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a function that runs ``act`` again if it fails with one of `CONFLICTS`.

    It pauses first: the other transaction still waits for a lock of the victim, which the victim
    could otherwise take again before it. Inside a transaction it never runs again: only the
    caller that opened it can repeat it all.
    """

    @wraps(act)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return act(*args, **kwargs)
        except OperationalError as error:
            state = conflict_of(error)
            if state is None or connection.in_atomic_block:
                raise
            _logger.warning("%s, trying again: %s", CONFLICTS[state], error)
            _count(state)
        time.sleep(PAUSE_S)
        return act(*args, **kwargs)

    return run


def conflict_of(error: Error) -> str | None:
    """Return the SQLSTATE of an error if it is one of `CONFLICTS`."""
    state = getattr(error.__cause__, "sqlstate", None)
    return state if state in CONFLICTS else None


def _count(state: str) -> None:
    fetch_rows(
        """INSERT INTO common_transactionretry AS r (sqlstate, retries) VALUES (%s, 1)
           ON CONFLICT (sqlstate) DO UPDATE SET retries = r.retries + 1 RETURNING retries""",
        [state],
    )
