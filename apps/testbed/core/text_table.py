"""Validation of cells and rows of a text table."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np

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


class SkippedLines:
    """Malformed lines of a file: the first one is an error if ``strict``, else all are counted.

    Attributes
    ----------
    count : lines skipped
    first : the first `SHOWN` of them, with place and reason
    """

    SHOWN: Final = 20

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.count = 0
        self.first: list[TraceError] = []

    def skip(self, error: TraceError) -> None:
        """Count a line; raise its error if strict."""
        if self.strict:
            raise error
        self.count += 1
        if len(self.first) < self.SHOWN:
            self.first.append(error)

    def check(self, good: int) -> None:
        """Raise the first error if more lines are malformed than good."""
        if self.count > good:
            first = self.first[0]
            detail = f"{first.detail} ({self.count:,} malformed lines, {good:,} good ones)"
            raise TraceError(first.path, first.line, detail)


def read_columns(
    rows: Iterable[Line],
    cells_of: Callable[[int, str], Sequence[float]],
    width: int,
    skipped: SkippedLines,
) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    """(width, n) numbers, one column for each line that ``cells_of`` accepts.

    Holds 8 bytes a number, never the text of more than one line.
    """
    columns = tuple(array("d") for _ in range(width))
    for number, text in rows:
        try:
            cells = cells_of(number, text)
        except TraceError as error:
            skipped.skip(error)
            continue
        for values, value in zip(columns, cells, strict=True):
            values.append(value)
    if skipped.count:
        skipped.check(len(columns[0]))
    return np.array(columns).reshape(width, -1)
