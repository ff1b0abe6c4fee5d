"""Revisions of the utility matrices: immutable, and replaced in one transaction."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from django.db import transaction
from django.db.models import Max

from apps.classification import selectors
from apps.classification.core.cells import (
    Cells,
    KnownCell,
    cell_table,
    estimate_known_cells,
    training_matrix,
)
from apps.classification.core.estimators import DEFAULT, ESTIMATORS
from apps.classification.core.evaluate import evaluate, singular_values
from apps.classification.core.inference import POOLS, Library, column_slices, fit_pool
from apps.classification.core.matrix import Matrix, MatrixName, columns_of
from apps.classification.core.ranking import ranking
from apps.classification.models import MatrixRevision, Revision, RevisionReason
from apps.inventory.selectors import cluster_now
from apps.operations.core.states import Topic
from apps.operations.models import Operation
from apps.operations.services import NewEvent, record_events
from apps.profiling.models import Measurement
from apps.profiling.services import rank_columns

Rows = Mapping[str, Sequence[KnownCell]]
Report = Callable[[str], None]
STEPS: Final = 1 + 2 * len(POOLS)  # of a retraining


class StaleRevisionError(RuntimeError):
    """Another revision became current during the computation."""


@dataclass(frozen=True, slots=True)
class _Input:
    """Input of a revision.

    Attributes
    ----------
    rows : known cells of each application, library rows first
    columns : column labels of each matrix
    replaces : number of the current revision when the rows were read
    last_measurement : id of the newest measurement among the rows
    """

    rows: Rows
    library_rows: int
    columns: Mapping[MatrixName, tuple[str, ...]]
    replaces: int | None
    last_measurement: int


@dataclass(frozen=True, slots=True)
class _NewMatrix:
    """One matrix of a revision that is not stored yet."""

    columns: tuple[str, ...]
    cells: Cells
    training: Matrix
    evaluation: dict[str, Any] = field(default_factory=dict)


_Matrices = dict[MatrixName, _NewMatrix]


def store_library(library: Rows, *, platforms: tuple[str, ...]) -> int:
    """Store measured rows as the library of a new revision; return its number.

    Measured live applications remain rows. Inferred cells and the evaluation are added later by
    `complete_revision`; known cells have their estimates immediately.

    Parameters
    ----------
    library : known cells of each application of the library, by name
    platforms : columns of the heterogeneity matrix, highest-end first
    """
    started = time.perf_counter()
    source = _input(library, {name: columns_of(name, platforms) for name in MatrixName})
    return _store(source, _new_matrices(source), reason=RevisionReason.LIBRARY, started=started)


def retrain(*, reason: RevisionReason, report: Report, operation: Operation | None = None) -> int:
    """Retrain all matrices from all measurements and make the result the current revision.

    Until the final transaction, fold-ins use the previous revision (Quasar §3.2, Q2).

    Parameters
    ----------
    report : called with a message before each of the `STEPS`; may raise to cancel without changes

    Raises
    ------
    NoLibraryError : there is no revision yet.
    StaleRevisionError : another revision became current; nothing is changed.
    """
    started = time.perf_counter()
    library = selectors.library_rows()
    every = {name: columns_of(name, library.platforms) for name in MatrixName}
    source = _input(library.rows, {**every, **library.columns})
    report(f"loading {len(source.rows):,} applications")
    new = _new_matrices(source)
    for pool in POOLS:
        names = " and ".join(name.value.replace("_", "-") for name in pool)
        report(f"inferring {names} of {len(source.rows):,} applications")
        _infer(new, pool)
        report(f"evaluating {names} on hidden cells")
        _evaluate(new, pool)
    return _store(source, new, reason=reason, started=started, operation=operation)


def complete_revision(number: int, matrix: MatrixName) -> bool:
    """Infer and evaluate a matrix of a revision, with the other matrices of its pool.

    Return False if that was done before or the revision was deleted.
    """
    pool = next(pool for pool in POOLS if matrix in pool)
    rows = MatrixRevision.objects.filter(
        revision_id=number, matrix__in=[name.value for name in pool], evaluation={}
    )
    new = {MatrixName(row.matrix): _read_back(row) for row in rows}
    if matrix not in new:
        return False
    _infer(new, pool)
    _evaluate(new, pool)
    for name, draft in new.items():
        rows.filter(matrix=name.value).update(
            cells=draft.cells.tobytes(), evaluation=draft.evaluation
        )
    return True


def _read_back(row: MatrixRevision) -> _NewMatrix:
    name, cells = MatrixName(row.matrix), selectors.cells_in(row).copy()
    return _NewMatrix(
        tuple(row.columns), cells, training_matrix(name, row.rows, row.columns, cells)
    )


def _input(library: Rows, columns: Mapping[MatrixName, tuple[str, ...]]) -> _Input:
    """Read all known cells; a library row replaces a live application of the same name."""
    replaces = selectors.current_number()
    newest = Measurement.objects.aggregate(newest=Max("id"))["newest"] or 0
    live = {name: cells for name, cells in selectors.live_rows().items() if name not in library}
    return _Input({**library, **live}, len(library), columns, replaces, newest)


def _new_matrices(source: _Input) -> _Matrices:
    new = {}
    for name in MatrixName:
        columns = source.columns[name]
        cells = cell_table(name, columns, source.rows.values())
        estimate_known_cells(cells, name.scale)
        new[name] = _NewMatrix(
            columns, cells, training_matrix(name, list(source.rows), columns, cells)
        )
    return new


def _with_training_cells(new: _Matrices, pool: Sequence[MatrixName]) -> tuple[MatrixName, ...]:
    """Return the matrices of a pool that have training cells."""
    return tuple(name for name in pool if name in new and new[name].training.known.any())


def _library(new: _Matrices) -> tuple[Library, tuple[str, ...]]:
    """Return the training rows and the platforms."""
    library = Library(0, {name: draft.training for name, draft in new.items()})
    platforms = new.get(MatrixName.HETEROGENEITY)
    return library, platforms.columns if platforms else ()


def _infer(new: _Matrices, pool: Sequence[MatrixName]) -> None:
    """Infer all rows with a known cell in one batch, and write the estimates."""
    trained = _with_training_cells(new, pool)
    if not trained:
        return
    library, platforms = _library(new)
    value = np.hstack([new[name].cells["value"] for name in trained])
    error = np.hstack([new[name].cells["standard_error"] for name in trained])
    rows = np.flatnonzero(~np.isnan(value).all(axis=1))
    known = ~np.isnan(value[rows])
    fold = fit_pool(library, trained, platforms, DEFAULT).fold(
        np.where(known, value[rows], 1.0), known, error=np.where(known, error[rows], 0.0)
    )
    for name, part in column_slices(library, trained, platforms).items():
        cells = new[name].cells
        cells["estimate"][rows] = fold.value[:, part]
        cells["low"][rows] = fold.low[:, part]
        cells["high"][rows] = fold.high[:, part]


def _evaluate(new: _Matrices, pool: Sequence[MatrixName]) -> None:
    """Store the accuracy on hidden cells of each matrix."""
    trained = _with_training_cells(new, pool)
    library, platforms = _library(new)
    evaluations = (
        evaluate(library, trained, ESTIMATORS[DEFAULT], platforms=platforms) if trained else {}
    )
    for name in pool:
        if name in new:
            report = evaluations[name].json if name in evaluations else {"rows": 0}
            new[name].evaluation.update(report)


def _store(
    source: _Input,
    new: _Matrices,
    *,
    reason: RevisionReason,
    started: float,
    operation: Operation | None = None,
) -> int:
    """Store a revision as the current one, if the revision it replaces still is current.

    Profiling then uses the column ranking of this revision.
    """
    order = ranking(*_library(new))
    with transaction.atomic():
        list(Revision.objects.select_for_update().filter(is_current=True))
        if selectors.current_number() != source.replaces:
            raise StaleRevisionError(f"revision {source.replaces} is no longer current")
        number = (Revision.objects.aggregate(last=Max("number"))["last"] or 0) + 1
        Revision.objects.filter(is_current=True).update(is_current=False)
        revision = Revision.objects.create(
            number=number,
            reason=reason,
            estimator=DEFAULT,
            is_current=True,
            cluster_s=cluster_now(),
            seconds=time.perf_counter() - started,
            last_measurement=source.last_measurement,
            operation=operation,
        )
        MatrixRevision.objects.bulk_create(
            _row(revision, source, name, draft) for name, draft in new.items()
        )
        rank_columns(order)
        record_events(
            [
                NewEvent(
                    topic=Topic.APPLICATIONS,
                    kind="revision.created",
                    subject=str(number),
                    data={"number": number, "reason": str(reason)},
                )
            ]
        )
    return number


def _row(revision: Revision, source: _Input, name: MatrixName, new: _NewMatrix) -> MatrixRevision:
    return MatrixRevision(
        revision=revision,
        matrix=name.value,
        rows=list(source.rows),
        library_rows=source.library_rows,
        columns=list(new.columns),
        cells=new.cells.tobytes(),
        singular_values=list(singular_values(new.training)),
        evaluation=new.evaluation,
    )
