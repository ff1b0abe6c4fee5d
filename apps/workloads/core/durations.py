"""Durations in words."""

from typing import Final

DAY_S: Final = 86_400
_UNITS: Final = ((DAY_S, "d"), (3600, "h"), (60, "min"), (1, "s"))


def in_two_units(seconds: int) -> str:
    """Return a duration of at least a minute in its two largest units, e.g. "2 min 41 s"."""
    at = next(i for i, (size, _) in enumerate(_UNITS) if seconds >= size)
    (size, name), (next_size, next_name) = _UNITS[at], _UNITS[at + 1]
    count, rest = divmod(seconds, size)
    small = rest // next_size
    return f"{count} {name} {small} {next_name}" if small else f"{count} {name}"
