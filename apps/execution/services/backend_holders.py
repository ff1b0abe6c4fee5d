"""Who runs a backend: one process at a time, which renews its lease, and the launches it runs.

A process that has lost the backend, for example because it was paused, may not know it. Its token
is then out of date, so its claims and reports are refused. All times are those of the database.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from django.db import transaction

from apps.common.core.errors import ControlPlaneError
from apps.common.infrastructure.database import fetch_rows
from apps.execution.services.locks import lock_live_launches

HOLD_S: Final = 40.0  # wall seconds; longer than the database outage that a backend survives


class BackendHeldError(ControlPlaneError):
    """Another process runs the backend, or may do so by now."""


# A process whose database session has ended is dead or disconnected: the next one need not wait.
_ACQUIRE: Final = """
INSERT INTO execution_backendholder AS h
    (backend, worker, token, held_until, session_pid, session_started)
SELECT %s, %s, 1, clock_timestamp() + make_interval(secs => %s), pid, backend_start
FROM pg_stat_activity WHERE pid = pg_backend_pid()
ON CONFLICT (backend) DO UPDATE SET worker = excluded.worker, token = h.token + 1,
    held_until = excluded.held_until, session_pid = excluded.session_pid,
    session_started = excluded.session_started
WHERE h.held_until < clock_timestamp() OR NOT EXISTS (
    SELECT FROM pg_stat_activity
    WHERE pid = h.session_pid AND backend_start = h.session_started)
RETURNING h.token
"""
_ADOPT: Final = """
UPDATE execution_launch
SET claimed_by = %s, claimed_until = clock_timestamp() + make_interval(secs => %s)
WHERE backend = %s AND state IN ('requested', 'running')
"""


def acquire_backend(backend: str, *, worker: str) -> int:
    """Make a process the only one that runs a backend; returns its token.

    It takes over the live launches of its predecessor.

    Raises
    ------
    BackendHeldError : another process holds the backend.
    """
    with transaction.atomic():
        rows = fetch_rows(_ACQUIRE, [backend, worker, HOLD_S])
        if not rows:
            raise BackendHeldError(f"another process runs the backend {backend}")
        lock_live_launches(backend)
        fetch_rows(f"{_ADOPT} RETURNING id", [worker, HOLD_S, backend])
    ((token,),) = rows
    return int(token)


_RENEW: Final = """
UPDATE execution_backendholder h
SET held_until = clock_timestamp() + make_interval(secs => %s),
    session_pid = s.pid, session_started = s.backend_start
FROM pg_stat_activity s
WHERE s.pid = pg_backend_pid() AND h.backend = %s AND h.token = %s
  AND h.held_until > clock_timestamp()
RETURNING h.token
"""
_RENEW_LAUNCHES: Final = """
UPDATE execution_launch SET claimed_until = clock_timestamp() + make_interval(secs => %s)
WHERE id = ANY(ARRAY(
    SELECT id FROM execution_launch
    WHERE id = ANY(%s) AND backend = %s AND state = 'running'
      AND claimed_until < clock_timestamp() + make_interval(secs => %s)
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED))
RETURNING id
"""


def renew_backend(backend: str, token: int, launches: Collection[int]) -> None:
    """Renew the leases of a backend and of the launches that its process runs.

    Raises
    ------
    BackendHeldError : the lease had expired, or another process has taken the backend over.
    """
    with transaction.atomic():
        if not fetch_rows(_RENEW, [HOLD_S, backend, token]):
            raise _lost(backend)
        fetch_rows(_RENEW_LAUNCHES, [HOLD_S, list(launches), backend, HOLD_S / 2.0])


@contextmanager
def as_holder(backend: str, token: int) -> Iterator[None]:
    """Open a transaction in which the backend cannot change hands.

    Raises
    ------
    BackendHeldError : the lease had expired, or another process has taken the backend over.
    """
    with transaction.atomic():
        rows = fetch_rows(
            """SELECT FROM execution_backendholder
               WHERE backend = %s AND token = %s AND held_until > clock_timestamp() FOR SHARE""",
            [backend, token],
        )
        if not rows:
            raise _lost(backend)
        yield


def _lost(backend: str) -> BackendHeldError:
    return BackendHeldError(f"this process no longer runs the backend {backend}")
