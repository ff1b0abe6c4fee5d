"""Validation of cells and rows of a text table."""

from collections.abc import Iterator
from typing import Final

from apps.testbed.core.traces import TraceError

LARGEST: Final = 1e18  # larger bytes, microseconds or ids indicate a damaged file

Line = tuple[int, str]  # 1-based number, text without line end


def shorten(text: str) -> str:
    """Quote a text, shortened to 40 characters."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def number_in(text: str, column: str, path: str, line: int) -> float:
    """Read a finite number >= 0.

    Raises
    ------
    TraceError : names the column, its value and the expected range.
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
    """Yield all rows, except the first if its first cell is the header."""
    if first[1].split(separator)[0].strip().lower() != header:
        yield first
    yield from rest
