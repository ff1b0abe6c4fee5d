"""Cells and rows of a text table, checked as they are read."""

from collections.abc import Iterator
from typing import Final

from apps.testbed.core.traces import TraceError

LARGEST: Final = 1e18  # bytes, microseconds or ids beyond this mean a damaged file

Line = tuple[int, str]  # 1-based number, text without its end


def shorten(text: str) -> str:
    """Quote the text, at most 40 characters of it."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def number_in(text: str, column: str, path: str, line: int) -> float:
    """Read a finite number >= 0.

    Raises
    ------
    TraceError : names the column, what it holds, and what would be right.
    """
    try:
        value = float(text)
    except ValueError:
        raise TraceError(
            path, line, f"{column} is {shorten(text)}; expected a number >= 0"
        ) from None
    if not 0.0 <= value <= LARGEST:  # false for NaN too
        raise TraceError(
            path, line, f"{column} is {shorten(text)}; expected a number from 0 to {LARGEST:g}"
        )
    return value


def rows_after_header(
    first: Line, rest: Iterator[Line], *, header: str, separator: str
) -> Iterator[Line]:
    """Give all rows, without the first when its first cell is the header's."""
    if first[1].split(separator)[0].strip().lower() != header:
        yield first
    yield from rest
