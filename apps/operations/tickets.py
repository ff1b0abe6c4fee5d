"""Passes to the event stream: a browser's EventSource cannot send a header."""

import secrets
from typing import Final
from uuid import UUID

import redis
from django.conf import settings
from django.core import signing

_SALT: Final = "berth.stream-ticket"
LIFETIME_S: Final = 60


def issue_ticket(user_id: UUID) -> str:
    """Return a pass that lets a user in once within a minute."""
    return signing.dumps([user_id.hex, secrets.token_urlsafe(9)], salt=_SALT)


def redeem_ticket(ticket: str) -> UUID | None:
    """Return whose pass it is; None where it is forged, too old, or was used before."""
    try:
        user_hex, nonce = signing.loads(ticket, salt=_SALT, max_age=LIFETIME_S)
    except signing.BadSignature:
        return None
    with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2.0) as client:
        is_first = client.set(f"berth:ticket:{nonce}", 1, nx=True, ex=2 * LIFETIME_S)
    return UUID(user_hex) if is_first else None
