"""Audit entries as lines of a file."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

COLUMNS: Final = (
    *("at", "id", "action", "via", "username", "user_id", "token_name", "token_id"),
    *("object_kind", "object_id", "object_name", "before", "after", "message"),
    *("request_id", "address"),
)
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def as_csv(entries: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Return the lines of a CSV file (RFC 4180) with a heading."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(COLUMNS)
    yield _drained(buffer)
    for entry in entries:
        writer.writerow([_cell(entry[column]) for column in COLUMNS])
        yield _drained(buffer)


def as_json_lines(entries: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Return one JSON object per line."""
    for entry in entries:
        yield json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"


def _drained(buffer: io.StringIO) -> str:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text


def _cell(value: Any) -> Any:
    """Return a cell that no spreadsheet evaluates as a formula."""
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
