"""Checks of the fields of a cluster file; each adds its problems to a list and continues."""

import math
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from apps.common.core.errors import FieldProblem

MAX_PROBLEMS: Final = 1024
MAX_NAME: Final = 63
MAX_LABELS: Final = 64
MAX_LABEL_VALUE: Final = 255
# as in the label constraints of job specs
_LABEL_KEY: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:/+-]*[A-Za-z0-9])?")


class Problems:
    """Problems of a file: the first `MAX_PROBLEMS`, and their total number."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[FieldProblem] = []

    def add(self, pointer: str, code: str, detail: str) -> None:
        """Add a problem."""
        self.count += 1
        if self.count <= MAX_PROBLEMS:
            self._first.append(FieldProblem(pointer, code, detail))

    def listed(self) -> list[FieldProblem]:
        """Return the first problems, and a last entry with the number of the others."""
        rest = self.count - len(self._first)
        more = FieldProblem("", "more", f"and {rest:,} more problems")
        return [*self._first, more] if rest else list(self._first)


class _Short(reprlib.Repr):
    """Short representation of a value that may be large, deep or circular."""

    def repr_int(self, x: int, level: int) -> str:
        """Represent an integer; Python refuses to format very large ones."""
        return (
            "a number with too many digits" if x.bit_length() > 200 else super().repr_int(x, level)
        )


_short = _Short()
_short.maxlevel, _short.maxlist, _short.maxdict = 2, 3, 3
_short.maxstring = _short.maxother = _short.maxlong = 70


def shown(value: Any) -> str:
    """Show a value in at most 80 characters of plain text."""
    text = _short.repr(value).encode("ascii", "backslashreplace").decode("ascii")
    return text if len(text) <= 80 else f"{text[:77]}..."


def pointer(at: str, key: Any) -> str:
    """JSON Pointer of a field (RFC 6901)."""
    name = key if isinstance(key, str) and len(key) <= MAX_NAME else shown(key)
    name = name.encode("unicode_escape").decode("ascii")
    return f"{at}/{name.replace('~', '~0').replace('/', '~1')}"


def rows_of(
    data: Mapping[Any, Any], key: str, problems: Problems
) -> list[tuple[str, Mapping[Any, Any]]]:
    """Return the objects of a list, each with its pointer."""
    rows = data.get(key)
    if not isinstance(rows, list) or not rows:
        message = f"expected a non-empty list of {key}, got {shown(rows)}"
        problems.add(f"/{key}", "required", message)
        return []
    objects = []
    for i, row in enumerate(rows):
        if isinstance(row, Mapping):
            objects.append((f"/{key}/{i}", row))
        else:
            problems.add(f"/{key}/{i}", "type", f"expected an object, got {shown(row)}")
    return objects


def check_fields(
    at: str, row: Mapping[Any, Any], fields: Sequence[str], problems: Problems
) -> None:
    """Find unknown fields, such as misspelt ones."""
    for key in row:
        if key not in fields:
            message = f"expected one of {', '.join(fields)}, got a field {shown(key)}"
            problems.add(pointer(at, key), "unknown", message)


def text_of(at: str, row: Mapping[Any, Any], key: str, problems: Problems) -> str:
    """Return a name; empty if it is invalid."""
    value = row.get(key)
    if isinstance(value, str) and is_plain(value) and 0 < len(value) <= MAX_NAME:
        return value
    hint = ""
    if isinstance(value, str) and len(value) > MAX_NAME:
        hint = f" ({len(value)} characters)"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        hint = " (a number; write it in quotes)"
    message = f"expected a text of 1 to {MAX_NAME} printable characters, got {shown(value)}{hint}"
    problems.add(f"{at}/{key}", "invalid", message)
    return ""


def is_plain(text: str) -> bool:
    """Whether a text is printable: no control characters, no spaces at the ends."""
    return text.isprintable() and text == text.strip()


def number_of(
    at: str,
    row: Mapping[Any, Any],
    key: str,
    limits: tuple[float, float],
    problems: Problems,
    *,
    is_whole: bool = False,
) -> float:
    """Return a number within the limits; if invalid NaN, or the minimum of a whole number."""
    value: Any = row.get(key)
    minimum, maximum = limits
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # a NaN is within no limits; a number within them can be converted to int
    if is_number and minimum <= value <= maximum and (not is_whole or value == int(value)):
        return value
    expected = "whole number" if is_whole else "number"
    message = f"expected a {expected} from {minimum:,.0f} to {maximum:,.0f}, got {shown(value)}"
    problems.add(f"{at}/{key}", "invalid", message)
    return minimum if is_whole else math.nan


def labels_of(at: str, value: Any, problems: Problems) -> dict[str, str]:
    """Return the labels, values by name."""
    if not isinstance(value, Mapping):
        problems.add(
            at, "type", f"expected an object of label names and values, got {shown(value)}"
        )
        return {}
    if len(value) > MAX_LABELS:
        problems.add(at, "too_many", f"expected at most {MAX_LABELS} labels, got {len(value)}")
    for key, text in value.items():
        if not isinstance(key, str) or len(key) > MAX_NAME or not _LABEL_KEY.fullmatch(key):
            message = (
                f"expected a name of at most {MAX_NAME} characters (letters, digits and "
                f". _ : / + - inside), got {shown(key)}"
            )
            problems.add(pointer(at, key), "invalid", message)
        if not isinstance(text, str) or not is_plain(text) or len(text) > MAX_LABEL_VALUE:
            message = (
                f"expected a text of at most {MAX_LABEL_VALUE} printable characters, "
                f"got {shown(text)}"
            )
            problems.add(pointer(at, key), "invalid", message)
    return dict(value)
