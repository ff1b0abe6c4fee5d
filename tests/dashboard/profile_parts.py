"""Cells of profiles for tests."""

import math
from collections.abc import Sequence

from apps.classification.core.cells import Source
from apps.classification.core.matrix import SCALE_OUT_COLUMNS, SCALE_UP_COLUMNS, MatrixName
from apps.common.core.interference import SOURCES
from apps.dashboard.core.profile_cells import Cells, ProfileCell
from apps.dashboard.figures.marks import MatrixRow


def cell(
    matrix: MatrixName,
    column: str,
    value: float,
    *,
    source: Source = Source.MEASURED,
    spread: float = 0.05,
) -> ProfileCell:
    """Return one cell; measured by default, with an interval of ± 5 %."""
    inferred = source is Source.INFERRED
    return ProfileCell(
        matrix=matrix,
        column=column,
        value=value,
        low=value * (1 - spread),
        high=value * (1 + spread),
        source=source,
        samples=0 if inferred else 8,
        standard_error=math.nan if inferred else 0.02 * value,
        at_s=math.nan if inferred else 3600.0,
    )


def row(matrix: MatrixName, columns: tuple[str, ...], values: list[float]) -> MatrixRow:
    """Return a row of measured cells, except for an inferred last one."""
    cells = [cell(matrix, column, value) for column, value in zip(columns, values, strict=True)]
    cells[-1] = cell(matrix, columns[-1], values[-1], source=Source.INFERRED)
    return MatrixRow("web", "latency_critical", tuple(cells))


UP = row(MatrixName.SCALE_UP, SCALE_UP_COLUMNS, [1, 2, 3.9, 7.2, 12, 18.1])
OUT = row(MatrixName.SCALE_OUT, SCALE_OUT_COLUMNS[:6], [1, 0.99, 0.97, 0.9, 0.75, 0.61])
PLATFORMS = row(MatrixName.HETEROGENEITY, ("J", "A", "B"), [1.0, 0.4, 1.2])
TOLERATED = row(MatrixName.TOLERATED, SOURCES, [80, 41, 90, 100, 35.4, 88, 97, 66, 70, 99.8])
CAUSED = row(MatrixName.CAUSED, SOURCES, [3, 62, 12, 9, 4, 7, 0, 33, 25, 1])
RATE = row(MatrixName.BASE_RATE, ("metric", "bytes"), [12_300.0, 4.2e6])


def cells(**changes: Sequence[ProfileCell]) -> Cells:
    """Return all matrices of one profile, some of them replaced."""
    rows: dict[MatrixName, Sequence[ProfileCell]] = {
        matrix.cells[0].matrix: matrix.cells
        for matrix in (RATE, PLATFORMS, UP, OUT, TOLERATED, CAUSED)
    }
    return rows | {MatrixName(name): row for name, row in changes.items()}
