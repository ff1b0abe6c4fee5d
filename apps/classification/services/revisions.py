"""Revisions of the utility matrices: written whole, swapped in at once, never changed."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from django.db import transaction
from django.db.models import Max

from apps.classification import selectors
from apps.classification.core.assemble import POOLS, Library, places_in, pool_model
from apps.classification.core.cells import Cells, KnownCell, show_known, table, training
from apps.classification.core.estimators import DEFAULT, ESTIMATORS
from apps.classification.core.evaluate import evaluate, singular_values
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
Step = Callable[[str], None]
STEPS: Final = 1 + 2 * len(POOLS)  # of a retraining


class StaleRevisionError(RuntimeError):
    """Another revision came into force while this one was made."""


@dataclass(frozen=True, slots=True)
class _Input:
    """What a revision is made of.

    Attributes
    ----------
    rows : known cells of each application, those of the library first
    columns : of each matrix
    replaces : number of the revision in force when they were read
    last_measurement : id of the newest one among them
    """

    rows: Rows
    library_rows: int
    columns: Mapping[MatrixName, tuple[str, ...]]
    replaces: int | None
    last_measurement: int


@dataclass(frozen=True, slots=True)
class _Made:
    """One matrix on its way to be stored."""

    columns: tuple[str, ...]
    cells: Cells
    learnt: Matrix
    evaluation: dict[str, Any] = field(default_factory=dict)


_Matrices = dict[MatrixName, _Made]


def store_library(library: Rows, *, platforms: tuple[str, ...]) -> int:
    """Make measured rows the library of a new revision; returns its number.

    Live applications that were measured stay rows of it. What it infers, and how well, is worked
    out afterwards (`complete_revision`); known cells have their estimate from the start.

    Parameters
    ----------
    library : known cells of each application of the library, by name
    platforms : columns of the heterogeneity matrix, highest-end first
    """
    started = time.perf_counter()
    source = _input(library, {name: columns_of(name, platforms) for name in MatrixName})
    return _store(source, _laid_out(source), reason=RevisionReason.LIBRARY, started=started)


def retrain(*, reason: RevisionReason, step: Step, operation: Operation | None = None) -> int:
    """Learn all matrices anew from everything measured, and swap the new revision in.

    Fold-ins go on with the revision in force until the last statement of this (Quasar §3.2, Q2).

    Parameters
    ----------
    step : told before each of the `STEPS` what comes; may raise to stop, and nothing is changed

    Raises
    ------
    NoLibraryError : there is nothing to start from.
    StaleRevisionError : another revision came into force meanwhile; nothing is changed.
    """
    started = time.perf_counter()
    library = selectors.library_rows()
    every = {name: columns_of(name, library.platforms) for name in MatrixName}
    source = _input(library.rows, {**every, **library.columns})
    step(f"laying out {len(source.rows):,} applications")
    made = _laid_out(source)
    for pool in POOLS:
        names = " and ".join(name.value for name in pool)
        step(f"inferring {names} of {len(source.rows):,} applications")
        _infer(made, pool)
        step(f"hiding cells of {names} to see how well they are inferred")
        _evaluate(made, pool)
    return _store(source, made, reason=reason, started=started, operation=operation)


def complete_revision(number: int, matrix: MatrixName) -> bool:
    """Write down what a matrix of a revision, and those completed with it, infer, and how well.

    Once: False where that was done before, or the revision is gone.
    """
    pool = next(pool for pool in POOLS if matrix in pool)
    rows = MatrixRevision.objects.filter(
        revision_id=number, matrix__in=[name.value for name in pool], evaluation={}
    )
    made = {MatrixName(row.matrix): _read_back(row) for row in rows}
    if matrix not in made:
        return False
    _infer(made, pool)
    _evaluate(made, pool)
    for name, one in made.items():
        rows.filter(matrix=name.value).update(cells=one.cells.tobytes(), evaluation=one.evaluation)
    return True


def _read_back(row: MatrixRevision) -> "_Made":
    name, cells = MatrixName(row.matrix), selectors.cells_in(row).copy()
    return _Made(tuple(row.columns), cells, training(name, row.rows, row.columns, cells))


def _input(library: Rows, columns: Mapping[MatrixName, tuple[str, ...]]) -> _Input:
    """Read what is known now; a live application of the name of a library row is that row."""
    replaces = selectors.current_number()
    newest = Measurement.objects.aggregate(newest=Max("id"))["newest"] or 0
    live = {name: cells for name, cells in selectors.live_rows().items() if name not in library}
    return _Input({**library, **live}, len(library), columns, replaces, newest)


def _laid_out(source: _Input) -> _Matrices:
    made = {}
    for name in MatrixName:
        columns = source.columns[name]
        cells = table(name, columns, source.rows.values())
        show_known(cells, name.scale)
        made[name] = _Made(columns, cells, training(name, list(source.rows), columns, cells))
    return made


def _told(made: _Matrices, pool: Sequence[MatrixName]) -> tuple[MatrixName, ...]:
    """Those of a pool of which anything is known to learn from."""
    return tuple(name for name in pool if name in made and made[name].learnt.known.any())


def _library(made: _Matrices) -> tuple[Library, tuple[str, ...]]:
    """Return what is learnt, and the platforms."""
    library = Library(0, {name: one.learnt for name, one in made.items()})
    platforms = made.get(MatrixName.HETEROGENEITY)
    return library, platforms.columns if platforms else ()


def _infer(made: _Matrices, pool: Sequence[MatrixName]) -> None:
    """Write estimates and intervals into the cells, in one batch all rows that have a cell."""
    told = _told(made, pool)
    if not told:
        return
    library, platforms = _library(made)
    value = np.hstack([made[name].cells["value"] for name in told])
    error = np.hstack([made[name].cells["standard_error"] for name in told])
    rows = np.flatnonzero(~np.isnan(value).all(axis=1))
    known = ~np.isnan(value[rows])
    fold = pool_model(library, told, platforms, DEFAULT).fold(
        np.where(known, value[rows], 1.0), known, error=np.where(known, error[rows], 0.0)
    )
    for name, part in places_in(library, told, platforms).items():
        cells = made[name].cells
        cells["estimate"][rows] = fold.value[:, part]
        cells["low"][rows] = fold.low[:, part]
        cells["high"][rows] = fold.high[:, part]


def _evaluate(made: _Matrices, pool: Sequence[MatrixName]) -> None:
    """Tell of each matrix how well hidden cells are inferred."""
    told = _told(made, pool)
    library, platforms = _library(made)
    found = evaluate(library, told, ESTIMATORS[DEFAULT], platforms=platforms) if told else {}
    for name in pool:
        if name in made:
            report = found[name].json if name in found else {"rows": 0}
            made[name].evaluation.update(report)


def _store(
    source: _Input,
    made: _Matrices,
    *,
    reason: RevisionReason,
    started: float,
    operation: Operation | None = None,
) -> int:
    """Store a revision and bring it into force, if the one it was made from still is.

    From then on profiling measures first what tells most of the rest, by this revision.
    """
    order = ranking(*_library(made))
    with transaction.atomic():
        list(Revision.objects.select_for_update().filter(is_current=True))
        if selectors.current_number() != source.replaces:
            raise StaleRevisionError(f"revision {source.replaces} is no longer in force")
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
            _row(revision, source, name, one) for name, one in made.items()
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


def _row(revision: Revision, source: _Input, name: MatrixName, made: _Made) -> MatrixRevision:
    return MatrixRevision(
        revision=revision,
        matrix=name.value,
        rows=list(source.rows),
        library_rows=source.library_rows,
        columns=list(made.columns),
        cells=made.cells.tobytes(),
        singular_values=list(singular_values(made.learnt)),
        evaluation=made.evaluation,
    )
