"""Time of the default estimator next to peers that solve the same problem.

1,000 rows of the roofline generator x 40 columns, two known cells in each new row, at columns of
its own; 5,000 x 40 for the refit; and a whole new job of the emulated cluster: all six matrices.
The default checks its input and answers with intervals; the peers are their bare formula. Every
figure comes from repetitions taken in turn with the peers.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.estimators import DEFAULT, ESTIMATORS
from apps.classification.core.estimators.baselines import nearest_rows
from apps.classification.core.estimators.factors import Bias, alternating, reconstruction
from apps.classification.core.estimators.protocol import Learner, Observed, Predictor, Rows
from apps.classification.core.inference import Library, infer_profile
from apps.classification.core.matrix import Cell, MatrixName, Scale, columns_of, from_cells
from apps.emulation.core.library import library as emulated_library
from apps.emulation.core.platforms import CAPACITY, catalogue
from benchmarks._generated import Size, roofline_case
from benchmarks._held_out import Case

ROWS: Final = 1000
MANY: Final = 5000
COLUMNS: Final = 40
KNOWN: Final = 2
BATCH: Final = 1000
GOAL_ONE_US: Final = 100.0
GOAL_EACH_US: Final = 5.0
GOAL_JOB_MS: Final = 0.5
GOAL_REFIT: Final = 0.1  # of training PQ again
PEERS: Final[dict[str, Learner]] = {"knn": nearest_rows(5), "als": alternating}
RETRAINED: Final[dict[str, Learner]] = {
    "pq_paragon": reconstruction(Bias.NONE, aligned=False),
    "pq_quasar": reconstruction(Bias.ROW, aligned=False),
}

MS: Final = (1e3, "ms")
US: Final = (1e6, "us")

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Timing:
    """One timing: median and minimum of the rounds; a busy machine disturbs the minimum less.

    ``goal`` is in the same unit, None without a goal.
    """

    what: str
    method: str
    median: float
    minimum: float
    unit: str
    goal: float | None = None

    def __str__(self) -> str:
        goal = "" if self.goal is None else f"  goal {self.goal:.3g}"
        figures = f"{self.median:9.2f} {self.unit}, minimum {self.minimum:9.2f} {self.unit}"
        return f"{self.what:<42} {self.method:<11} {figures}{goal}"


def timings(repeat: int, seed: int) -> list[Timing]:
    """Measure everything; half a minute."""
    return [*_fits(repeat, seed), *_answers(repeat, seed), *_job(repeat, seed)]


class CallSeconds(NamedTuple):
    """Seconds of one call."""

    median: float
    minimum: float


def call_seconds(works: Mapping[str, Work], repeat: int, loops: int = 1) -> dict[str, CallSeconds]:
    """Seconds per call over ``repeat`` rounds in turn; the first call of each is not timed."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(repeat):
        for name, work in works.items():
            began = time.perf_counter()
            for _ in range(loops):
                work()
            seconds[name].append((time.perf_counter() - began) / loops)
    return {name: CallSeconds(float(np.median(each)), min(each)) for name, each in seconds.items()}


def _timing(
    what: tuple[str, str], timing: CallSeconds, unit: tuple[float, str], goal: float | None = None
) -> Timing:
    per_s, name = unit
    return Timing(*what, timing.median * per_s, timing.minimum * per_s, name, goal)


