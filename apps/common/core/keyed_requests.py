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
    """SHA-256 of a decoded body, independent of key order, white space and 600 or 600.0."""
    canonical = json.dumps(_whole(body), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).digest()


def _whole(value: object) -> object:
    """Return a value with whole numbers as integers: JSON has one type of numbers."""
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
