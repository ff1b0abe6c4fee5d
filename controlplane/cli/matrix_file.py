"""Read a CSV of measurements: a row per workload, a column per configuration.

Errors name the file, line, column and text, and what is accepted.
"""

import csv
import io
import math
import sys
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from controlplane.cli.errors import CliError, Exit

EMPTY: Final = frozenset({"", "nan", "na", "n/a", "null", "none", "-"})
OTHER_SEPARATORS: Final = {";": "semicolons", "\t": "tabs", "|": "bars"}
UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
MAX_SHOWN: Final = 40
_MAX_FIELD_BYTES: Final = 10_000_000


class MatrixTable(NamedTuple):
    """A matrix read from a file.

    Attributes
    ----------
    source : name of the file, for messages
    rows, columns : n and m names
    cells : n·m positive finite numbers row by row, NaN where empty
    """

    source: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: "array[float]"


def read_matrix(path: str) -> MatrixTable:
    """Read a CSV file; ``-`` is standard input. O(cells) time, 8 bytes per cell.

    Raises
    ------
    CliError : it cannot be read or is not a matrix of positive numbers.
    """
    source = "standard input" if path == "-" else path
    lines = _lines(_text(path, source), source)
    number, head = next(lines, (1, []))
    columns = _columns(source, number, head)
    line_of: dict[str, int] = {}
    cells = array("d")
    for number, line in lines:
        _check_row(source, number, line, columns, line_of)
        line_of[line[0]] = number
        cells.extend(_numbers(line[1:]) or _checked_numbers(source, number, line, columns))
    if not line_of:
        raise _not_a_matrix_error(source)
    return MatrixTable(source, tuple(line_of), columns, cells)


def _text(path: str, source: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise CliError(
            f"cannot read {source}", code=Exit.USAGE, detail=error.strerror or str(error)
        ) from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        kind = "UTF-16" if raw.startswith(UTF_16) else f"byte 0x{raw[error.start]:02x}"
        line = raw.count(b"\n", 0, error.start) + 1
        raise CliError(
            f"{source}, line {line}: {kind} is not UTF-8",
            detail="save the file as CSV in UTF-8",
        ) from error


def _lines(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the non-blank lines with the number of the line each starts on."""
    csv.field_size_limit(_MAX_FIELD_BYTES)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    number = 1
    try:
        for line in reader:
            if any(cell.strip() for cell in line):
                yield number, line
            number = reader.line_num + 1
    except csv.Error as error:
        raise CliError(
            f"{source}, line {number}: the quotation marks do not match",
            detail=f'{error}; put names with a comma in quotes, as in "a, b"',
        ) from error


def _columns(source: str, number: int, head: list[str]) -> tuple[str, ...]:
    """Return the names of the configurations, from the first line."""
    if not head:
        raise _not_a_matrix_error(source)
    if len(head) == 1:
        separators = [name for mark, name in OTHER_SEPARATORS.items() if mark in head[0]]
        if separators:
            raise CliError(
                f"{source}, line {number}: cells are separated by {separators[0]}, not by commas",
                detail="separate cells by commas and write numbers with a decimal point",
            )
        raise _not_a_matrix_error(source)
    names: dict[str, int] = {}
    for position, name in enumerate(head[1:], start=2):
        if not name.strip():
            raise CliError(
                f"{source}, line {number}: column {position} has no name",
                detail="name every configuration or remove the column",
            )
        if name in names:
            raise CliError(
                f"{source}, line {number}: columns {names[name]} and {position} "
                f"are both named {_quoted(name)}",
                detail="give every configuration a different name",
            )
        names[name] = position
    return tuple(names)


def _check_row(
    source: str, number: int, line: list[str], columns: Sequence[str], line_of: dict[str, int]
) -> None:
    name, count = line[0], len(line)
    if count != len(columns) + 1:
        raise CliError(
            f"{source}, line {number} has {count} cell{'' if count == 1 else 's'}",
            detail=f"the first line has {len(columns) + 1}; workload {_quoted(name)}; "
            "leave cells without a measurement empty",
        )
    if not name.strip():
        raise CliError(
            f"{source}, line {number}: the workload has no name",
            detail="the first cell of every line is the name of the workload",
        )
    if name in line_of:
        raise CliError(
            f"{source}, line {number}: workload {_quoted(name)} is already on line "
            f"{line_of[name]}",
            detail=f"give every row a different name, such as {_quoted(name + '/2')}",
        )


def _numbers(texts: list[str]) -> list[float] | None:
    """Read a valid line fast; return None if it needs `_checked_numbers`."""
    try:
        values = [float(text) if text else math.nan for text in texts]
    except ValueError:
        return None
    joined = "".join(texts)
    if not joined.isascii() or "_" in joined:
        return None
    return values if all(0.0 < v < math.inf or v != v for v in values) else None  # noqa: PLR0124


def _checked_numbers(
    source: str, number: int, line: list[str], columns: Sequence[str]
) -> list[float]:
    place = f"{source}, line {number}, row {_quoted(line[0])}"
    return [
        _checked(text, f"{place}, column {_quoted(column)}")
        for text, column in zip(line[1:], columns, strict=True)
    ]


def _checked(text: str, place: str) -> float:
    stripped = text.strip()
    if stripped.lower() in EMPTY:
        return math.nan
    try:
        value = float(stripped) if stripped.isascii() and "_" not in stripped else math.nan
    except ValueError:
        value = math.nan
    if 0.0 < value < math.inf:
        return value
    raise CliError(
        f"{place}: {_quoted(text)} is not a measurement", detail=_advice(stripped, value)
    )


def _advice(text: str, value: float) -> str:
    if math.isnan(value):
        example = text.replace(",", ".")
        hint = f", such as {example}" if "," in text and _is_number(example) else ""
        return f"write a plain number with a decimal point{hint}, or leave the cell empty"
    if value > 0:
        return "write a finite number, at most 1.7e308, or leave the cell empty"
    return "measurements must be positive; leave the cell of a failed run empty"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _quoted(text: str) -> str:
    cut = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
    return repr(cut)


def _not_a_matrix_error(source: str) -> CliError:
    return CliError(
        f"{source} does not contain a matrix",
        detail="the first line names the configurations, every other line is a workload",
    )
