"""Wake a periodic task early.

Work is a row; a poke only says that there is some. Pokes may be lost (a sweep finds the rows
anyway), doubled, and are merged: while one is on its way another adds nothing.
"""

import logging

import redis
from celery import current_app
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError

_logger = logging.getLogger(__name__)
_MERGE_MS = 2_000


def poke(task: str, *, queue: str) -> None:
    """Send a task by name once the current transaction has committed, unless one is on its way."""
    transaction.on_commit(lambda: _send(task, queue))


def poked(task: str) -> None:
    """Say, first thing in the task, that the poke has arrived: the next one is sent again."""
    _client().delete(_key(task))


def _send(task: str, queue: str) -> None:
    try:
        if _client().set(_key(task), 1, nx=True, px=_MERGE_MS):
            current_app.send_task(task, queue=queue, expires=30)
    except (redis.RedisError, OperationalError, OSError) as error:
        # The rows are committed and the sweep picks them up; a broker that is away must not fail
        # the request.
        _logger.warning("poke of %s was lost: %s", task, error)


def _key(task: str) -> str:
    return f"poke:{task}"


_CLIENTS: dict[str, redis.Redis] = {}


def _client() -> redis.Redis:
    url = settings.REDIS_URL
    if url not in _CLIENTS:
        _CLIENTS[url] = redis.Redis.from_url(url, socket_timeout=2.0, socket_connect_timeout=2.0)
    return _CLIENTS[url]
