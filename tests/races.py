"""Several connections at once, for tests that change rows between another's read and write."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, TypeVar

from django.db import connection, transaction
from django.db.models import Model
from psycopg.sql import SQL, Composed, Identifier

T = TypeVar("T")
PATIENCE_S = 20.0


def at_once(times: int, act: Callable[[], T]) -> list[T]:
    """Do something several times at the same moment, each on its own connection; the answers."""
    ready = Barrier(times)

    def run() -> T:
        try:
            ready.wait(PATIENCE_S)
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(times) as threads:
        under_way = [threads.submit(run) for _ in range(times)]
        return [one.result(PATIENCE_S) for one in under_way]


def meanwhile(act: Callable[[], T]) -> T:
    """Do something on a connection of its own, while the caller's transaction is open.

    Raises
    ------
    OperationalError : it waits for the caller.
    """

    def impatient() -> T:
        _rows(f"SET lock_timeout = '{PATIENCE_S / 2.0:.0f}s'")
        return act()

    return at_once(1, impatient)[0]


def wait_for_a_waiter() -> None:
    """Return once another transaction waits for a lock of this one."""
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        if _rows("SELECT pid FROM pg_locks WHERE NOT granted"):
            return
        time.sleep(0.01)
    raise AssertionError("nobody waits")


def lay_last(model: type[Model], key: Any) -> None:
    """Write a row anew until it lies behind all others of its table."""
    table = Identifier(model._meta.db_table)
    write = SQL("UPDATE {} SET id = id WHERE id = %s RETURNING ctid").format(table)
    last = SQL("SELECT max(ctid) FROM {}").format(table)
    for _ in range(100):
        if _rows(write, key) == _rows(last):
            return
    raise AssertionError(f"{key} does not move")


def assert_locks_in_order(model: type[Model], keys: Iterable[Any], act: Callable[[], T]) -> None:
    """Fail if something done to two rows locks the second id before the first.

    Its plans read tables as they lie, and in this one the second comes first.
    """

    def run() -> None:
        try:
            for way in ("nestloop", "mergejoin", "indexscan", "indexonlyscan", "bitmapscan"):
                _rows(f"SET enable_{way} = off")
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


def _rows(sql: str | Composed, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall() if cursor.description is not None else []
