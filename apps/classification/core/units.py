"""In which unit the cells of each matrix are, in words for people."""

from typing import Final

from apps.classification.core.matrix import RATE_COLUMNS, MatrixName

WORK_OF_KIND: Final = {
    "analytics": "bytes/s",
    "latency_critical": "queries/s",
    "single_node": "instructions/s",
    "batch": "bytes/s",
}
_METRIC, _BYTES = RATE_COLUMNS
_UNITS: Final = {
    MatrixName.HETEROGENEITY: "x highest-end platform",
    MatrixName.SCALE_UP: "x one unit",
    MatrixName.SCALE_OUT: "x linear scaling",
    MatrixName.TOLERATED: "points of 100",
    MatrixName.CAUSED: "points of 100",
}


def unit_of(matrix: MatrixName, column: str = "", kind: str | None = None) -> str:
    """Name the unit of a cell.

    Parameters
    ----------
    column : label; matters for ``base_rate`` only
    kind : of the application, whose work ``base_rate[metric]`` counts; None = not known, or many
    """
    if matrix is not MatrixName.BASE_RATE:
        return _UNITS[matrix]
    if column == _BYTES:
        return "bytes/s"
    return WORK_OF_KIND.get(kind or "", "work/s")
