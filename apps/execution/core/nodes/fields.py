"""Checks of the fields of messages; each returns the value or says what is accepted."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

MAX_TEXT: Final = 256  # characters of a name, an order or a reason
MAX_ENTRIES: Final = 4096  # of a list: the orders of one node
MAX_INTEGER: Final = 2**53  # the largest integer that every JSON reader keeps exact

Check = Callable[[object], Any]


class FieldError(ValueError):
    """A value that a field does not accept; the text says what it accepts."""


def integer(low: int, high: int = MAX_INTEGER) -> Check:
    """Accept integers in a range."""

    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise FieldError(f"an integer from {low} to {high}")
        return value

    return check


def seconds(low: float, high: float) -> Check:
    """Accept a duration in a range."""

    def check(value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
            return float(value)
        raise FieldError(f"seconds from {low:g} to {high:g}")

    return check


def text(value: object) -> str:
    """Accept one line of printable characters."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT or not value.isprintable():
        raise FieldError(f"1 to {MAX_TEXT} printable characters")
    return value


def note(value: object) -> str:
    """Accept one line of printable characters, or none."""
    return "" if value == "" else text(value)


def texts(value: object) -> tuple[str, ...]:
    """Accept a list of texts."""
    if not isinstance(value, list | tuple) or len(value) > MAX_ENTRIES:
        raise FieldError(f"a list of at most {MAX_ENTRIES} texts")
    return tuple(text(entry) for entry in value)


def uses(value: object) -> tuple[tuple[str, int, int], ...]:
    """Accept a list of [order, cpu, memory]."""
    if not isinstance(value, list | tuple) or len(value) > MAX_ENTRIES:
        raise FieldError(f"a list of at most {MAX_ENTRIES} entries [order, cpu, memory]")
    return tuple(_use(entry) for entry in value)


def _use(entry: object) -> tuple[str, int, int]:
    if not isinstance(entry, list | tuple) or len(entry) != 3:
        raise FieldError("entries [order, cpu, memory]")
    amount = integer(0)
    return text(entry[0]), amount(entry[1]), amount(entry[2])


def payload(value: object) -> dict[str, Any]:
    """Accept any JSON object; what it means is up to the agent."""
    if not isinstance(value, dict):
        raise FieldError("an object")
    return value


def one_of(kind: type[StrEnum]) -> Check:
    """Accept a value of an enumeration."""
    members = {member.value: member for member in kind}

    def check(value: object) -> StrEnum:
        if isinstance(value, str) and value in members:
            return members[value]
        raise FieldError(f"one of {', '.join(members)}")

    return check
