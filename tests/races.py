"""Two connections at once, for tests that change rows between another's read and write."""

from collections.abc import Callable
from threading import Thread
from typing import TypeVar

from django.db import connection

T = TypeVar("T")
PATIENCE_S = 10.0


def at_the_same_time(act: Callable[[], T]) -> T:
    """Do something on a connection of its own, while the caller's transaction is open."""
    answers: list[T] = []

    def run() -> None:
        try:
            answers.append(act())
        finally:
            connection.close()

    other = Thread(target=run, daemon=True)
    other.start()
    other.join(PATIENCE_S)
    assert answers, "the other connection gave no answer"
    return answers[0]
