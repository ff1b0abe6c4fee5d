"""Tickets for the event stream: a browser's EventSource cannot send a header.

A ticket stands for the credential with which it was issued, so the stream has the same rights, and
ends when they end.
"""

import json
import secrets
from typing import Final
from uuid import UUID

import redis
from django.conf import settings

from apps.accounts.core.principal import Credential
from apps.common.api.problems import ProblemError
from apps.common.core.problem_codes import ProblemCode

LIFETIME_S: Final = 60


def issue_ticket(credential: Credential) -> str:
    """Return a ticket that stands for a credential once, within a minute.

    Raises
    ------
    ProblemError : the broker, which keeps the tickets, is unavailable.
    """
    ticket = secrets.token_urlsafe(32)
    token_id = None if credential.token_id is None else str(credential.token_id)
    try:
        with _broker() as client:
            client.set(_key(ticket), json.dumps([token_id, credential.session_key]), ex=LIFETIME_S)
    except redis.RedisError as error:
        raise _unavailable() from error
    return ticket


def redeem_ticket(ticket: str) -> Credential | None:
    """Return the credential of a ticket; None if it is forged, expired or used.

    Raises
    ------
    ProblemError : the broker, which keeps the tickets, is unavailable.
    """
    try:
        with _broker() as client:
            stored = client.getdel(_key(ticket))
    except redis.RedisError as error:
        raise _unavailable() from error
    if stored is None:
        return None
    token_id, session_key = json.loads(stored)
    return Credential(None if token_id is None else UUID(token_id), session_key)


def _broker() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2.0)


def _key(ticket: str) -> str:
    return f"berth:ticket:{ticket}"


def _unavailable() -> ProblemError:
    return ProblemError(
        ProblemCode.SERVICE_UNAVAILABLE,
        "Stream tickets are unavailable; follow /api/v1/changes/ instead.",
        headers={"Retry-After": "2"},
    )
