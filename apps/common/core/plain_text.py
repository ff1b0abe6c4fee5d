"""What PostgreSQL cannot store, and characters that would break a line of a log."""

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from apps.common.core.errors import FieldProblem

NUL: Final = "\x00"
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
# C0 and DEL. Not C1: the bytes of UTF-8 look like it in a header, which is read as Latin-1.
_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
# C0 without the tab, DEL, C1, and the separators at which str.splitlines ends a line.
_BREAKS_LINES: Final = {
    code: f"\\x{code:02x}" for code in (*range(9), *range(10, 32), *range(127, 160))
} | {code: f"\\u{code:04x}" for code in (0x2028, 0x2029)}


def one_line(text: str) -> str:
    """Return a text with its control characters escaped, so that it stays on one line."""
    return text.translate(_BREAKS_LINES)


def has_control_character(text: str) -> bool:
    """Return True if a text contains an ASCII control character."""
    return _CONTROL.search(text) is not None


def unstorable_character(text: str) -> str | None:
    """Return the first character that cannot be stored, e.g. "U+0000"; None if there is none.

    These are NUL, which PostgreSQL refuses, and lone surrogates, which have no encoding in UTF-8.
    """
    found = _UNSTORABLE.search(text)
    return f"U+{ord(found.group()):04X}" if found else None


def unstorable_fields(value: object, at: str = "") -> Iterator[FieldProblem]:
    """Yield a problem of each text or number in a decoded JSON value that cannot be stored.

    Parameters
    ----------
    at : JSON Pointer of the value
    """
    match value:
        case str():
            if (character := unstorable_character(value)) is not None:
                yield _problem(at, character)
        case float() if not math.isfinite(value):
            yield FieldProblem(at, "too_large", "must be a finite number")
        case int() if abs(value) > sys.float_info.max:
            yield FieldProblem(at, "too_large", "must have at most 308 digits")
        case Mapping():
            for name, inner in value.items():
                pointer = f"{at}/{_escaped(name)}"
                if (character := unstorable_character(name)) is not None:
                    yield _problem(pointer, character)
                yield from unstorable_fields(inner, pointer)
        case Sequence():
            for i, inner in enumerate(value):
                yield from unstorable_fields(inner, f"{at}/{i}")


def _problem(pointer: str, character: str) -> FieldProblem:
    detail = f"must not contain the character {character}"
    return FieldProblem(pointer, "invalid_character", detail)


def _escaped(name: str) -> str:
    """Return a name as part of a JSON Pointer; what cannot be stored is shown by its number."""
    pointer = name.replace("~", "~0").replace("/", "~1")
    return _UNSTORABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", pointer)
