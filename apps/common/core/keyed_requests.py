"""Requests with an idempotency key, and their stored responses."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """Identity of a request with an idempotency key."""

    principal_id: UUID
    route: str
    key: str
    body_digest: bytes


@dataclass(frozen=True, slots=True)
class KeyedResponse:
    """A stored response, returned to repeats of the request."""

    status: int
    location: str
    response: Any  # decoded JSON


def body_digest(body: object) -> bytes:
    """SHA-256 of a decoded body in canonical form, independent of key order and white space."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).digest()
