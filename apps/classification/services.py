"""Writes of classification: the library of dense rows, and the profile of each application."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from django.db import transaction
from django.db.models import Max

from apps.classification import selectors
from apps.classification.core.assemble import Library, assemble
from apps.classification.core.estimators import DEFAULT
from apps.classification.core.matrix import Cell, MatrixName, columns_of, from_cells
from apps.classification.models import MatrixRevision
from apps.classification.models import Profile as ProfileRow
from apps.profiling.models import ProfilingRun, RunState
from apps.profiling.selectors import measurements_of
from apps.profiling.services import lock_applications, request_runs
from apps.workloads import services as workloads
from apps.workloads.core.lifecycle import JobState
from apps.workloads.models import Application, Job


def store_library(
    rows: Mapping[str, Sequence[Cell]], *, platforms: tuple[str, ...], estimator: str = DEFAULT
) -> int:
    """Make measured rows the current revision of every matrix; returns its number.

    Parameters
    ----------
    rows : cells of each application of the library, by name
    platforms : columns of the heterogeneity matrix, highest-end first
    """
    with transaction.atomic():
        MatrixRevision.objects.select_for_update().filter(is_current=True).order_by("id").first()
        number = (MatrixRevision.objects.aggregate(last=Max("number"))["last"] or 0) + 1
        MatrixRevision.objects.filter(is_current=True).update(is_current=False)
        for name in MatrixName:
            matrix = from_cells(name, columns_of(name, platforms), rows)
            MatrixRevision.objects.create(
                matrix=name.value,
                number=number,
                estimator=estimator,
                rows=list(matrix.rows),
                columns=list(matrix.columns),
                values=np.ascontiguousarray(matrix.values, dtype=np.float64).tobytes(),
                is_current=True,
            )
    return number


def classify(application: Application) -> ProfileRow:
    """Fold an application's measurements into a new current profile.

    In the caller's transaction, which holds the application's row.

    Raises
    ------
    NoLibraryError : there is no library to fold into.
    """
    library = selectors.current_library()
    platforms = library.matrices[MatrixName.HETEROGENEITY].columns
    cells = [
        Cell(MatrixName(row.matrix), row.column, row.value, row.standard_error)
        for row in measurements_of(application.id)
    ]
    profile = assemble(
        application.name,
        application.kind,
        cells,
        _without(library, application.name),
        platforms=platforms,
        estimator=DEFAULT,
    )
    earlier = ProfileRow.objects.filter(application=application)
    number = (earlier.aggregate(last=Max("number"))["last"] or 0) + 1
    earlier.filter(is_current=True).update(is_current=False)
    columns = {name: columns_of(name, platforms) for name in MatrixName}
    return ProfileRow.objects.create(
        application=application,
        number=number,
        revision=library.revision,
        estimator=DEFAULT,
        cells=selectors.cells_of(profile, columns),
    )


def classify_again() -> int:
    """Fold the measurements of every profiled application into the current library.

    After a new revision: a profile of the one before knows nothing of new platforms, so its jobs
    would never be placed there. Returns the applications classified.

    Raises
    ------
    NoLibraryError : there is no library to fold into.
    """
    rows = ProfileRow.objects.filter(is_current=True).order_by("application_id")
    known = list(rows.values_list("application_id", flat=True))
    for application_id in known:
        with transaction.atomic():
            for application in lock_applications([application_id]):
                classify(application)
    return len(known)


def _without(library: Library, application: str) -> Library:
    """Return the library without the row of an application that has its own measurements."""
    if all(application not in matrix.rows for matrix in library.matrices.values()):
        return library
    matrices = {}
    for name, matrix in library.matrices.items():
        others = [i for i, row in enumerate(matrix.rows) if row != application]
        rows = tuple(matrix.rows[i] for i in others)
        matrices[name] = replace(matrix, rows=rows, values=matrix.values[others])
    return replace(library, matrices=matrices)


def repair_waiting() -> int:
    """Move on the jobs that wait for a profile which nobody is about to make.

    Sends of jobs to profiling and ends of runs hold the application's row, so this finds something
    only after somebody changed rows by hand or a backend was removed. Returns the applications
    repaired.
    """
    waiting = set(
        Job.objects.filter(state=JobState.PROFILING).values_list("application_id", flat=True)
    )
    measured = set(
        ProfilingRun.objects.filter(
            application_id__in=waiting, state__in=[RunState.QUEUED, RunState.RUNNING]
        ).values_list("application_id", flat=True)
    )
    stuck = sorted(waiting - measured)
    for application_id in stuck:
        with transaction.atomic():
            lock_applications([application_id])
            if selectors.current_profile_ids([application_id]):
                workloads.queue_profiled(application_id)
            else:
                request_runs([application_id])
    return len(stuck)
