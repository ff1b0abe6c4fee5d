"""Messages that expire by the clock of the broker, as the clocks of hosts differ.

Celery turns the seconds for which a message is valid into a time of the sender's clock, and a
worker compares it with its own clock: if that is ahead, it would discard every message. Here,
the sender stamps the message with the time of the broker, and the worker asks the broker for the
time, unless the message is fresh by the clocks of both hosts.
"""

import time
from contextlib import suppress
from typing import Any, Final, Literal

import redis
from celery.worker.request import Request
from celery.worker.state import revoked

from apps.common.infrastructure.notifications import broker

SENT_S: Final = "sent_s"  # header: second of the broker's clock


def stamp(headers: dict[str, Any], **_: Any) -> None:
    """Add the time of the broker to the headers of a message that expires, before it is sent."""
    if headers["expires"] is None:
        return
    with suppress(redis.RedisError):  # it cannot be sent either; if it can, it does not expire
        headers[SENT_S] = _broker_s()


class ExpiringRequest(Request):
    """A message that a worker has received."""

    def maybe_expire(self) -> Literal[True] | None:
        """Revoke the message if it has expired; returns True if it has."""
        if self._is_valid():
            return None
        revoked.add(self.id)  # as Celery does
        return True

    def _is_valid(self) -> bool:
        sent_s = self.request_dict.get(SENT_S)
        if sent_s is None:
            return True
        valid_s = int(self.request_dict["properties"]["expiration"]) / 1000
        if 0.0 <= self.expires.timestamp() - time.time() <= valid_s:
            return True
        try:
            return _broker_s() - sent_s <= valid_s
        except redis.RedisError:
            return True  # as the next one may not arrive


def _broker_s() -> float:
    seconds, microseconds = broker().time()
    return float(seconds) + 1e-6 * float(microseconds)
