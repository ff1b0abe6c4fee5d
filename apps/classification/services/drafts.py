"""Profiles as corrections would make them: drawn by a worker, for a process that waits for them.

Drawing needs numba and fitted estimators, seconds and 100 MB that every web process would pay for
the few who ask. So a worker draws, by the very code that draws profiles, and leaves what it would
have stored in the cache, where whoever asked picks it up. No row is written.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from apps.classification import selectors
from apps.classification.core.cells import KnownCell, Source
from apps.classification.models import Profile as ProfileRow
from apps.classification.services.folding import Drawn, draw
from apps.classification.services.overrides import NewOverride
from apps.common.answers import await_answer, leave_answer
from apps.common.core.errors import ConflictError
from apps.workloads.models import Application

WAIT_S: Final = 15.0  # of wall time: after an installation the kernels are compiled first


def leave_draft(key: str, application_id: UUID, cells: Sequence[NewOverride]) -> None:
    """Draw a profile as if the corrections were in force and leave it where `await_draft` looks.

    Parameters
    ----------
    key : of this one question
    """
    leave_answer(key, _drawn(application_id, cells))


def _drawn(application_id: UUID, cells: Sequence[NewOverride]) -> dict[str, Any]:
    application = Application.objects.get(pk=application_id)
    by_hand = [
        KnownCell(cell.matrix, cell.column, cell.value, 0.0, Source.OVERRIDE, 1, 0.0)
        for cell in cells
    ]
    every = [*selectors.known_cells_of(application_id), *by_hand]
    known = {(cell.matrix, cell.column): cell for cell in every}  # the later outranks
    try:
        profile, drawn = draw(application, list(known.values()))
    except ValueError as error:
        # no library, or a cell that cannot be a measurement: for whoever asked, not for our log
        return {"refused": str(error)}
    return {"revision": profile.revision, "flags": list(profile.flags), "cells": drawn}


def await_draft(key: str, application: Application) -> Drawn:
    """Wait for what a worker draws.

    Raises
    ------
    ConflictError : no profile can be drawn, there are no matrices that know this cluster.
    TransientError : no worker answered in time.
    """
    found = await_answer(key, within_s=WAIT_S)
    if "refused" in found:
        raise ConflictError(found["refused"])
    # read as a stored one is, so that a draft says what the profile will
    row = ProfileRow(application=application, **found)
    return Drawn(selectors.from_row(row), row.cells)
