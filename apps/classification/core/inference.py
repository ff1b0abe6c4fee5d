"""Infer a full profile from a few measured cells and the library."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.estimates import HALF_WIDTH_90, NO_ESTIMATES, Estimates
from apps.classification.core.estimators import DEFAULT, ESTIMATORS, EmptyLibraryError, Model
from apps.classification.core.estimators.flags import Degraded
from apps.classification.core.matrix import (
    Cell,
    Matrix,
    MatrixName,
    Scale,
    observed,
)
from apps.classification.core.profile import Profile
from apps.inventory.core.snapshot import Floats
from apps.profiling.core.plan import SPREADS
from apps.workloads.core.framework import HAS_SETTINGS


@dataclass(frozen=True, slots=True, eq=False)
class Library:
    """The training rows of all matrices at one revision."""

    revision: int
    matrices: Mapping[MatrixName, Matrix]


# Matrices completed together, as one row. Applications that cause pressure on a source suffer from
# it, and bottlenecks of a platform also limit scale-up. On the emulated library, with two known
# cells in each, pooling lowers the error by 16 % (tolerated, caused), 7 % (heterogeneity) and 2 %
# (scale-up); every other pool raises it.
POOLS: Final[tuple[tuple[MatrixName, ...], ...]] = (
    (MatrixName.BASE_RATE,),
    (MatrixName.HETEROGENEITY, MatrixName.SCALE_UP),
    (MatrixName.SCALE_OUT,),
    (MatrixName.FRAMEWORK,),
    (MatrixName.TOLERATED, MatrixName.CAUSED),
)


class _Row(NamedTuple):
    estimates: Estimates
    reasons: tuple[Degraded, ...]


def infer_profile(
    application: str,
    kind: str,
    cells: Sequence[Cell],
    library: Library,
    *,
    platforms: tuple[str, ...],
    estimator: str = DEFAULT,
) -> Profile:
    """Infer the profile of an application; without cells, the average of the library.

    Raises
    ------
    EmptyLibraryError : a matrix of the library has no known cell in the columns of this cluster.
    ValueError : unknown estimator, or a rate that is not positive.
    """
    if estimator not in ESTIMATORS:
        raise ValueError(f"estimator must be one of {', '.join(ESTIMATORS)}, got {estimator!r}")
    rows = {
        name: row
        for pool in POOLS
        if _applies(pool, kind, library)
        for name, row in _infer_pool(pool, cells, library, platforms, estimator).items()
    }
    rate = rows[MatrixName.BASE_RATE].estimates
    errors = np.log(rate.high / rate.low) / (2.0 * HALF_WIDTH_90)
    settings = rows.get(MatrixName.FRAMEWORK)
    return Profile(
        application=application,
        kind=kind,
        revision=library.revision,
        platforms=platforms,
        base_rate=float(rate.value[0]),
        base_rate_se=float(errors[0]),
        bytes_rate=float(rate.value[1]),
        bytes_rate_se=float(errors[1]),
        platform_speed=rows[MatrixName.HETEROGENEITY].estimates,
        scale_up=rows[MatrixName.SCALE_UP].estimates,
        scale_out=rows[MatrixName.SCALE_OUT].estimates,
        tolerated=rows[MatrixName.TOLERATED].estimates,
        caused=rows[MatrixName.CAUSED].estimates,
        settings=library.matrices[MatrixName.FRAMEWORK].columns if settings else (),
        framework=settings.estimates if settings else NO_ESTIMATES,
        flags=_flags(kind, rows),
    )


def _applies(pool: Sequence[MatrixName], kind: str, library: Library) -> bool:
    """Return whether the kind has these matrices and the library has rows for them."""
    if MatrixName.FRAMEWORK not in pool:
        return True
    matrix = library.matrices.get(MatrixName.FRAMEWORK)
    return kind in HAS_SETTINGS and matrix is not None and bool(matrix.known.any())


def _flags(kind: str, rows: Mapping[MatrixName, _Row]) -> tuple[str, ...]:
    """Collect flags as "matrix:reason"; ignore scale-out for kinds that use one server."""
    return tuple(
        f"{name}:{reason}"
        for name, row in rows.items()
        if name is not MatrixName.SCALE_OUT or kind in SPREADS
        for reason in row.reasons
    )


def without_application(library: Library, application: str) -> Library:
    """Return the library without the row of an application, which would predict itself."""
    if all(application not in matrix.rows for matrix in library.matrices.values()):
        return library
    matrices = {}
    for name, matrix in library.matrices.items():
        others = [i for i, row in enumerate(matrix.rows) if row != application]
        rows = tuple(matrix.rows[i] for i in others)
        matrices[name] = replace(matrix, rows=rows, values=matrix.values[others])
    return replace(library, matrices=matrices)


def fitted_model(estimator: str, scale: Scale, values: Floats) -> Model:
    """Fit an estimator to (n, m) rows; cached by content.

    Raises
    ------
    EmptyLibraryError : no row has a known cell.
    ValueError : an impossible value, or a column without a known cell.
    """
    return _fitted(estimator, scale, values.shape, np.ascontiguousarray(values).tobytes())


def compile_kernels() -> None:
    """Compile the kernels of the default estimator, or load them from the cache.

    Processes that infer profiles call this at their start, as compilation takes some seconds.
    """
    values = np.random.default_rng(0).uniform(10.0, 90.0, (12, 4))
    model = fitted_model(DEFAULT, Scale.SCORE, values)
    model.fold(values[0], np.arange(4) < 2)


def pool_rows(library: Library, pool: Sequence[MatrixName], platforms: tuple[str, ...]) -> Floats:
    """Join the matrices of a pool to (n, m) rows; NaN for unknown cells.

    Raises
    ------
    EmptyLibraryError : a matrix has no known cell in these columns.
    ValueError : a matrix lacks one of the columns.
    """
    names = list(dict.fromkeys(row for name in pool for row in library.matrices[name].rows))
    place = {row: i for i, row in enumerate(names)}
    parts = []
    for name in pool:
        matrix, columns = library.matrices[name], columns_in(library, name, platforms)
        part = np.full((len(names), len(columns)), np.nan)
        part[[place[row] for row in matrix.rows]] = matrix.at(columns)
        if np.isnan(part).all():
            raise EmptyLibraryError(f"{name} has no row known at {', '.join(columns)}")
        parts.append(part)
    rows = np.hstack(parts)
    return rows[~np.isnan(rows).all(axis=1)]


def columns_in(library: Library, name: MatrixName, platforms: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns in the library, which may be old; platforms are those of the cluster."""
    return platforms if name is MatrixName.HETEROGENEITY else library.matrices[name].columns


