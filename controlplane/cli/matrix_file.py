"""Reading a CSV of measurements: workloads down, configurations across.

Whatever cannot be read is told with its place: file, line, column, the text there, and what would
be right.
"""

import csv
import io
import math
import sys
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from controlplane.cli.errors import CliError

EMPTY: Final = frozenset({"", "nan", "na", "n/a", "null", "none", "-"})
OTHER_SEPARATORS: Final = {";": "semicolons", "\t": "tabs", "|": "bars"}
UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
LONGEST_SHOWN: Final = 40
_LARGEST_FIELD: Final = 10_000_000


class Table(NamedTuple):
    """A matrix as it was written.

    Attributes
    ----------
    source : the file, for messages
    rows, columns : n and m names
    cells : n·m positive finite numbers row by row, NaN where empty
    """

    source: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: "array[float]"


def read_matrix(path: str) -> Table:
    """Read the CSV of this path; ``-`` is standard input. O(cells) time, 8 bytes a cell.

    Raises
    ------
    CliError : it cannot be read, or is no matrix of positive numbers.
    """
    source = "standard input" if path == "-" else path
    lines = _lines(_text(path, source), source)
    number, head = next(lines, (1, []))
    columns = _columns(source, number, head)
    seen: dict[str, int] = {}
    cells = array("d")
    for number, line in lines:
        _check_row(source, number, line, columns, seen)
        seen[line[0]] = number
        cells.extend(_numbers(line[1:]) or _checked_numbers(source, number, line, columns))
    if not seen:
        raise _no_matrix(source)
    return Table(source, tuple(seen), columns, cells)


def _text(path: str, source: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise CliError(f"cannot read {source}", detail=error.strerror or str(error)) from error
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
    """Lines that are not blank, with the number of the line each starts on."""
    csv.field_size_limit(_LARGEST_FIELD)
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
            detail=f'{error}; a name with a comma stands in quotes, as in "a, b"',
        ) from error


def _columns(source: str, number: int, head: list[str]) -> tuple[str, ...]:
    """Names of the configurations, from the first line."""
    if not head:
        raise _no_matrix(source)
    if len(head) == 1:
        found = [name for mark, name in OTHER_SEPARATORS.items() if mark in head[0]]
        if found:
            raise CliError(
                f"{source}, line {number}: cells separated by {found[0]}, not by commas",
                detail="separate cells by commas and write numbers with a decimal point",
            )
        raise _no_matrix(source)
    names: dict[str, int] = {}
    for position, name in enumerate(head[1:], start=2):
        if not name.strip():
            raise CliError(
                f"{source}, line {number}: column {position} has no name",
                detail="name every configuration, or leave the column out",
            )
        if name in names:
            raise CliError(
                f"{source}, line {number}: columns {names[name]} and {position} "
                f"are both named {_shown(name)}",
                detail="give every configuration a name of its own",
            )
        names[name] = position
    return tuple(names)


def _check_row(
    source: str, number: int, line: list[str], columns: Sequence[str], seen: dict[str, int]
) -> None:
    name, count = line[0], len(line)
    if count != len(columns) + 1:
        raise CliError(
            f"{source}, line {number} has {count} cell{'' if count == 1 else 's'}",
            detail=f"the first line has {len(columns) + 1}; workload {_shown(name)}; "
            "what was not measured is an empty cell",
        )
    if not name.strip():
        raise CliError(
            f"{source}, line {number}: the workload has no name",
            detail="the first cell of every line names the workload",
        )
    if name in seen:
        raise CliError(
            f"{source}, line {number}: workload {_shown(name)} is on line {seen[name]} already",
            detail=f"give every row a name of its own, such as {_shown(name + '/2')}",
        )


def _numbers(texts: list[str]) -> list[float] | None:
    """Read a line without anything wrong in it, fast; None when it needs a closer look."""
    try:
        values = [float(text) if text else math.nan for text in texts]
    except ValueError:
        return None
    plain = "".join(texts)
    if not plain.isascii() or "_" in plain:
        return None
    return values if all(0.0 < v < math.inf or v != v for v in values) else None  # noqa: PLR0124


def _checked_numbers(
    source: str, number: int, line: list[str], columns: Sequence[str]
) -> list[float]:
    place = f"{source}, line {number}, row {_shown(line[0])}"
    return [
        _checked(text, f"{place}, column {_shown(column)}")
        for text, column in zip(line[1:], columns, strict=True)
    ]


def _checked(text: str, place: str) -> float:
    bare = text.strip()
    if bare.lower() in EMPTY:
        return math.nan
    try:
        value = float(bare) if bare.isascii() and "_" not in bare else math.nan
    except ValueError:
        value = math.nan
    if 0.0 < value < math.inf:
        return value
    raise CliError(f"{place}: {_shown(text)} is no measurement", detail=_right(bare, value))


def _right(text: str, value: float) -> str:
    if math.isnan(value):
        example = text.replace(",", ".")
        hint = f", such as {example}" if "," in text and _is_number(example) else ""
        return f"write a plain number with a decimal point{hint}, or leave the cell empty"
    if value > 0:
        return "write a finite number, at most 1.7e308, or leave the cell empty"
    return "performance and runtimes are positive numbers; leave the cell of a failed run empty"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _shown(text: str) -> str:
    cut = text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"
    return repr(cut)


def _no_matrix(source: str) -> CliError:
    return CliError(
        f"{source} holds no matrix",
        detail="the first line names the configurations, every other line is one workload",
    )
