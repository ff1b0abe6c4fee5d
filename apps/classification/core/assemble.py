"""From a few measurements and the library to a dense profile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from apps.classification.core.estimators import DEFAULT, ESTIMATORS, EmptyLibraryError, Fold, Model
from apps.classification.core.matrix import (
    Cell,
    Matrix,
    MatrixName,
    Scale,
    columns_of,
    observed,
)
from apps.classification.core.profile import HALF_WIDTH_90, Profile
from apps.inventory.core.snapshot import Bools, Floats


@dataclass(frozen=True, slots=True)
class Library:
    """The dense rows every profile starts from, at one revision: all six matrices."""

    revision: int
    matrices: Mapping[MatrixName, Matrix]


class _Row(NamedTuple):
    fold: Fold
    measured: Bools


def assemble(
    application: str,
    kind: str,
    cells: Sequence[Cell],
    library: Library,
    *,
    platforms: tuple[str, ...],
    estimator: str = DEFAULT,
) -> Profile:
    """Complete an application's measured cells to its profile; without any, the library's average.

    Raises
    ------
    EmptyLibraryError : a matrix of the library has no row known at all columns of this cluster.
    ValueError : unknown estimator, or a rate that is not positive.
    """
    if estimator not in ESTIMATORS:
        raise ValueError(f"estimator must be one of {', '.join(ESTIMATORS)}, got {estimator!r}")
    rows = {name: _complete(name, cells, library, platforms, estimator) for name in MatrixName}
    rate = rows[MatrixName.BASE_RATE].fold
    errors = np.log(rate.high / rate.low) / (2.0 * HALF_WIDTH_90)
    speed, platform_measured = rows[MatrixName.HETEROGENEITY]
    up, up_measured = rows[MatrixName.SCALE_UP]
    out, out_measured = rows[MatrixName.SCALE_OUT]
    tolerated, tolerated_measured = rows[MatrixName.TOLERATED]
    caused, caused_measured = rows[MatrixName.CAUSED]
    return Profile(
        application=application,
        kind=kind,
        revision=library.revision,
        platforms=platforms,
        base_rate=float(rate.value[0]),
        base_rate_se=float(errors[0]),
        bytes_rate=float(rate.value[1]),
        bytes_rate_se=float(errors[1]),
        platform_speed=speed.value,
        platform_low=speed.low,
        platform_high=speed.high,
        scale_up=up.value,
        scale_up_low=up.low,
        scale_up_high=up.high,
        scale_out=out.value,
        scale_out_low=out.low,
        scale_out_high=out.high,
        tolerated=tolerated.value,
        tolerated_low=tolerated.low,
        tolerated_high=tolerated.high,
        caused=caused.value,
        caused_low=caused.low,
        caused_high=caused.high,
        platform_measured=platform_measured,
        scale_up_measured=up_measured,
        scale_out_measured=out_measured,
        tolerated_measured=tolerated_measured,
        caused_measured=caused_measured,
    )


def without(library: Library, application: str) -> Library:
    """Return the library without the row of an application that has its own measurements."""
    if all(application not in matrix.rows for matrix in library.matrices.values()):
        return library
    matrices = {}
    for name, matrix in library.matrices.items():
        others = [i for i, row in enumerate(matrix.rows) if row != application]
        rows = tuple(matrix.rows[i] for i in others)
        matrices[name] = replace(matrix, rows=rows, values=matrix.values[others])
    return replace(library, matrices=matrices)


def model_of(estimator: str, scale: Scale, values: Floats) -> Model:
    """Fit an estimator to (n, m) rows, once for each content: a revision answers many.

    Raises
    ------
    EmptyLibraryError : no row has a known cell.
    ValueError : a cell that cannot be a measurement, or a column without a known cell.
    """
    return _fitted(estimator, scale, values.shape, np.ascontiguousarray(values).tobytes())


def _complete(
    name: MatrixName,
    cells: Sequence[Cell],
    library: Library,
    platforms: tuple[str, ...],
    estimator: str,
) -> _Row:
    columns = columns_of(name, platforms)
    values, errors = observed(name, columns, cells)
    known = ~np.isnan(values)
    rows = library.matrices[name].rows_at(columns)
    if not rows.size:
        raise EmptyLibraryError(f"{name} has no row known at {', '.join(columns)}")
    model = model_of(estimator, name.scale, rows)
    return _Row(model.fold(values, known, error=errors), known)


@lru_cache(maxsize=64)
def _fitted(estimator: str, scale: Scale, shape: tuple[int, ...], cells: bytes) -> Model:
    library = np.frombuffer(cells, dtype=np.float64).reshape(shape)
    return ESTIMATORS[estimator].fit(library, scale=scale)
