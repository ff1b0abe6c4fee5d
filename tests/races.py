"""Several connections at once, for tests that change rows between another's read and write."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from django.db import connection

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
    """Do something on a connection of its own, while the caller's transaction is open."""
    return at_once(1, act)[0]
