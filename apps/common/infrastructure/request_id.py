"""The id of the request being served, for logs, events and problems."""

import re
from contextvars import ContextVar
from typing import Final

from apps.common.core.ids import uuid7

_CURRENT: ContextVar[str] = ContextVar("request_id", default="")
_ACCEPTED: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def current_request_id() -> str:
    """Return the id of the request this thread serves; empty outside of one."""
    return _CURRENT.get()


def choose_request_id(given: str, traceparent: str) -> str:
    """Return the caller's own id, or its W3C trace id, or a new one.

    An id that could break a log line or a column is replaced, not cut: half an id matches nothing.
    """
    if _ACCEPTED.fullmatch(given):
        return given
    trace = _TRACEPARENT.fullmatch(traceparent)
    return trace.group(1) if trace else str(uuid7())


def begin_request(request_id: str) -> None:
    """Remember the id for the rest of this request."""
    _CURRENT.set(request_id)


def end_request() -> None:
    """Forget it: the thread serves another request next."""
    _CURRENT.set("")