def _fits(repeat: int, seed: int) -> list[Timing]:
    """Fit a library for the first time, refit it, and retrain PQ for comparison."""
    small = roofline_case(Size(ROWS, 0, COLUMNS), 1, KNOWN, seed).case
    large = roofline_case(Size(MANY, 0, COLUMNS), 1, KNOWN, seed).case
    default = ESTIMATORS[DEFAULT]

    def first() -> object:
        model = default.fit(small.library, scale=Scale.LOG)
        return model.fold(small.observed, small.known)

    tuned_once = default.fit(large.library, scale=Scale.LOG)
    tuned_once.tuned(KNOWN)

    def refit() -> object:
        return default.fit(large.library, scale=Scale.LOG, tunings=tuned_once.tunings)

    pq = {name: _row_work(_fitted(learner, large), large) for name, learner in RETRAINED.items()}
    tuned = call_seconds({DEFAULT: first}, max(1, repeat // 3))[DEFAULT]
    timings = call_seconds({DEFAULT: refit, **pq}, repeat)
    goal = GOAL_REFIT * 1e3 * min(timings[name].median for name in RETRAINED)
    again = f"retraining {MANY} x {COLUMNS} for one row"
    return [
        _timing((f"first fit of {ROWS} x {COLUMNS} and one row", DEFAULT), tuned, MS),
        _timing((f"full refit of {MANY} x {COLUMNS}", DEFAULT), timings[DEFAULT], MS, goal),
        *(_timing((again, name), timings[name], MS) for name in RETRAINED),
    ]


def _answers(repeat: int, seed: int) -> list[Timing]:
    """One new row, and a thousand at once, with intervals."""
    case = roofline_case(Size(ROWS, 0, COLUMNS), BATCH, KNOWN, seed).case
    model = ESTIMATORS[DEFAULT].fit(case.library, scale=Scale.LOG)
    rows = np.where(case.known, case.observed, 1.0)
    peers = {name: _fitted(learner, case) for name, learner in PEERS.items()}
    alone: dict[str, Work] = {DEFAULT: lambda: model.fold(rows[0], case.known[0])}
    together: dict[str, Work] = {DEFAULT: lambda: model.fold(rows, case.known)}
    for name, predictors in peers.items():
        alone[name] = _row_work(predictors, case, rows=1)
        together[name] = _row_work(predictors, case)
    timing = call_seconds(alone, repeat, loops=200)
    batch = call_seconds(together, repeat)
    single, many = f"one row of {ROWS} x {COLUMNS}", f"{BATCH} rows at once, each"
    each = (1e6 / BATCH, "us")
    return [
        _timing((single, DEFAULT), timing[DEFAULT], US, GOAL_ONE_US),
        *(_timing((single, name), timing[name], US) for name in PEERS),
        _timing((many, DEFAULT), batch[DEFAULT], each, GOAL_EACH_US),
        *(_timing((many, name), batch[name], each) for name in PEERS),
    ]


def _job(repeat: int, seed: int) -> list[Timing]:
    """Estimates of all six matrices from two cells of each."""
    platforms = catalogue(list(CAPACITY), seed=seed)
    names = tuple(platforms.names)
    measured = {
        e.application: [
            Cell(MatrixName(c.matrix), c.column, c.value, c.standard_error) for c in e.cells
        ]
        for e in emulated_library(seed, platforms)
    }
    matrices = {name: from_cells(name, columns_of(name, names), measured) for name in MatrixName}
    first = next(iter(measured.values()))
    columns = {name: columns_of(name, names)[:KNOWN] for name in MatrixName}
    cells = [cell for cell in first if cell.column in columns[cell.matrix]]
    library = Library(1, matrices)
    folds = []
    for name, matrix in matrices.items():
        model = ESTIMATORS[DEFAULT].fit(matrix.values, scale=name.scale)
        known = np.arange(len(matrix.columns)) < KNOWN
        folds.append((model, np.where(known, matrix.values[0], 1.0), known))
    works: dict[str, Work] = {
        "folds": lambda: [model.fold(row, known) for model, row, known in folds],
        "profile": lambda: infer_profile("new", "batch", cells, library, platforms=names),
    }
    timings = call_seconds(works, repeat, loops=20)
    what = f"a new job's six matrices ({len(measured)} rows)"
    return [
        _timing((what, DEFAULT), timings["folds"], MS, GOAL_JOB_MS),
        _timing(("the same, from cells to a profile", DEFAULT), timings["profile"], MS),
    ]


def _fitted(learner: Learner, case: Case) -> Predictor:
    z = np.log(case.library)
    rows = Rows(z, np.ones(z.shape, dtype=np.bool_), np.arange(len(z)))
    return learner(rows, np.random.default_rng(0))


def _row_work(predictor: Predictor, case: Case, rows: int = BATCH) -> Work:
    at = np.nonzero(case.known[:rows])[1].reshape(-1, KNOWN)
    z = np.log(np.take_along_axis(case.observed[:rows], at, axis=1))
    observed = Observed(at, z, np.zeros(z.shape))
    return lambda: predictor.predict(observed)
