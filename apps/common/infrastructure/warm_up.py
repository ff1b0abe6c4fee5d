"""Compile the kernels once per machine, and report it while it lasts.

numba compiles in every process that finds no machine code on disk. Workers that start together
would all compile the same kernels, for a minute and on every core. With the lock one process
compiles, and the others load what it has compiled.
"""

import fcntl
import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final

import redis
from django.conf import settings
from django.core.cache import cache

STALE_S: Final = 300  # of the report of a process that was killed; compiling takes about 60 s
_logger = logging.getLogger(__name__)


class Kernels(StrEnum):
    """Groups of kernels that are compiled together."""

    CLASSIFICATION = "classification"
    EMULATION = "emulation"
    SCHEDULING = "scheduling"
    PLACEMENT = "placement"


@contextmanager
def warming_up(kernels: Kernels) -> Iterator[None]:
    """Hold this machine's lock on compiling a group of kernels, and report the warm-up.

    Waits while another process compiles them; afterwards loading them takes a second.
    """
    with _lock_file(kernels).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _report(kernels, is_warming=True)
        try:
            yield
        finally:
            _report(kernels, is_warming=False)


def warming() -> tuple[Kernels, ...]:
    """Return the groups of kernels that some process is compiling now; none if Redis is down."""
    try:
        reported = cache.get_many([_key(kernels) for kernels in Kernels])
    except redis.RedisError as error:
        _logger.warning("the warm-ups were not read: %s", error)
        return ()
    return tuple(kernels for kernels in Kernels if _key(kernels) in reported)


def _report(kernels: Kernels, *, is_warming: bool) -> None:
    try:
        if is_warming:
            cache.set(_key(kernels), True, STALE_S)
        else:
            cache.delete(_key(kernels))
    except redis.RedisError as error:  # only a page shows it: compiling does not depend on it
        _logger.warning("the warm-up of %s was not reported: %s", kernels, error)


def _key(kernels: Kernels) -> str:
    return f"common.warm_up.{kernels}"


def _lock_file(kernels: Kernels) -> Path:
    """Return a path per user, installation and group: what shares a cache shares the lock.

    Containers share a directory for machine code (`NUMBA_CACHE_DIR`), but no `/tmp`.
    """
    installation = hashlib.blake2b(str(settings.BASE_DIR).encode(), digest_size=6).hexdigest()
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or tempfile.gettempdir())
    return folder / f"berth-{os.getuid()}-{installation}-{kernels}.lock"
