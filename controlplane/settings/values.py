"""Settings from environment variables, each with the range that is accepted."""

import math
import os
from collections.abc import Callable, Iterable
from typing import TypeVar

from django.core.exceptions import ImproperlyConfigured

_Value = TypeVar("_Value")


def number(name: str, default: float, *, low: float = 0.0, high: float = math.inf) -> float:
    """Return a number of an environment variable.

    Raises
    ------
    ImproperlyConfigured : names the variable, its value and the range.
    """
    return _ranged(name, _parsed(name, default, "a number"), low, high)


def whole(name: str, default: int, *, low: int = 0, high: float = math.inf) -> int:
    """Return an integer of an environment variable; raises what `number` raises."""
    value = _parsed(name, default, "an integer")
    if not value.is_integer():
        raise ImproperlyConfigured(f"{name} must be an integer, not {os.environ[name]!r}")
    return int(_ranged(name, value, low, high))


def choice(name: str, default: str, accepted: Iterable[str]) -> str:
    """Return an accepted value of an environment variable; raises what `number` raises."""
    value, known = os.environ.get(name, default), tuple(accepted)
    if value not in known:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(known)}, not {value!r}")
    return value


def flag(name: str, *, default: bool) -> bool:
    """Return whether an environment variable is 1, not 0; raises what `number` raises."""
    return choice(name, str(int(default)), ("0", "1")) == "1"


def parsed(name: str, default: str, parse: Callable[[str], _Value], accepted: str) -> _Value:
    """Return what ``parse`` makes of an environment variable; raises what `number` raises.

    Parameters
    ----------
    parse : raises ValueError for a value that is not accepted
    accepted : what is, to complete "must be"
    """
    text = os.environ.get(name, default)
    try:
        return parse(text)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must be {accepted}, not {text!r}: {error}") from error


def _parsed(name: str, default: float, kind: str) -> float:
    text = os.environ.get(name)
    if text is None:
        return float(default)
    try:
        value = float(text)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be {kind}, not {text!r}") from None
    if not math.isfinite(value):
        raise ImproperlyConfigured(f"{name} must be {kind}, not {text!r}")
    return value


def _ranged(name: str, value: float, low: float, high: float) -> float:
    if not low <= value <= high:
        accepted = f"at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
        raise ImproperlyConfigured(f"{name} must be {accepted}, not {value:g}")
    return value
