"""From a few measurements and the library to a dense profile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from apps.classification.core.estimators import DEFAULT, ESTIMATORS, EmptyLibraryError, Fold, Model
from apps.classification.core.estimators.flags import Degraded
from apps.classification.core.matrix import (
    Cell,
    Matrix,
    MatrixName,
    Scale,
    observed,
)
from apps.classification.core.profile import HALF_WIDTH_90, Profile
from apps.inventory.core.snapshot import Bools, Floats
from apps.profiling.core.plan import SPREADS
from apps.workloads.core.framework import HAS_SETTINGS


@dataclass(frozen=True, slots=True, eq=False)
class Library:
    """The rows every profile starts from, at one revision: all matrices."""

    revision: int
    matrices: Mapping[MatrixName, Matrix]


# Completed together, as one row: who puts pressure on a source suffers from it, and what limits
# the speed of a platform limits how far a server's units help. On the emulated library two cells
# of each err less by 16 % (tolerated, caused), 7 % (heterogeneity) and 2 % (scale-up) than apart;
# every other union errs more.
POOLS: Final[tuple[tuple[MatrixName, ...], ...]] = (
    (MatrixName.BASE_RATE,),
    (MatrixName.HETEROGENEITY, MatrixName.SCALE_UP),
    (MatrixName.SCALE_OUT,),
    (MatrixName.FRAMEWORK,),
    (MatrixName.TOLERATED, MatrixName.CAUSED),
)


class _Row(NamedTuple):
    fold: Fold
    measured: Bools
    doubts: tuple[Degraded, ...]


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
    rows = {
        name: row
        for pool in POOLS
        if _concerns(pool, kind, library)
        for name, row in _complete(pool, cells, library, platforms, estimator).items()
    }
    rate = rows[MatrixName.BASE_RATE].fold
    errors = np.log(rate.high / rate.low) / (2.0 * HALF_WIDTH_90)
    speed, platform_measured, _ = rows[MatrixName.HETEROGENEITY]
    up, up_measured, _ = rows[MatrixName.SCALE_UP]
    out, out_measured, _ = rows[MatrixName.SCALE_OUT]
    tolerated, tolerated_measured, _ = rows[MatrixName.TOLERATED]
    caused, caused_measured, _ = rows[MatrixName.CAUSED]
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
        flags=_flags(kind, rows),
        **_settings(library, rows.get(MatrixName.FRAMEWORK)),
    )


def _concerns(pool: Sequence[MatrixName], kind: str, library: Library) -> bool:
    """Whether the applications of a kind have cells in these, and this library knows any."""
    if MatrixName.FRAMEWORK not in pool:
        return True
    matrix = library.matrices.get(MatrixName.FRAMEWORK)
    return kind in HAS_SETTINGS and matrix is not None and bool(matrix.known.any())


def _flags(kind: str, rows: Mapping[MatrixName, _Row]) -> tuple[str, ...]:
    """Doubts about matrices that matter: what never spreads need not scale out."""
    return tuple(
        f"{name}:{doubt}"
        for name, row in rows.items()
        if name is not MatrixName.SCALE_OUT or kind in SPREADS
        for doubt in row.doubts
    )


def _settings(library: Library, row: _Row | None) -> dict[str, Any]:
    if row is None:
        return {}
    return {
        "settings": library.matrices[MatrixName.FRAMEWORK].columns,
        "framework": row.fold.value,
        "framework_low": row.fold.low,
        "framework_high": row.fold.high,
        "framework_measured": row.measured,
    }


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


def pooled(library: Library, pool: Sequence[MatrixName], platforms: tuple[str, ...]) -> Floats:
    """(n, m) rows of the matrices of a pool side by side, NaN where an application has no cell.

    Raises
    ------
    EmptyLibraryError : nothing is known at the columns of one of them.
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
    """Those of the library, which may be older than ours; platforms are those of the cluster."""
    return platforms if name is MatrixName.HETEROGENEITY else library.matrices[name].columns


def places_in(
    library: Library, pool: Sequence[MatrixName], platforms: tuple[str, ...]
) -> dict[MatrixName, slice]:
    """Where the columns of each matrix are in the rows of its pool."""
    ends = np.cumsum([len(columns_in(library, name, platforms)) for name in pool]).tolist()
    return {
        name: slice(start, end) for name, start, end in zip(pool, [0, *ends], ends, strict=False)
    }


def _complete(
    pool: tuple[MatrixName, ...],
    cells: Sequence[Cell],
    library: Library,
    platforms: tuple[str, ...],
    estimator: str,
) -> dict[MatrixName, _Row]:
    told = [observed(name, columns_in(library, name, platforms), cells) for name in pool]
    values, errors = (np.concatenate(parts) for parts in zip(*told, strict=True))
    known = ~np.isnan(values)
    model = pool_model(library, pool, platforms, estimator)
    value, low, high = model.fold(values, known, error=errors)
    doubts = tuple(sorted(model.flags(values, known)[0]))
    return {
        name: _Row(Fold(value[part], low[part], high[part]), known[part], doubts)
        for name, part in places_in(library, pool, platforms).items()
    }


@lru_cache(maxsize=64)
def pool_model(
    library: Library, pool: tuple[MatrixName, ...], platforms: tuple[str, ...], estimator: str
) -> Model:
    """Fit an estimator to a pool; a library asked before is not laid out again.

    Raises
    ------
    EmptyLibraryError, ValueError : as `pooled`.
    """
    return model_of(estimator, pool[0].scale, pooled(library, pool, platforms))


@lru_cache(maxsize=64)
def _fitted(estimator: str, scale: Scale, shape: tuple[int, ...], cells: bytes) -> Model:
    library = np.frombuffer(cells, dtype=np.float64).reshape(shape)
    return ESTIMATORS[estimator].fit(library, scale=scale)
