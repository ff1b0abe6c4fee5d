"""Differences between two profiles, cell by cell."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

_SAME: Final = 1e-9  # relative: rounding by JSON or by the order of sums


class CellEstimate(NamedTuple):
    """One cell of a profile: value, 90 % interval and source."""

    value: float
    low: float
    high: float
    source: str


class CellChange(NamedTuple):
    """A cell that differs between two profiles; ``before`` is None for a new cell."""

    matrix: str
    column: str
    before: CellEstimate | None
    after: CellEstimate


def cell_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[CellChange]:
    """Return the differences between stored cells, in the order of ``after``.

    Parameters
    ----------
    before, after : by matrix, lists as long as its columns (`selectors.cells_of`); ``before`` is
        empty if there was no profile
    """
    known = {(matrix, column): cell for matrix, column, cell in _cells(before)}
    changes = [
        CellChange(matrix, column, known.get((matrix, column)), cell)
        for matrix, column, cell in _cells(after)
    ]
    return [change for change in changes if not _is_same(change.before, change.after)]


def _cells(cells: Mapping[str, Any]) -> Iterator[tuple[str, str, CellEstimate]]:
    for matrix, part in cells.items():
        values = zip(part["value"], part["low"], part["high"], part["source"], strict=True)
        for column, cell in zip(part["columns"], values, strict=True):
            yield matrix, column, CellEstimate(*cell)


def _is_same(before: CellEstimate | None, after: CellEstimate) -> bool:
    if before is None or before.source != after.source:
        return False
    pairs = zip(before[:3], after[:3], strict=True)
    return all(math.isclose(a, b, rel_tol=_SAME, abs_tol=_SAME) for a, b in pairs)
