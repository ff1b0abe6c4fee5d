"""Values as the API writes them."""

from datetime import UTC, datetime


def time(value: datetime | None) -> str | None:
    """RFC 3339, UTC, microseconds; None stays."""
    if value is None:
        return None
    return value.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
