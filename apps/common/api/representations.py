"""Representation of values in the API."""

from datetime import UTC, datetime


def time(value: datetime | None) -> str | None:
    """Return RFC 3339 in UTC with microseconds; None for None."""
    if value is None:
        return None
    return value.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
