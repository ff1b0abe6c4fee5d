"""Cases with a known truth: the emulated library, and a generator with its exact Bayes answer."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.matrix import Cell, Matrix, MatrixName, Scale, columns_of, from_cells
from apps.emulation.core.draws import KINDS
from apps.emulation.core.library import library
from apps.emulation.core.platforms import CAPACITY
from apps.emulation.core.probe import exhaustive
from apps.emulation.core.seeds import generator
from apps.emulation.core.worlds import PAPER, world_named
from apps.inventory.core.snapshot import Floats, Ints
from apps.profiling.core.measurements import MeasuredCell
from benchmarks._held_out import Case, random_cells
from benchmarks._world import true_row

NEW_PER_KIND: Final = 25
EMULATED: Final = (
    MatrixName.HETEROGENEITY,
    MatrixName.TOLERATED,
    MatrixName.CAUSED,
    MatrixName.SCALE_UP,
    MatrixName.SCALE_OUT,
)
# Calibrated so that the exact posterior has the papers' error level, 3-4 % from two cells.
BOTTLENECKS: Final = 4
CONCENTRATION: Final = 0.7
PLATFORM_SPREAD: Final = 0.35
BOTTLENECK_SPREAD: Final = 0.18
NOISE: Final = 0.02
SPARSE_CELLS: Final = 2
PRIOR_ROWS: Final = 100_000


def emulated(
    name: MatrixName,
    k: int,
    seed: int,
    *,
    together_with: tuple[MatrixName, ...] = (),
    origin: str = PAPER.name,
) -> Iterator[Case]:
    """Measure the emulated cluster's library and a hundred applications that are not in it.

    Rows are observed with the noise of a profiling run and compared with the hidden truth. Of the
    matrix, and of those completed with it, k random cells each are known; its own are scored.
    """
    pool = (name, *together_with)
    drawn_from = world_named(origin)
    platforms = drawn_from.catalogue(list(CAPACITY), seed=seed)
    columns = {other_name: columns_of(other_name, tuple(platforms.names)) for other_name in pool}
    entries = library(seed, platforms, world=drawn_from)
    dense = [_matrix(n, c, {e.application: e.cells for e in entries}) for n, c in columns.items()]
    new = {
        f"new-{kind}-{i}": drawn_from.application_truth(seed, f"new-{kind}-{i}", kind, platforms)
        for kind in KINDS
        for i in range(NEW_PER_KIND)
    }
    runs = {app: exhaustive(truth, generator(seed, "new", app)) for app, truth in new.items()}
    observed = [_matrix(other_name, labels, runs).values for other_name, labels in columns.items()]
    truth = [np.array([true_row(other_name, row) for row in new.values()]) for other_name in pool]
    rng = np.random.default_rng([seed, k])
    known = [random_cells(values, k, rng) for values in observed]
    unscored = [np.full(part.shape, np.nan) for part in truth[1:]]
    yield Case(
        np.hstack([matrix.values for matrix in dense]),
        np.arange(len(entries)),
        np.hstack([truth[0], *unscored]),
        np.hstack(observed),
        np.hstack(known),
        np.arange(len(new)),
        name.scale,
    )


def _matrix(
    name: MatrixName, columns: tuple[str, ...], rows: dict[str, tuple[MeasuredCell, ...]]
) -> Matrix:
    return from_cells(
        name,
        columns,
        {
            row: [
                Cell(name, cell.column, cell.value, cell.standard_error)
                for cell in cells
                if cell.matrix == name
            ]
            for row, cells in rows.items()
        },
    )


class Generated(NamedTuple):
    """A case, and the (q, m) posterior means of its rows: no method can do better on average."""

    case: Case
    bayes: Floats


class Size(NamedTuple):
    """Full rows of a library, additional rows of two random cells, and columns."""

    dense: int
    sparse: int
    columns: int


def roofline_case(size: Size, new: int, k: int, seed: int) -> Generated:
    """Draw applications whose time is a sum of demand over capacity, and solve them exactly.

    Source: roofline model (Williams, Waterman and Patterson, 2009); the posterior weighs 100,000
    rows of the prior by the known cells.
    """
    dense, sparse, columns = size
    rng = np.random.default_rng([seed, dense, columns, k])
    capacity = rng.lognormal(0.0, PLATFORM_SPREAD, (1, columns))
    capacity = capacity * rng.lognormal(0.0, BOTTLENECK_SPREAD, (BOTTLENECKS, columns))
    rows = roofline(dense, capacity, rng)
    truth = roofline(new, capacity, rng)
    prior = np.log(roofline(PRIOR_ROWS, capacity, rng))
    observed = truth * rng.lognormal(0.0, NOISE, truth.shape)
    known = random_cells(truth, k, rng)
    library = rows * rng.lognormal(0.0, NOISE, rows.shape)
    few = roofline(sparse, capacity, rng) * rng.lognormal(0.0, NOISE, (sparse, columns))
    few[~random_cells(few, SPARSE_CELLS, rng)] = np.nan
    case = Case(
        np.vstack([library, few]),
        np.arange(dense + sparse),
        truth,
        observed,
        known,
        np.arange(new),
        Scale.LOG,
    )
    logs = np.log(observed)
    means = [_posterior(prior, logs[i], np.flatnonzero(known[i])) for i in range(new)]
    return Generated(case, np.exp(np.array(means)))


def roofline(n: int, capacity: Floats, rng: np.random.Generator) -> Floats:
    """(n, m) speed of applications on platforms of (K, m) capacities, 1 on their best one."""
    demand = rng.dirichlet(np.full(BOTTLENECKS, CONCENTRATION), size=n)
    speed = 1.0 / (demand @ (1.0 / capacity))
    return speed / speed.max(axis=1, keepdims=True)


def _posterior(prior: Floats, logs: Floats, at: Ints) -> Floats:
    log_weight = -0.5 * (((prior[:, at] - logs[at]) / NOISE) ** 2).sum(axis=1)
    weight = np.exp(log_weight - log_weight.max())
    return (weight / weight.sum()) @ prior
