"""Revisions of the utility matrices: written whole, swapped in at once, never changed."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db import transaction
from django.db.models import Max

from apps.classification import selectors
from apps.classification.core.assemble import Library, model_of
from apps.classification.core.cells import Cells, KnownCell, table, training
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
STEPS = 2 * len(MatrixName)  # of a retraining: each matrix is learnt, then tried out


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
    """One matrix ready to be stored."""

    name: MatrixName
    columns: tuple[str, ...]
    cells: Cells
    learnt: Matrix
    evaluation: dict[str, Any]


def store_library(library: Rows, *, platforms: tuple[str, ...]) -> int:
    """Make measured rows the library of a new revision; returns its number.

    Live applications that were measured stay rows of it. How well it infers is tried out later
    (`evaluate_revision`).

    Parameters
    ----------
    library : known cells of each application of the library, by name
    platforms : columns of the heterogeneity matrix, highest-end first
    """
    started = time.perf_counter()
    source = _input(library, {name: columns_of(name, platforms) for name in MatrixName})
    made = [_made(name, source) for name in MatrixName]
    return _store(source, made, reason=RevisionReason.LIBRARY, started=started)


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
    made = []
    for name in MatrixName:
        step(f"learning {name.value} from {len(source.rows):,} applications")
        one = _made(name, source)
        step(f"hiding cells of {name.value} to see how well it infers them")
        made.append(_evaluated(one))
    return _store(source, made, reason=reason, started=started, operation=operation)


def evaluate_revision(number: int, matrix: MatrixName) -> bool:
    """Write down how well one matrix of a revision infers hidden cells; once.

    False where that was done before, or the revision is gone.
    """
    rows = MatrixRevision.objects.filter(revision_id=number, matrix=matrix.value, evaluation={})
    row = rows.first()
    if row is None:
        return False
    learnt = training(matrix, row.rows, row.columns, selectors.cells_in(row))
    return bool(rows.update(evaluation=_report(learnt)))


def _input(library: Rows, columns: Mapping[MatrixName, tuple[str, ...]]) -> _Input:
    """Read what is known now; a live application of the name of a library row is that row."""
    replaces = selectors.current_number()
    newest = Measurement.objects.aggregate(newest=Max("id"))["newest"] or 0
    live = {name: cells for name, cells in selectors.live_rows().items() if name not in library}
    return _Input({**library, **live}, len(library), columns, replaces, newest)


def _made(name: MatrixName, source: _Input) -> _Made:
    columns = source.columns[name]
    cells = table(name, columns, source.rows.values())
    learnt = training(name, list(source.rows), columns, cells)
    if learnt.rows:
        _infer(cells, learnt)
    return _Made(name, columns, cells, learnt, {})


def _evaluated(made: _Made) -> _Made:
    return _Made(made.name, made.columns, made.cells, made.learnt, _report(made.learnt))


def _report(learnt: Matrix) -> dict[str, Any]:
    found = evaluate(learnt, ESTIMATORS[DEFAULT])
    return {"rows": 0} if found is None else found.json


def _infer(cells: Cells, learnt: Matrix) -> None:
    """Write estimates and intervals into the cells, in one batch all rows that have a cell."""
    rows = ~np.isnan(cells["value"]).all(axis=1)
    columns = learnt.known.any(axis=0)
    place = np.ix_(rows, columns)
    value, error = cells["value"][place], cells["standard_error"][place]
    known = ~np.isnan(value)
    model = model_of(DEFAULT, learnt.name.scale, learnt.values[:, columns])
    fold = model.fold(np.where(known, value, 1.0), known, error=np.where(known, error, 0.0))
    for field, found in zip(("estimate", "low", "high"), fold[:3], strict=True):
        cells[field][place] = found


def _store(
    source: _Input,
    made: Sequence[_Made],
    *,
    reason: RevisionReason,
    started: float,
    operation: Operation | None = None,
) -> int:
    """Store a revision and bring it into force, if the one it was made from still is.

    From then on profiling measures first what tells most of the rest, by this revision.
    """
    learnt = Library(0, {one.name: one.learnt for one in made})
    order = ranking(learnt, source.columns[MatrixName.HETEROGENEITY])
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
        MatrixRevision.objects.bulk_create(_row(revision, source, one) for one in made)
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


def _row(revision: Revision, source: _Input, made: _Made) -> MatrixRevision:
    return MatrixRevision(
        revision=revision,
        matrix=made.name.value,
        rows=list(source.rows),
        library_rows=source.library_rows,
        columns=list(made.columns),
        cells=made.cells.tobytes(),
        singular_values=list(singular_values(made.learnt)),
        evaluation=made.evaluation,
    )
