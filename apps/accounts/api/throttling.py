"""Rate limits per user, or agent, and class of request, counted in Redis in one-minute windows."""

import logging
import time
from dataclasses import dataclass
from typing import Any, Final

import redis
from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from apps.accounts.api.middleware import ADDRESS

_logger = logging.getLogger(__name__)
_WINDOW_S: Final = 60


@dataclass(frozen=True, slots=True)
class Rate:
    """Use of a rate limit in the current window."""

    policy: str
    limit: int
    used: int
    reset_s: int

    def headers(self) -> dict[str, str]:
        """RateLimit fields (IETF httpapi draft)."""
        left = max(0, self.limit - self.used)
        return {
            "RateLimit-Policy": f'"{self.policy}";q={self.limit};w={_WINDOW_S}',
            "RateLimit": f'"{self.policy}";r={left};t={self.reset_s}',
        }


class ClassThrottle(BaseThrottle):
    """Limits the requests of a user by rate class, with all tokens and sessions together.

    The class is the view's ``rate_class``; the default is submit for writes and read for reads.
    While Redis is unreachable there is no limit: refusing all requests would be worse.
    """

    _wait_s: float | None = None

    def allow_request(self, request: Request, view: Any) -> bool:
        """Count a request; False if the limit of the window is exceeded."""
        policy = getattr(view, "rate_class", None) or (
            "read" if request.method in {"GET", "HEAD", "OPTIONS"} else "submit"
        )
        limit = settings.BERTH_RATES.get(policy)
        if limit is None:
            return True
        now_s = time.time()
        used = _count(f"rate:{policy}:{_caller(request)}:{int(now_s) // _WINDOW_S}")
        reset_s = _WINDOW_S - int(now_s) % _WINDOW_S
        if used is None:
            return True
        request._request.META["BERTH_RATE"] = Rate(policy, limit, used, reset_s)
        self._wait_s = float(reset_s)
        return used <= limit

    def wait(self) -> float | None:
        """Return the seconds until the next window."""
        return self._wait_s


def _caller(request: Request) -> str:
    """Return the id of the user or agent, or the address of a caller who is not signed in."""
    return str(getattr(request.user, "pk", None) or request.META.get(ADDRESS))


_clients: dict[str, redis.Redis] = {}


def _count(key: str) -> int | None:
    client = _clients.get(settings.REDIS_URL)
    if client is None:
        client = _clients[settings.REDIS_URL] = redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=1.0, socket_connect_timeout=1.0
        )
    try:
        used = int(client.incr(f"berth:{key}"))
        if used == 1:
            client.expire(f"berth:{key}", 2 * _WINDOW_S)
    except redis.RedisError as error:
        _logger.warning("requests are not counted: %s", error)
        return None
    return used
