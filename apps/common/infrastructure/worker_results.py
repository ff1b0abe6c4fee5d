"""Results that a worker computes for a waiting process, passed through the cache.

For computations that need more memory or time than a web process has. They write no row.
"""

import time
from typing import Any, Final

from django.core.cache import cache

from apps.common.core.errors import TransientError

KEPT_S: Final = 60
POLL_S: Final = 0.01


def store_result(key: str, result: Any) -> None:
    """Store a result for `await_result`.

    Parameters
    ----------
    key : unique to the request
    result : not None
    """
    cache.set(_name(key), result, KEPT_S)


def await_result(key: str, *, within_s: float) -> Any:
    """Wait for a result and remove it from the cache.

    Raises
    ------
    TransientError : no worker stored a result in time.
    """
    until = time.monotonic() + within_s
    while (result := cache.get(_name(key))) is None:
        if time.monotonic() > until:
            raise TransientError("No worker has answered in time.")
        time.sleep(POLL_S)
    cache.delete(_name(key))
    return result


def _name(key: str) -> str:
    return f"common.worker_result.{key}"
