"""The offline library as a file: what was measured of each application, cell by cell.

{"platforms": ["cr1.8xlarge", ...],
 "applications": [{"name": "kmeans",
                   "cells": [{"matrix": "scale_up", "column": "8", "value": 6.1,
                              "standard_error": 0.1, "samples": 8}, ...]}, ...]}
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apps.classification.core.cells import KnownCell, Source
from apps.classification.core.matrix import MatrixName, Scale, columns_of
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.inventory.core.file_checks import (
    Problems,
    check_fields,
    number_of,
    rows_of,
    seen,
    text_of,
)

MOST_SAMPLES: Final = 1_000_000_000
MOST_VALUE: Final = 1e300
_CELL_FIELDS: Final = ("matrix", "column", "value", "standard_error", "samples")


@dataclass(frozen=True, slots=True)
class LibraryFile:
    """A library: platforms, highest-end first, and the known cells of each application."""

    platforms: tuple[str, ...]
    rows: Mapping[str, Sequence[KnownCell]]


def document(library: LibraryFile) -> dict[str, Any]:
    """Plain data of a library, ready for JSON."""
    return {
        "platforms": list(library.platforms),
        "applications": [
            {
                "name": name,
                "cells": [
                    {
                        "matrix": cell.matrix.value,
                        "column": cell.column,
                        "value": cell.value,
                        "standard_error": cell.standard_error,
                        "samples": cell.samples,
                    }
                    for cell in cells
                ],
            }
            for name, cells in library.rows.items()
        ],
    }


def parse_library(data: Any, *, at_s: float) -> LibraryFile:
    """Read a decoded document; ``at_s`` is the cluster time its cells count as measured at.

    Raises
    ------
    InvalidInputError : lists what is wrong (the first 1,024), the value seen and what would be
        right.
    """
    if not isinstance(data, Mapping):
        message = f"expected an object with platforms and applications, got {seen(data)}"
        raise InvalidInputError([FieldProblem("", "type", message)])
    problems = Problems()
    check_fields("", data, ("platforms", "applications"), problems)
    platforms = _platforms(data.get("platforms"), problems)
    rows: dict[str, list[KnownCell]] = {}
    for at, row in rows_of(data, "applications", problems):
        check_fields(at, row, ("name", "cells"), problems)
        name = text_of(at, row, "name", problems)
        if name in rows:
            problems.add(f"{at}/name", "duplicate", f"the application {seen(name)} is there twice")
        rows[name] = _cells(at, row, platforms, at_s, problems)
    if not problems.count:
        _find_gaps(platforms, rows, problems)
    if problems.count:
        raise InvalidInputError(problems.listed())
    return LibraryFile(platforms, rows)


def _find_gaps(
    platforms: tuple[str, ...], rows: Mapping[str, Sequence[KnownCell]], problems: Problems
) -> None:
    """Find columns nobody was measured at: nothing could be inferred there."""
    known = {(cell.matrix, cell.column) for cells in rows.values() for cell in cells}
    for matrix in MatrixName:
        if matrix is MatrixName.FRAMEWORK and not any(name is matrix for name, _ in known):
            continue  # a library without analytics has no settings
        for column in columns_of(matrix, platforms):
            if (matrix, column) not in known:
                message = f"expected an application measured at {matrix}[{column}], got none"
                problems.add("/applications", "incomplete", message)


def _platforms(value: Any, problems: Problems) -> tuple[str, ...]:
    names = value if isinstance(value, list) else []
    if not names or not all(isinstance(name, str) and name for name in names):
        message = f"expected a list of platform names, highest-end first, got {seen(value)}"
        problems.add("/platforms", "required", message)
        return ()
    if len(set(names)) < len(names):
        problems.add("/platforms", "duplicate", "a platform is there twice")
    return tuple(names)


def _cells(
    at: str, row: Mapping[Any, Any], platforms: tuple[str, ...], at_s: float, problems: Problems
) -> list[KnownCell]:
    inner = Problems()
    found: dict[tuple[MatrixName, str], KnownCell] = {}
    for place, cell in rows_of(row, "cells", inner):
        check_fields(place, cell, _CELL_FIELDS, inner)
        known = _cell(place, cell, platforms, at_s, inner)
        if known is None:
            continue
        if (known.matrix, known.column) in found:
            inner.add(place, "duplicate", f"{known.matrix}[{known.column}] is there twice")
        found[known.matrix, known.column] = known
    for problem in inner.listed():
        problems.add(f"{at}{problem.pointer}", problem.code, problem.detail)
    return list(found.values())


def _cell(
    at: str,
    row: Mapping[Any, Any],
    platforms: tuple[str, ...],
    at_s: float,
    problems: Problems,
) -> KnownCell | None:
    before = problems.count
    if row.get("matrix") not in set(MatrixName):
        names = ", ".join(MatrixName)
        problems.add(
            f"{at}/matrix", "unknown", f"expected one of {names}, got {seen(row.get('matrix'))}"
        )
        return None
    matrix = MatrixName(row["matrix"])
    columns = columns_of(matrix, platforms)
    column = row.get("column")
    if column not in columns:
        message = f"expected one of {', '.join(columns)}, got {seen(column)}"
        problems.add(f"{at}/column", "unknown", message)
    is_score = matrix.scale is Scale.SCORE
    value = number_of(at, row, "value", (0, 100 if is_score else MOST_VALUE), problems)
    if not is_score and value == 0:
        problems.add(f"{at}/value", "too_low", f"expected more than 0, got {seen(value)}")
    error = number_of(at, row, "standard_error", (0, MOST_VALUE), problems)
    samples = number_of(at, row, "samples", (1, MOST_SAMPLES), problems, is_whole=True)
    if problems.count > before or math.isnan(value):
        return None
    return KnownCell(
        matrix, str(column), float(value), float(error), Source.MEASURED, int(samples), at_s
    )
