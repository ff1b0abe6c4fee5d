"""Preview profiles under overrides: inferred by a worker for a process that waits.

Inference needs numba and fitted estimators, which cost seconds and 100 MB in every web process. So
a worker infers the profile with the code of `services.profiles` and puts the result in the cache,
from which the waiting process reads it. No row is written.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from apps.classification import selectors
from apps.classification.core.cells import KnownCell, Source
from apps.classification.models import Profile as ProfileRow
from apps.classification.services.overrides import NewOverride
from apps.classification.services.profiles import InferredProfile, infer
from apps.common.core.errors import ConflictError
from apps.common.infrastructure.worker_results import await_result, store_result
from apps.workloads.models import Application

WAIT_S: Final = 15.0  # wall seconds: after an installation the kernels are compiled first


def store_preview(key: str, application_id: UUID, cells: Sequence[NewOverride]) -> None:
    """Infer a profile as if the overrides were in force and store it for `await_preview`.

    Parameters
    ----------
    key : unique per request
    """
    store_result(key, _preview(application_id, cells))


def _preview(application_id: UUID, cells: Sequence[NewOverride]) -> dict[str, Any]:
    application = Application.objects.get(pk=application_id)
    by_hand = [
        KnownCell(cell.matrix, cell.column, cell.value, 0.0, Source.OVERRIDE, 1, 0.0)
        for cell in cells
    ]
    every = [*selectors.known_cells_of(application_id), *by_hand]
    known = {(cell.matrix, cell.column): cell for cell in every}  # overrides replace measurements
    try:
        profile, drawn = infer(application, list(known.values()))
    except ValueError as error:
        # no library, or an impossible value: the caller reports it, the log does not
        return {"refused": str(error)}
    return {"revision": profile.revision, "flags": list(profile.flags), "cells": drawn}


def await_preview(key: str, application: Application) -> InferredProfile:
    """Wait for the profile that a worker infers.

    Raises
    ------
    ConflictError : no matrix revision covers this cluster.
    TransientError : no worker answered in time.
    """
    result = await_result(key, within_s=WAIT_S)
    if "refused" in result:
        raise ConflictError(result["refused"])
    # parsed like a stored profile, so that both show the same values
    row = ProfileRow(application=application, **result)
    return InferredProfile(selectors.from_row(row), row.cells)
