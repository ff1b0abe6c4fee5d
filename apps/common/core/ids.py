"""Sortable ids."""

import os
import time
from uuid import UUID


def uuid7(*, at_ms: int | None = None) -> UUID:
    """Return a UUID of version 7: 48 bits of Unix milliseconds, then 74 random bits.

    Source: RFC 9562 §5.7. Python has ``uuid.uuid7`` from 3.14 on.
    """
    milliseconds = time.time_ns() // 1_000_000 if at_ms is None else at_ms
    value = (milliseconds & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)
