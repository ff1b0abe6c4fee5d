"""Requests that may be repeated, and the answers kept for them."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """What identifies a request that may be repeated."""

    principal_id: UUID
    route: str
    key: str
    body_digest: bytes


@dataclass(frozen=True, slots=True)
class KeyedAnswer:
    """What was answered, to be given again."""

    status: int
    location: str
    response: Any  # decoded JSON


def body_digest(body: object) -> bytes:
    """SHA-256 of the canonical form of a decoded body: key order and white space do not count."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).digest()
