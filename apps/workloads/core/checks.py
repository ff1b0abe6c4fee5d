"""Checks of single JSON values: each returns the value, or appends a problem and returns None.

They run for every field of every job of a bulk request, so they allocate nothing for valid values.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from apps.common.core.errors import FieldProblem

Problems = list[FieldProblem]
Check = Callable[[object, str, Problems], Any]  # Any: each check returns its own type

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:/+-]*[A-Za-z0-9])?")
_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # PostgreSQL's jsonb cannot hold it
MAX_LABELS: Final = 64
MAX_LABEL_KEY: Final = 63
MAX_LABEL_VALUE: Final = 255
MAX_ANNOTATIONS_BYTES: Final = 16_384


def problem(pointer: str, code: str, detail: str) -> FieldProblem:
    """Return a problem with one field."""
    return FieldProblem(pointer=pointer, code=code, detail=detail)


def escape(name: str) -> str:
    """Escape a key as a JSON Pointer token (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def check_number(
    value: object, pointer: str, problems: Problems, low: float, high: float
) -> float | None:
    """Return a finite number within [low, high] as a float."""
    if type(value) is not float and type(value) is not int:  # bool is an int to isinstance
        problems.append(problem(pointer, "wrong_type", f"must be a number, not {value!r:.60}"))
        return None
    if low <= value <= high:
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        problems.append(problem(pointer, "not_finite", "must be a finite number"))
    else:
        code, word, limit = (
            ("too_low", "at least", low) if value < low else ("too_high", "at most", high)
        )
        problems.append(problem(pointer, code, f"must be {word} {limit:g}, not {value!r:.60}"))
    return None


def number(low: float, high: float) -> Check:
    """Make a check for a number within [low, high]; null means not given."""

    def check(value: object, pointer: str, problems: Problems) -> float | None:
        return None if value is None else check_number(value, pointer, problems, low, high)

    return check


def integer(low: int, high: int, *, null: bool = False) -> Check:
    """Make a check for a whole number within [low, high]."""

    def check(value: object, pointer: str, problems: Problems) -> int | None:
        if type(value) is int:
            if low <= value <= high:
                return value
            code, word, limit = (
                ("too_low", "at least", low) if value < low else ("too_high", "at most", high)
            )
            problems.append(
                problem(pointer, code, f"must be {word} {limit}, not {str(value)[:60]}")
            )
        elif value is not None or not null:
            problems.append(
                problem(pointer, "wrong_type", f"must be a whole number, not {value!r:.60}")
            )
        return None

    return check


def flag(value: object, pointer: str, problems: Problems) -> bool | None:
    """Check that a value is true or false."""
    if value is True or value is False:
        return value
    problems.append(problem(pointer, "wrong_type", f"must be true or false, not {value!r:.60}"))
    return None


def optional_flag(value: object, pointer: str, problems: Problems) -> bool | None:
    """Check that a value is true or false; null means not given."""
    return None if value is None else flag(value, pointer, problems)


def one_of(*allowed: str) -> Check:
    """Make a check for one of several values; null means not given."""
    known = frozenset(allowed)

    def check(value: object, pointer: str, problems: Problems) -> str | None:
        if value is None:
            return None
        if isinstance(value, str) and value in known:
            return value
        problems.append(
            problem(
                pointer,
                "unknown_value",
                f"must be one of {', '.join(allowed)} or null, not {value!r:.60}",
            )
        )
        return None

    return check


def name_of(noun: str, max_length: int, *, null: bool = False) -> Check:
    """Make a check for a name: letters, digits and (inside) ``._:/+-``."""

    def check(value: object, pointer: str, problems: Problems) -> str | None:
        if value is None and null:
            return None
        if not isinstance(value, str):
            problems.append(
                problem(
                    pointer, "wrong_type", f"must be the {noun} as a string, not {value!r:.60}"
                )
            )
        elif len(value) > max_length:
            problems.append(
                problem(pointer, "too_long", f"must have at most {max_length} characters")
            )
        elif _NAME.fullmatch(value) is None:
            problems.append(
                problem(
                    pointer,
                    "bad_characters",
                    f"may contain letters, digits and (inside) . _ : / + -, not {value!r:.60}",
                )
            )
        else:
            return value
        return None

    return check


def names(noun: str, max_entries: int) -> Check:
    """Make a check for a list of distinct names."""
    check_name = name_of(noun, 127)

    def check(value: object, pointer: str, problems: Problems) -> tuple[str, ...] | None:
        if not isinstance(value, list | tuple):
            problems.append(problem(pointer, "wrong_type", f"must be a list of {noun} names"))
            return None
        if len(value) > max_entries:
            problems.append(
                problem(pointer, "too_many", f"must have at most {max_entries} entries")
            )
            return None
        return tuple(
            dict.fromkeys(check_name(v, f"{pointer}/{i}", problems) for i, v in enumerate(value))
        )

    return check


def labels(value: object, pointer: str, problems: Problems) -> dict[str, str] | None:
    """Check labels: short strings by name."""
    if not isinstance(value, Mapping):
        problems.append(problem(pointer, "wrong_type", "must be an object of strings"))
        return None
    if len(value) > MAX_LABELS:
        problems.append(problem(pointer, "too_many", f"must have at most {MAX_LABELS} entries"))
        return None
    for key, text in value.items():
        _check_label(key, text, f"{pointer}/{escape(key)}", problems)
    return dict(value)


def _check_label(key: str, text: object, pointer: str, problems: Problems) -> None:
    if len(key) > MAX_LABEL_KEY or _NAME.fullmatch(key) is None:
        problems.append(
            problem(
                pointer,
                "bad_characters",
                "a label's name has up to 63 characters: letters, digits and (inside) . _ : / + -",
            )
        )
    if not isinstance(text, str):
        problems.append(problem(pointer, "wrong_type", f"must be a string, not {text!r:.60}"))
    elif len(text) > MAX_LABEL_VALUE:
        problems.append(
            problem(pointer, "too_long", f"must have at most {MAX_LABEL_VALUE} characters")
        )
    elif not text.isprintable():
        problems.append(problem(pointer, "bad_characters", "must be printable text"))


def annotations(value: object, pointer: str, problems: Problems) -> dict[str, Any] | None:
    """Check annotations: any JSON object of at most 16 KiB that PostgreSQL can store."""
    if not isinstance(value, Mapping):
        problems.append(problem(pointer, "wrong_type", "must be an object"))
        return None
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):  # NaN, infinity, a lone surrogate, excessive nesting
        problems.append(
            problem(pointer, "bad_characters", "must be plain JSON: finite numbers, valid text")
        )
        return None
    if len(text) > MAX_ANNOTATIONS_BYTES:
        problems.append(
            problem(pointer, "too_long", f"must take at most {MAX_ANNOTATIONS_BYTES} bytes")
        )
    elif b"\\u0000" in text and _NUL.search(text.decode()):
        problems.append(
            problem(pointer, "bad_characters", "must not contain the character U+0000")
        )
    else:
        return dict(value)
    return None