def column_slices(
    library: Library, pool: Sequence[MatrixName], platforms: tuple[str, ...]
) -> dict[MatrixName, slice]:
    """Return the slice of each matrix in the rows of its pool."""
    ends = np.cumsum([len(columns_in(library, name, platforms)) for name in pool]).tolist()
    return {
        name: slice(start, end) for name, start, end in zip(pool, [0, *ends], ends, strict=False)
    }


def _infer_pool(
    pool: tuple[MatrixName, ...],
    cells: Sequence[Cell],
    library: Library,
    platforms: tuple[str, ...],
    estimator: str,
) -> dict[MatrixName, _Row]:
    rows = [observed(name, columns_in(library, name, platforms), cells) for name in pool]
    values, errors = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    known = ~np.isnan(values)
    model = fit_pool(library, pool, platforms, estimator)
    row = model.fold(values, known, error=errors)
    reasons = tuple(sorted(model.flags(values, known, error=errors)[0]))
    return {
        name: _Row(row.part(part), reasons)
        for name, part in column_slices(library, pool, platforms).items()
    }


@lru_cache(maxsize=64)
def fit_pool(
    library: Library, pool: tuple[MatrixName, ...], platforms: tuple[str, ...], estimator: str
) -> Model:
    """Fit an estimator to a pool; cached by library.

    Raises
    ------
    EmptyLibraryError, ValueError : as `pool_rows`.
    """
    return fitted_model(estimator, pool[0].scale, pool_rows(library, pool, platforms))


@lru_cache(maxsize=64)
def _fitted(estimator: str, scale: Scale, shape: tuple[int, ...], cells: bytes) -> Model:
    library = np.frombuffer(cells, dtype=np.float64).reshape(shape)
    return ESTIMATORS[estimator].fit(library, scale=scale)
