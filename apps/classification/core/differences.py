"""What one profile says otherwise than another, cell by cell."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

_SAME: Final = 1e-9  # relative: what goes through JSON or another order of sums


class Believed(NamedTuple):
    """One cell of a profile: its value, its 90 % interval and where it comes from."""

    value: float
    low: float
    high: float
    source: str


class CellChange(NamedTuple):
    """One cell of which two profiles say something else; ``before`` is None where it is new."""

    matrix: str
    column: str
    before: Believed | None
    after: Believed


def cell_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[CellChange]:
    """Compare the stored cells of two profiles, in the order of ``after``.

    Parameters
    ----------
    before, after : by matrix, lists as long as its columns (`selectors.cells_of`); empty = nothing
        was believed
    """
    known = {(matrix, column): cell for matrix, column, cell in _cells(before)}
    changes = [
        CellChange(matrix, column, known.get((matrix, column)), cell)
        for matrix, column, cell in _cells(after)
    ]
    return [change for change in changes if not _is_same(change.before, change.after)]


def _cells(cells: Mapping[str, Any]) -> Iterator[tuple[str, str, Believed]]:
    for matrix, part in cells.items():
        values = zip(part["value"], part["low"], part["high"], part["source"], strict=True)
        for column, cell in zip(part["columns"], values, strict=True):
            yield matrix, column, Believed(*cell)


def _is_same(before: Believed | None, after: Believed) -> bool:
    if before is None or before.source != after.source:
        return False
    pairs = zip(before[:3], after[:3], strict=True)
    return all(math.isclose(a, b, rel_tol=_SAME, abs_tol=_SAME) for a, b in pairs)
