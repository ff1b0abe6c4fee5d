"""JSON format of the offline library: measured cells of each application.

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
    shown,
    text_of,
)

MAX_SAMPLES: Final = 1_000_000_000
MAX_VALUE: Final = 1e300
_CELL_FIELDS: Final = ("matrix", "column", "value", "standard_error", "samples")


@dataclass(frozen=True, slots=True)
class LibraryFile:
    """A library: platforms, highest-end first, and the known cells of each application."""

    platforms: tuple[str, ...]
    rows: Mapping[str, Sequence[KnownCell]]


def document(library: LibraryFile) -> dict[str, Any]:
    """Return a library as JSON data."""
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
    """Parse decoded JSON; ``at_s`` becomes the measurement time of all cells.

    Raises
    ------
    InvalidInputError : lists up to 1,024 problems, each with the value and what is accepted.
    """
    if not isinstance(data, Mapping):
        message = f"expected an object with platforms and applications, got {shown(data)}"
        raise InvalidInputError([FieldProblem("", "type", message)])
    problems = Problems()
    check_fields("", data, ("platforms", "applications"), problems)
    platforms = _platforms(data.get("platforms"), problems)
    rows: dict[str, list[KnownCell]] = {}
    for at, row in rows_of(data, "applications", problems):
        check_fields(at, row, ("name", "cells"), problems)
        name = text_of(at, row, "name", problems)
        if name in rows:
            problems.add(f"{at}/name", "duplicate", f"the application {shown(name)} appears twice")
        rows[name] = _cells(at, row, platforms, at_s, problems)
    if not problems.count:
        _check_columns(platforms, rows, problems)
    if problems.count:
        raise InvalidInputError(problems.listed())
    return LibraryFile(platforms, rows)


def _check_columns(
    platforms: tuple[str, ...], rows: Mapping[str, Sequence[KnownCell]], problems: Problems
) -> None:
    """Report columns without any measurement, which could not be inferred."""
    known = {(cell.matrix, cell.column) for cells in rows.values() for cell in cells}
    for matrix in MatrixName:
        if matrix is MatrixName.FRAMEWORK and not any(name is matrix for name, _ in known):
            continue  # a library without analytics has no settings
        for column in columns_of(matrix, platforms):
            if (matrix, column) not in known:
                message = (
                    f"no application is measured at {matrix}[{column}]; at least one is required"
                )
                problems.add("/applications", "incomplete", message)


def _platforms(value: Any, problems: Problems) -> tuple[str, ...]:
    names = value if isinstance(value, list) else []
    if not names or not all(isinstance(name, str) and name for name in names):
        message = f"expected a list of platform names, highest-end first, got {shown(value)}"
        problems.add("/platforms", "required", message)
        return ()
    if len(set(names)) < len(names):
        problems.add("/platforms", "duplicate", "a platform appears twice")
    return tuple(names)


def _cells(
    at: str, row: Mapping[Any, Any], platforms: tuple[str, ...], at_s: float, problems: Problems
) -> list[KnownCell]:
    inner = Problems()
    cells: dict[tuple[MatrixName, str], KnownCell] = {}
    for place, cell in rows_of(row, "cells", inner):
        check_fields(place, cell, _CELL_FIELDS, inner)
        known = _cell(place, cell, platforms, at_s, inner)
        if known is None:
            continue
        if (known.matrix, known.column) in cells:
            inner.add(place, "duplicate", f"{known.matrix}[{known.column}] appears twice")
        cells[known.matrix, known.column] = known
    for problem in inner.listed():
        problems.add(f"{at}{problem.pointer}", problem.code, problem.detail)
    return list(cells.values())


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
            f"{at}/matrix", "unknown", f"expected one of {names}, got {shown(row.get('matrix'))}"
        )
        return None
    matrix = MatrixName(row["matrix"])
    columns = columns_of(matrix, platforms)
    column = row.get("column")
    if column not in columns:
        message = f"expected one of {', '.join(columns)}, got {shown(column)}"
        problems.add(f"{at}/column", "unknown", message)
    is_score = matrix.scale is Scale.SCORE
    value = number_of(at, row, "value", (0, 100 if is_score else MAX_VALUE), problems)
    if not is_score and value == 0:
        problems.add(f"{at}/value", "too_low", f"expected more than 0, got {shown(value)}")
    error = number_of(at, row, "standard_error", (0, MAX_VALUE), problems)
    samples = number_of(at, row, "samples", (1, MAX_SAMPLES), problems, is_whole=True)
    if problems.count > before or math.isnan(value):
        return None
    return KnownCell(
        matrix, str(column), float(value), float(error), Source.MEASURED, int(samples), at_s
    )
