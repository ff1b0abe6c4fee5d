"""Answers that a worker makes for a process that waits: left in the cache, picked up once.

For what needs more memory or time than a web process has: no row is written.
"""

import time
from typing import Any, Final

from django.core.cache import cache

from apps.common.core.errors import TransientError

KEPT_S: Final = 60
LOOK_S: Final = 0.01


def leave_answer(key: str, answer: Any) -> None:
    """Leave an answer, which is not None, where `await_answer` looks for it.

    Parameters
    ----------
    key : of this one question
    """
    cache.set(_name(key), answer, KEPT_S)


def await_answer(key: str, *, within_s: float) -> Any:
    """Wait for the answer to a question.

    Raises
    ------
    TransientError : nobody answered in time.
    """
    until = time.monotonic() + within_s
    while (found := cache.get(_name(key))) is None:
        if time.monotonic() > until:
            raise TransientError("No worker has answered in time.")
        time.sleep(LOOK_S)
    cache.delete(_name(key))
    return found


def _name(key: str) -> str:
    return f"common.answer.{key}"
