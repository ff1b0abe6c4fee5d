"""Differences between a stored decision and its repetition, field by field."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple


class Difference(NamedTuple):
    """A field with its two values, as JSON."""

    field: str
    stored: Any
    now: Any


def differences(stored: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Return the fields whose values are not exactly equal, in their order; absent = None.

    Lists of equal length are compared item by item, and objects field by field.
    """
    found: list[Difference] = []
    for name in [*stored, *(name for name in now if name not in stored)]:
        _compare(name, stored.get(name), now.get(name), found)
    return tuple(found)


def _compare(name: str, stored: Any, now: Any, found: list[Difference]) -> None:
    if isinstance(stored, Mapping) and isinstance(now, Mapping):
        for key in [*stored, *(key for key in now if key not in stored)]:
            _compare(f"{name}.{key}", stored.get(key), now.get(key), found)
    elif isinstance(stored, list) and isinstance(now, list) and len(stored) == len(now):
        for place, (one, other) in enumerate(zip(stored, now, strict=True)):
            _compare(f"{name}[{place}]", one, other, found)
    elif stored != now:
        found.append(Difference(name, stored, now))


def as_stored(value: Any) -> Any:
    """Return a value as it is after it was stored as JSON."""
    return json.loads(json.dumps(value))
