"""Start a periodic task before its next scheduled run.

Work is stored in rows; a notification only says that there is some. A lost notification costs
time, not work: the periodic run finds the rows. Repeated notifications of a task are merged until
the task has acknowledged the first.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress

import redis
from celery import current_app
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError

_logger = logging.getLogger(__name__)
_MERGE_MS = 2_000


def notify(task: str, *, queue: str) -> None:
    """Send a task by name after the current transaction commits, unless one is pending."""
    transaction.on_commit(lambda: _send(task, queue))


def acknowledge(task: str) -> None:
    """Accept new notifications of a task; the task calls this before it reads any row."""
    broker().delete(_key(task))


def _send(task: str, queue: str) -> None:
    try:
        if broker().set(_key(task), 1, nx=True, px=_MERGE_MS):
            current_app.send_task(task, queue=queue, expires=30)
    except (redis.RedisError, OperationalError, OSError) as error:
        # The rows are committed and the periodic run finds them: an unreachable broker must not
        # fail the request.
        _logger.warning("notification of %s was lost: %s", task, error)


def _key(task: str) -> str:
    return f"notification:{task}"


def wake(channel: str, about: Collection[int] = ()) -> None:
    """Wake the processes that listen to a channel, after the current transaction commits.

    Parameters
    ----------
    about : wakes only those that wait for one of these; all if it is empty
    """
    message = ",".join(str(one) for one in sorted(about))
    transaction.on_commit(lambda: _publish(channel, message))


def concerns(message: str, about: int) -> bool:
    """Return True if a wake with this message is meant for those who wait for ``about``."""
    return not message or str(about) in message.split(",")


def _publish(channel: str, message: str) -> None:
    try:
        broker().publish(channel, message)
    except redis.RedisError as error:
        _logger.warning("nobody was woken on %s: %s", channel, error)


@contextmanager
def listening(channel: str, about: int) -> Iterator[Callable[[float], None]]:
    """Listen to a channel; the function it gives waits for a wake, at most some seconds.

    Look for work after entering, and after each wait: a wake in between is not missed. If the
    broker is away, only the seconds pass.
    """
    subscription = broker().pubsub()  # type: ignore[no-untyped-call]  # untyped in redis

    def wait(seconds: float) -> None:
        until = time.monotonic() + seconds
        try:
            while (left := until - time.monotonic()) > 0:
                message = subscription.get_message(timeout=left)
                if message is None or message["type"] != "message":
                    continue
                if concerns(message["data"].decode(), about):
                    return
        except redis.RedisError:
            time.sleep(max(0.0, until - time.monotonic()))

    with suppress(redis.RedisError):
        subscription.subscribe(channel)
    try:
        yield wait
    finally:
        with suppress(redis.RedisError):
            subscription.close()


_CLIENTS: dict[str, redis.Redis] = {}


def broker() -> redis.Redis:
    """Return a client of the broker, for short commands."""
    url = settings.REDIS_URL
    if url not in _CLIENTS:
        _CLIENTS[url] = redis.Redis.from_url(url, socket_timeout=2.0, socket_connect_timeout=2.0)
    return _CLIENTS[url]
