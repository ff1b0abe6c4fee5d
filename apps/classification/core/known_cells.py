"""The known cells of one application: measurements combined, overridden by corrections."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from apps.classification.core.cells import KnownCell, Source

TELEMETRY: Final = "telemetry"
# an error of exactly 0 (ratios that are 1 by definition) must not divide by zero
_MIN_RELATIVE_ERROR: Final = 1e-9


def known_cells(
    measurements: Iterable[KnownCell], overrides: Iterable[KnownCell]
) -> list[KnownCell]:
    """Return one cell for each known matrix and column; cells that are only overridden come last.

    Measurements of profiling runs are averaged with weights 1 / error². Telemetry is a posterior
    that includes all earlier measurements (Quasar Q5, `core.feedback`), so the newest one replaces
    them. An override outranks both.

    Parameters
    ----------
    measurements : oldest first
    overrides : of one application; at most one for each cell
    """
    by_hand = {(cell.matrix, cell.column): cell for cell in overrides}
    key = attrgetter("matrix", "column")
    cells = {
        place: _combined(_since_posterior(list(group)))
        for place, group in groupby(sorted(measurements, key=key), key=key)
    }
    return list((cells | by_hand).values())


def _since_posterior(measurements: Sequence[KnownCell]) -> Sequence[KnownCell]:
    """Return the newest posterior and all later measurements."""
    last = max((i for i, cell in enumerate(measurements) if cell.is_posterior), default=0)
    return measurements[last:]


def _combined(measurements: Sequence[KnownCell]) -> KnownCell:
    first = measurements[0]
    if len(measurements) == 1:
        return first
    weights = [1.0 / _error(cell) ** 2 for cell in measurements]
    total = sum(weights)
    exact = all(cell.standard_error == 0.0 for cell in measurements)
    return KnownCell(
        matrix=first.matrix,
        column=first.column,
        value=sum(w * cell.value for w, cell in zip(weights, measurements, strict=True)) / total,
        standard_error=0.0 if exact else total**-0.5,
        source=Source.MEASURED,
        samples=sum(cell.samples for cell in measurements),
        at_s=max(cell.at_s for cell in measurements),
    )


def _error(cell: KnownCell) -> float:
    return max(cell.standard_error, _MIN_RELATIVE_ERROR * max(abs(cell.value), 1e-9))
