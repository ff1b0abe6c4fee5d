"""Concurrent connections, for tests that change rows between a read and its write."""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any, TypeVar

from django.db import connection, transaction
from django.db.models import Model
from psycopg.sql import SQL, Composed, Identifier, Literal

T = TypeVar("T")
PATIENCE_S = 20.0

# A lock on a transaction names no database, and tests of other databases share the server.
# A transaction reads pg_stat_activity once, unless that snapshot is cleared.
_WAITERS = """
SELECT DISTINCT pid FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE NOT granted AND datname = current_database() AND backend_type = 'client backend'
"""


def at_once(times: int, act: Callable[[], T]) -> list[T]:
    """Call ``act`` concurrently, each time on a separate connection; return the results."""
    ready = Barrier(times)

    def run() -> T:
        try:
            ready.wait(PATIENCE_S)
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(times) as threads:
        under_way = [threads.submit(run) for _ in range(times)]
        return [future.result(PATIENCE_S) for future in under_way]


def meanwhile(act: Callable[[], T]) -> T:
    """Call ``act`` on a separate connection while the caller's transaction is open.

    Raises
    ------
    OperationalError : it waits for a lock of the caller.
    """

    def impatient() -> T:
        _execute(f"SET lock_timeout = '{PATIENCE_S / 2.0:.0f}s'")
        return act()

    return at_once(1, impatient)[0]


def wait_for_a_waiter(*, number: int = 1) -> None:
    """Return once other transactions of this database wait for locks."""
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        _execute("SELECT pg_stat_clear_snapshot()")
        if len(_execute(_WAITERS)) >= number:
            return
        time.sleep(0.01)
    raise AssertionError(f"fewer than {number} transactions wait for a lock")


@contextmanager
def in_background(*acts: Callable[[], object]) -> Iterator[None]:
    """Run each on its own connection; each must have ended without an error soon afterwards."""

    def run(act: Callable[[], object]) -> None:
        try:
            act()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as threads:
        under_way = [threads.submit(run, act) for act in acts]
        try:
            yield
        finally:
            for one in under_way:
                one.result(PATIENCE_S)


def lay_last(model: type[Model], key: Any) -> None:
    """Rewrite a table so that the tuple of a row is its last.

    Updates alone may not get there: PostgreSQL puts a new version on the page of the old one
    while it can prune that page.
    """
    table, index = Identifier(model._meta.db_table), Identifier("lay_last")
    _execute(SQL("CREATE INDEX {} ON {} ((id = {}))").format(index, table, Literal(key)))
    _execute(SQL("CLUSTER {} USING {}").format(table, index))
    _execute(SQL("DROP INDEX {}").format(index))
    own = SQL("SELECT ctid FROM {} WHERE id = %s").format(table)
    last = SQL("SELECT max(ctid) FROM {}").format(table)
    assert _execute(own, key) == _execute(last)


def assert_locks_in_order(model: type[Model], keys: Iterable[Any], act: Callable[[], T]) -> None:
    """Fail if ``act`` locks the second of two rows before the first.

    Its queries run as sequential scans, and the tuple of the second row comes first.
    """

    def run() -> None:
        try:
            for way in ("nestloop", "mergejoin", "indexscan", "indexonlyscan", "bitmapscan"):
                _execute(f"SET enable_{way} = off")
            act()
        finally:
            connection.close()

    first, second = sorted(keys)
    lay_last(model, first)
    rows = model._default_manager
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            rows.select_for_update().get(pk=first)
            under_way = threads.submit(run)
            wait_for_a_waiter()
            rows.select_for_update(nowait=True).get(pk=second)
        under_way.result(PATIENCE_S)


def _execute(sql: str | Composed, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall() if cursor.description is not None else []
