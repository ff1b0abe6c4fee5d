"""The emulated cluster as measured by profiling: its library, and other applications.

The distributions are those of docs/emulation.md.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from apps.classification.core.inference import Library
from apps.classification.core.matrix import Cell, MatrixName, columns_of, from_cells
from apps.emulation.core.draws import KINDS
from apps.emulation.core.library import library
from apps.emulation.core.platforms import CAPACITY
from apps.emulation.core.probe import SERVERS, SIZES, exhaustive
from apps.emulation.core.seeds import Stream, generator
from apps.emulation.core.truth import Truth
from apps.emulation.core.worlds import PAPER, world_named
from apps.inventory.core.snapshot import Floats
from apps.profiling.core.measurements import MeasuredCell

NEW_PER_KIND: Final = 25
CURVES: Final = (
    MatrixName.HETEROGENEITY,
    MatrixName.SCALE_UP,
    MatrixName.SCALE_OUT,
    MatrixName.TOLERATED,
    MatrixName.CAUSED,
)


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """One cluster.

    Attributes
    ----------
    platforms : P names, the highest-end one first
    library : six matrices of 28 applications
    entries : truth of each application of the library
    new : truth of a hundred applications that are not in the library, a quarter of each kind
    runs : what profiling each of them on every column measured
    """

    platforms: tuple[str, ...]
    library: Library
    entries: dict[str, Truth]
    new: dict[str, Truth]
    runs: dict[str, tuple[MeasuredCell, ...]]

    def columns(self, name: MatrixName) -> tuple[str, ...]:
        """Labels of a matrix on this cluster."""
        return columns_of(name, self.platforms)

    def truth(self, name: MatrixName) -> Floats:
        """(100, m) true values of the new applications."""
        return np.array([true_row(name, application) for application in self.new.values()])

    def observed(self, name: MatrixName) -> Floats:
        """(100, m) measured values of them, NaN where a probe failed or was inconclusive."""
        cells = {app: cells_of(run) for app, run in self.runs.items()}
        return from_cells(name, self.columns(name), cells).values


@lru_cache(maxsize=4)
def world(seed: int, name: str = PAPER.name) -> World:
    """Draw a cluster's library and a hundred new applications, and measure them."""
    origin = world_named(name)
    platforms = origin.catalogue(list(CAPACITY), seed=seed)
    measured = library(seed, platforms, world=origin)
    cells = {entry.application: cells_of(entry.cells) for entry in measured}
    names = {f"new-{kind}-{i}": kind for kind in KINDS for i in range(NEW_PER_KIND)}
    new = {
        app: origin.application_truth(seed, app, kind, platforms) for app, kind in names.items()
    }
    shown = tuple(platforms.names)
    return World(
        platforms=shown,
        library=Library(
            seed, {name: from_cells(name, columns_of(name, shown), cells) for name in MatrixName}
        ),
        entries={
            entry.application: origin.application_truth(
                seed, entry.application, entry.kind, platforms, Stream.LIBRARY
            )
            for entry in measured
        },
        new=new,
        runs={app: exhaustive(truth, generator(seed, "new", app)) for app, truth in new.items()},
    )


def cells_of(measured: tuple[MeasuredCell, ...]) -> list[Cell]:
    """Turn the cells of a profiling run into those of the classifier."""
    return [
        Cell(MatrixName(cell.matrix), cell.column, cell.value, cell.standard_error)
        for cell in measured
    ]


def true_row(name: MatrixName, truth: Truth) -> Floats:
    """(m,) true values of an application.

    Raises
    ------
    ValueError : the matrix is not one of `CURVES`.
    """
    match name:
        case MatrixName.HETEROGENEITY:
            return truth.platform_speed
        case MatrixName.TOLERATED:
            return truth.tolerated
        case MatrixName.CAUSED:
            return truth.caused
        case MatrixName.SCALE_UP:
            return np.array([truth.scale_up.speed_up(n) for n in SIZES])
        case MatrixName.SCALE_OUT:
            return np.array([truth.scale_out.efficiency(n) for n in SERVERS])
        case _:
            raise ValueError(f"name must be one of {', '.join(CURVES)}, got {name}")
