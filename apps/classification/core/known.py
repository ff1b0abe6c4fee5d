"""What is known of each cell of one application: measurements combined, corrections on top."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final

from apps.classification.core.cells import KnownCell, Source
from apps.classification.core.matrix import MatrixName

TELEMETRY: Final = "telemetry"
# an error of exactly 0 (ratios that are 1 by definition) must not divide by zero
_LEAST_RELATIVE_ERROR: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Reading:
    """One measurement of one cell.

    Attributes
    ----------
    origin : who measured it: ``profiling``, or ``telemetry`` of running jobs
    """

    matrix: MatrixName
    column: str
    value: float
    standard_error: float
    samples: int
    at_s: float
    origin: str


def known_cells(readings: Iterable[Reading], overrides: Iterable[KnownCell]) -> list[KnownCell]:
    """One cell for each that is known, by matrix and column; overrides of others come last.

    Measurements of profiling runs are averaged with weights 1 / error². Telemetry is a posterior
    that already rests on what was measured before it (Quasar Q5, `core.feedback`), so the newest
    of it stands for all that is older. An override outranks both.

    Parameters
    ----------
    readings : oldest first
    overrides : of one application; at most one for each cell
    """
    by_hand = {(cell.matrix, cell.column): cell for cell in overrides}
    key = attrgetter("matrix", "column")
    cells: dict[tuple[MatrixName, str], KnownCell] = {}
    for place, found in groupby(sorted(readings, key=key), key=key):
        cells[place] = _combined(_standing(list(found)))
    return list((cells | by_hand).values())


def _standing(readings: Sequence[Reading]) -> Sequence[Reading]:
    """Leave out what a later posterior has taken in."""
    last = max((i for i, r in enumerate(readings) if r.origin == TELEMETRY), default=0)
    return readings[last:]


def _combined(readings: Sequence[Reading]) -> KnownCell:
    if len(readings) == 1:
        return _cell(readings[0])
    weights = [1.0 / _error(reading) ** 2 for reading in readings]
    total = sum(weights)
    first = readings[0]
    exact = all(reading.standard_error == 0.0 for reading in readings)
    return KnownCell(
        matrix=first.matrix,
        column=first.column,
        value=sum(w * r.value for w, r in zip(weights, readings, strict=True)) / total,
        standard_error=0.0 if exact else total**-0.5,
        source=Source.MEASURED,
        samples=sum(reading.samples for reading in readings),
        at_s=max(reading.at_s for reading in readings),
    )


def _cell(reading: Reading) -> KnownCell:
    return KnownCell(
        reading.matrix,
        reading.column,
        reading.value,
        reading.standard_error,
        Source.MEASURED,
        reading.samples,
        reading.at_s,
    )


def _error(reading: Reading) -> float:
    return max(reading.standard_error, _LEAST_RELATIVE_ERROR * max(abs(reading.value), 1e-9))
