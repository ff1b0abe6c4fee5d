"""Revisions of the utility matrices: written whole, swapped in at once, never changed."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from django.db import transaction
from django.db.models import Max

from apps.classification import selectors
from apps.classification.core.assemble import model_of
from apps.classification.core.cells import Cells, KnownCell, table, training
from apps.classification.core.estimators import DEFAULT, ESTIMATORS
from apps.classification.core.evaluate import evaluate, singular_values
from apps.classification.core.matrix import Matrix, MatrixName, columns_of
from apps.classification.models import MatrixRevision, Revision, RevisionReason
from apps.inventory.selectors import cluster_now
from apps.operations.services import NewEvent, record_events

Rows = Mapping[str, Sequence[KnownCell]]


class StaleRevisionError(RuntimeError):
    """Another revision came into force while this one was made."""


@dataclass(frozen=True, slots=True)
class _Made:
    """One matrix ready to be stored."""

    name: MatrixName
    columns: tuple[str, ...]
    cells: Cells
    learnt: Matrix


def store_library(library: Rows, *, platforms: tuple[str, ...], estimator: str = DEFAULT) -> int:
    """Make measured rows the library of a new revision; returns its number.

    Live applications that were measured stay rows of it.

    Parameters
    ----------
    library : known cells of each application of the library, by name
    platforms : columns of the heterogeneity matrix, highest-end first
    """
    before = selectors.current_number()
    started = time.perf_counter()
    rows = _rows(library, selectors.live_rows())
    made = [_made(name, rows, platforms, estimator) for name in MatrixName]
    return _store(
        made,
        library_rows=len(library),
        row_names=list(rows),
        revision=Revision(
            reason=RevisionReason.LIBRARY,
            estimator=estimator,
            seconds=time.perf_counter() - started,
        ),
        replaces=before,
    )


def reclassify(
    *, reason: RevisionReason, operation_id: UUID | None = None, estimator: str = DEFAULT
) -> int:
    """Retrain all matrices with everything measured since, and swap the new revision in.

    Fold-ins go on with the revision in force until the last statement of this (Quasar §3.2, Q2).

    Raises
    ------
    NoLibraryError : there is nothing to start from.
    StaleRevisionError : another revision came into force meanwhile; nothing is changed.
    """
    started = time.perf_counter()
    library = selectors.library_rows()
    rows = _rows(library.rows, selectors.live_rows())
    made = [_made(name, rows, library.platforms, estimator) for name in MatrixName]
    return _store(
        made,
        library_rows=len(library.rows),
        row_names=list(rows),
        revision=Revision(
            reason=reason,
            estimator=estimator,
            seconds=time.perf_counter() - started,
            operation_id=operation_id,
        ),
        replaces=library.number,
    )


def evaluate_revision(number: int, matrix: MatrixName) -> bool:
    """Write down how well one matrix of a revision infers hidden cells; once, after the swap.

    False where that was done before, or the revision is gone.
    """
    row = MatrixRevision.objects.filter(
        revision_id=number, matrix=matrix.value, evaluation={}
    ).first()
    if row is None:
        return False
    learnt = training(matrix, row.rows, row.columns, selectors.cells_in(row))
    found = evaluate(learnt, ESTIMATORS[DEFAULT])
    report = {"rows": 0} if found is None else found.json
    return bool(MatrixRevision.objects.filter(pk=row.pk, evaluation={}).update(evaluation=report))


def _rows(library: Rows, live: Rows) -> dict[str, Sequence[KnownCell]]:
    """Rows of the library first; a live application of the same name is that row."""
    return dict(library) | {name: cells for name, cells in live.items() if name not in library}


def _made(name: MatrixName, rows: Rows, platforms: tuple[str, ...], estimator: str) -> _Made:
    columns = columns_of(name, platforms)
    cells = table(name, columns, rows.values())
    learnt = training(name, list(rows), columns, cells)
    if len(learnt.rows):
        _infer(name, cells, learnt, estimator)
    return _Made(name, columns, cells, learnt)


def _infer(name: MatrixName, cells: Cells, learnt: Matrix, estimator: str) -> None:
    """Write estimates and intervals into the cells, all rows in one batch."""
    columns = learnt.known.any(axis=0)
    known = ~np.isnan(cells["value"])[:, columns]
    fold = model_of(estimator, name.scale, learnt.values[:, columns]).fold(
        np.where(known, cells["value"][:, columns], 1.0),
        known,
        error=np.where(known, cells["standard_error"][:, columns], 0.0),
    )
    for field, array in zip(("estimate", "low", "high"), fold[:3], strict=True):
        part = cells[field]
        part[:, columns] = array


def _store(
    made: Sequence[_Made],
    *,
    library_rows: int,
    row_names: list[str],
    revision: Revision,
    replaces: int | None,
) -> int:
    """Store a revision and bring it into force, if the one it was made from still is."""
    with transaction.atomic():
        list(Revision.objects.select_for_update().filter(is_current=True))
        if selectors.current_number() != replaces:
            raise StaleRevisionError(f"revision {replaces} is no longer in force")
        revision.number = (Revision.objects.aggregate(last=Max("number"))["last"] or 0) + 1
        revision.cluster_s = cluster_now()
        Revision.objects.filter(is_current=True).update(is_current=False)
        revision.is_current = True
        revision.save(force_insert=True)
        MatrixRevision.objects.bulk_create(
            MatrixRevision(
                revision=revision,
                matrix=one.name.value,
                rows=row_names,
                library_rows=library_rows,
                columns=list(one.columns),
                cells=one.cells.tobytes(),
                singular_values=list(singular_values(one.learnt)),
            )
            for one in made
        )
        record_events(
            [
                NewEvent(
                    topic="applications",
                    kind="revision.created",
                    subject=str(revision.number),
                    data={"number": revision.number, "reason": str(revision.reason)},
                )
            ]
        )
    return revision.number
