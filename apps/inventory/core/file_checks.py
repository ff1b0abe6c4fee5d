"""Checks of the fields of a cluster file; each adds to a list of problems and goes on."""

import math
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from apps.common.core.errors import FieldProblem

MOST_PROBLEMS: Final = 1024
MOST_NAME: Final = 63
MOST_LABELS: Final = 64
MOST_LABEL_VALUE: Final = 255
# as jobs write them when they ask for servers by label
_LABEL_KEY: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:/+-]*[A-Za-z0-9])?")


class Problems:
    """What is wrong with a file: the first `MOST_PROBLEMS`, and how many there are."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[FieldProblem] = []

    def add(self, pointer: str, code: str, detail: str) -> None:
        """Note one more."""
        self.count += 1
        if self.count <= MOST_PROBLEMS:
            self._first.append(FieldProblem(pointer, code, detail))

    def listed(self) -> list[FieldProblem]:
        """Return the first of them, and a last line that counts the rest."""
        rest = self.count - len(self._first)
        more = FieldProblem("", "more", f"and {rest:,} more problems")
        return [*self._first, more] if rest else list(self._first)


class _Short(reprlib.Repr):
    """A value in a few words, however large, deep or circular it is."""

    def repr_int(self, x: int, level: int) -> str:
        """Python refuses to write very large numbers out."""
        return (
            "a number of very many digits" if x.bit_length() > 200 else super().repr_int(x, level)
        )


_short = _Short()
_short.maxlevel, _short.maxlist, _short.maxdict = 2, 3, 3
_short.maxstring = _short.maxother = _short.maxlong = 70


def seen(value: Any) -> str:
    """Show a value in at most 80 characters of plain text."""
    text = _short.repr(value).encode("ascii", "backslashreplace").decode("ascii")
    return text if len(text) <= 80 else f"{text[:77]}..."


def pointer(at: str, key: Any) -> str:
    """JSON Pointer of a field (RFC 6901)."""
    name = key if isinstance(key, str) and len(key) <= MOST_NAME else seen(key)
    name = name.encode("unicode_escape").decode("ascii")
    return f"{at}/{name.replace('~', '~0').replace('/', '~1')}"


def rows_of(
    data: Mapping[Any, Any], key: str, problems: Problems
) -> list[tuple[str, Mapping[Any, Any]]]:
    """Return the objects of a list, each with its pointer."""
    rows = data.get(key)
    if not isinstance(rows, list) or not rows:
        message = f"expected a list of at least one of the {key}, got {seen(rows)}"
        problems.add(f"/{key}", "required", message)
        return []
    found = []
    for i, row in enumerate(rows):
        if isinstance(row, Mapping):
            found.append((f"/{key}/{i}", row))
        else:
            problems.add(f"/{key}/{i}", "type", f"expected an object, got {seen(row)}")
    return found


def check_fields(
    at: str, row: Mapping[Any, Any], fields: Sequence[str], problems: Problems
) -> None:
    """Find fields nobody would read, such as a misspelt one."""
    for key in row:
        if key not in fields:
            message = f"expected one of {', '.join(fields)}, got a field {seen(key)}"
            problems.add(pointer(at, key), "unknown", message)


def text_of(at: str, row: Mapping[Any, Any], key: str, problems: Problems) -> str:
    """Return a name; empty where it is none."""
    value = row.get(key)
    if isinstance(value, str) and is_plain(value) and 0 < len(value) <= MOST_NAME:
        return value
    hint = ""
    if isinstance(value, str) and len(value) > MOST_NAME:
        hint = f" ({len(value)} characters)"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        hint = " (a number; write it in quotes)"
    message = f"expected a text of 1 to {MOST_NAME} printable characters, got {seen(value)}{hint}"
    problems.add(f"{at}/{key}", "invalid", message)
    return ""


def is_plain(text: str) -> bool:
    """Tell whether a text can be shown and stored: no control characters, no spaces around."""
    return text.isprintable() and text == text.strip()


def number_of(
    at: str,
    row: Mapping[Any, Any],
    key: str,
    ends: tuple[float, float],
    problems: Problems,
    *,
    is_whole: bool = False,
) -> float:
    """Return a number within both ends; NaN, or the lower end of a whole one, where it is none."""
    value: Any = row.get(key)
    least, most = ends
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # a NaN lies within no ends, and what lies within them can be made whole
    if is_number and least <= value <= most and (not is_whole or value == int(value)):
        return value
    what = "whole number" if is_whole else "number"
    message = f"expected a {what} from {least:,.0f} to {most:,.0f}, got {seen(value)}"
    problems.add(f"{at}/{key}", "invalid", message)
    return least if is_whole else math.nan


def labels_of(at: str, value: Any, problems: Problems) -> dict[str, str]:
    """Return texts by name."""
    if not isinstance(value, Mapping):
        problems.add(at, "type", f"expected texts by name, got {seen(value)}")
        return {}
    if len(value) > MOST_LABELS:
        problems.add(at, "too_many", f"expected at most {MOST_LABELS} labels, got {len(value)}")
    for key, text in value.items():
        if not isinstance(key, str) or len(key) > MOST_NAME or not _LABEL_KEY.fullmatch(key):
            message = (
                f"expected a name of at most {MOST_NAME} characters (letters, digits and "
                f". _ : / + - inside), got {seen(key)}"
            )
            problems.add(pointer(at, key), "invalid", message)
        if not isinstance(text, str) or not is_plain(text) or len(text) > MOST_LABEL_VALUE:
            message = (
                f"expected a text of at most {MOST_LABEL_VALUE} printable characters, "
                f"got {seen(text)}"
            )
            problems.add(pointer(at, key), "invalid", message)
    return dict(value)
