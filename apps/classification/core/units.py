"""Units of matrix cells, and of the work of applications and jobs."""

from typing import Final

from apps.classification.core.matrix import RATE_COLUMNS, MatrixName
from apps.workloads.core.targets import TargetKind

BYTES: Final = "bytes/s"
WORK_OF_KIND: Final = {
    "analytics": BYTES,
    "latency_critical": "queries/s",
    "single_node": "instructions/s",
    "batch": BYTES,
}
WORK_OF_TARGET: Final = {
    TargetKind.COMPLETION_TIME: BYTES,
    TargetKind.THROUGHPUT_LATENCY: "queries/s",
    TargetKind.IPS: "instructions/s",
    TargetKind.BEST_EFFORT: BYTES,
}
_UNITS: Final = {
    MatrixName.HETEROGENEITY: "x highest-end platform",
    MatrixName.SCALE_UP: "x one unit",
    MatrixName.SCALE_OUT: "x linear scaling",
    MatrixName.FRAMEWORK: "x default setting",
    MatrixName.TOLERATED: "points of 100",
    MatrixName.CAUSED: "points of 100",
}


def unit_of(matrix: MatrixName, column: str = "", kind: str | None = None) -> str:
    """Return the unit of a cell.

    Parameters
    ----------
    column : label; only used for ``base_rate``
    kind : the application's kind, which defines ``base_rate[metric]``; None = unknown or mixed
    """
    if matrix is not MatrixName.BASE_RATE:
        return _UNITS[matrix]
    if column == RATE_COLUMNS[1]:
        return BYTES
    return WORK_OF_KIND.get(kind or "", "work/s")
