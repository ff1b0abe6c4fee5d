"""Feedback from running jobs: compare predictions with measured rates, update cells, detect drift.

The observations of an application are stored (`PredictionError`), and belief and drift are always
computed from all of them. So the result does not depend on the order of work, and a crashed
process loses nothing.

Source: Quasar §3.2 (Q5), §4.1; Paragon P7.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final
from uuid import UUID

from django.db import transaction

from apps.classification import selectors
from apps.classification.core.cells import KnownCell, Source
from apps.classification.core.drift import REASON, Cusum, cusum
from apps.classification.core.feedback import (
    Belief,
    BeliefUpdate,
    CellKey,
    Observation,
    cells_to_record,
    predict,
    prior_belief,
    update_belief,
)
from apps.classification.core.inference import infer_profile, without_application
from apps.classification.core.known_cells import TELEMETRY
from apps.classification.core.matrix import RATE_COLUMNS, Cell, MatrixName
from apps.classification.models import Drift
from apps.classification.selectors.known_cells import (
    profiled_cells_of,
    telemetry_cells_of,
    valid_since,
)
from apps.classification.services.profiles import request_folds
from apps.common.core.errors import ConflictError
from apps.common.infrastructure.database import fetch_rows
from apps.inventory.selectors import cluster_now
from apps.operations.services import NewEvent, record_events
from apps.profiling.models import OPEN_STATES, Measurement, ProfilingRun, RunState
from apps.profiling.services import lock_applications, request_run
from apps.workloads.models import Application
from apps.workloads.services import lock_against_deletion

logger = logging.getLogger(__name__)

MAX_OBSERVATIONS: Final = 64  # newest observations of an application that are used
# Cluster seconds before a drifted application is profiled again, after a run that failed or did
# not help. Applications with phases, or sensitive to their neighbours, drift again after every
# profiling run; so the delay doubles with each run, up to a day.
RETRY_S: Final = 3600.0
MAX_RETRY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class JobObservation:
    """One observation of a job; ``number`` counts the observations of the job."""

    application_id: UUID
    job_id: UUID
    number: int
    at_s: float
    observation: Observation


_INSERT: Final = """
INSERT INTO classification_predictionerror
    (application_id, job_id, profile_id, number, cluster_s, predicted, measured, deviation, beyond)
SELECT d.* FROM unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::int[], %s::float8[], %s::float8[],
                       %s::float8[], %s::float8[], %s::float8[])
    AS d(application, job, profile, number, at_s, predicted, measured, deviation, beyond)
ON CONFLICT DO NOTHING RETURNING application_id
"""


def record_observations(rows: Sequence[JobObservation]) -> set[UUID]:
    """Store observations with the predictions of the current profiles, each observation once.

    Return the applications with new observations. Applications without a profile, and jobs that
    were deleted, are skipped.
    """
    current = selectors.current_profile_ids({row.application_id for row in rows})
    columns: list[tuple[object, ...]] = []
    for row in rows:
        profile_id, observation = current.get(row.application_id), row.observation
        expected = None if profile_id is None else predict(_in_force(profile_id), observation)
        if expected is not None:
            columns.append(
                (
                    *(row.application_id, row.job_id, profile_id, row.number, row.at_s),
                    *(expected.rate, observation.rate, expected.deviation),
                    observation.beyond,
                )
            )
    with transaction.atomic():
        jobs = lock_against_deletion(row.job_id for row in rows)
        kept = [values for values in columns if values[1] in jobs]
        if not kept:
            return set()
        stored = fetch_rows(_INSERT, [list(column) for column in zip(*kept, strict=True)])
    return {key for (key,) in stored}


@lru_cache(maxsize=1024)
def _in_force(profile_id: UUID) -> Belief:
    return prior_belief(selectors.profiles([profile_id])[profile_id])


def learn(application_id: UUID, observations: Sequence[Observation]) -> bool:
    """Update drift and cells of an application from its observations.

    Cells that changed enough are stored as telemetry measurements, and a new profile is requested.
    No cells are stored while a drifted application is profiled again. Return whether a new profile
    was requested.

    Parameters
    ----------
    observations : oldest first, since `valid_since`
    """
    before = _belief_from_profiling(application_id)
    update = update_belief(before, observations)
    sums = cusum(update.innovations, update.errors)
    with transaction.atomic():
        (application,) = lock_applications([application_id])
        drift, has_drifted = _store_cusum(application, sums)
        remeasure = (
            _Remeasure.NO
            if drift.flagged_s is None
            else _remeasurement(application, drift.flagged_s)
        )
        cells = (
            [] if remeasure is not _Remeasure.NO else _record_cells(application, before, update)
        )
        if has_drifted:
            record_events([_drift_event(application, sums)])
    if remeasure is _Remeasure.ASK:
        _request_remeasurement(application)
    return bool(cells)


class _Remeasure(Enum):
    """Whether a drifted application is to be profiled again; if not, its cells are updated."""

    NO = 0
    ASK = 1
    OPEN = 2


def _belief_from_profiling(application_id: UUID) -> Belief:
    """Return the belief from profiling and overrides, without telemetry."""
    known = profiled_cells_of(application_id)
    library = selectors.current_library()
    return _profiled_belief(application_id, library.revision, tuple(known))


@lru_cache(maxsize=512)
def _profiled_belief(application_id: UUID, revision: int, known: tuple[KnownCell, ...]) -> Belief:
    """Cache beliefs: jobs are observed far more often than applications are profiled."""
    application = Application.objects.get(id=application_id)
    library = without_application(selectors.current_library(), application.name)
    profile = infer_profile(
        application.name,
        application.kind,
        known,
        library,
        platforms=library.matrices[MatrixName.HETEROGENEITY].columns,
    )
    sources = {CellKey(cell.matrix, cell.column): cell.source for cell in known}
    rates = [sources.get(CellKey(MatrixName.BASE_RATE, column)) for column in RATE_COLUMNS]
    return prior_belief(
        profile,
        fixed={place for place, source in sources.items() if source is Source.OVERRIDE},
        tied=all(source is Source.MEASURED for source in rates),
    )


def _store_cusum(application: Application, sums: Cusum) -> tuple[Drift, bool]:
    """Store the sums; return whether drift was detected now."""
    drift, _ = Drift.objects.get_or_create(application=application)
    drift.observations, drift.mean_error = sums.observations, sums.mean_error
    drift.faster, drift.slower = sums.faster, sums.slower
    since_s = valid_since([application.id]).get(application.id, -math.inf)
    if drift.flagged_s is not None and since_s >= drift.flagged_s:
        drift.flagged_s = None  # it was profiled again since
    has_drifted = sums.is_flagged and drift.flagged_s is None
    if has_drifted:
        drift.flagged_s = cluster_now()
    drift.save()
    return drift, has_drifted


def _record_cells(application: Application, before: Belief, update: BeliefUpdate) -> list[Cell]:
    cells = cells_to_record(before, update.belief, telemetry_cells_of(application.id))
    if cells:
        now_s, samples = cluster_now(), int(update.innovations.size)
        Measurement.objects.bulk_create(
            Measurement(
                application=application,
                matrix=cell.matrix.value,
                column=cell.column,
                value=cell.value,
                standard_error=cell.standard_error,
                samples=samples,
                cluster_s=now_s,
                source=TELEMETRY,
            )
            for cell in cells
        )
        request_folds([application.id])
    return cells


def _drift_event(application: Application, sums: Cusum) -> NewEvent:
    return NewEvent(
        topic="applications",
        kind="application.drifted",
        subject=str(application.id),
        data={"name": application.name, "mean_error": round(sums.mean_error, 3)},
    )


def _remeasurement(application: Application, flagged_s: float | None) -> _Remeasure:
    """Return whether a drifted application is being profiled again, or must be now."""
    if flagged_s is None:
        return _Remeasure.NO
    runs = ProfilingRun.objects.filter(application=application, reason=REASON)
    runs_so_far = list(runs.order_by("requested_s").values_list("requested_s", "state"))
    if not runs_so_far:
        return _Remeasure.ASK
    last_s, state = runs_so_far[-1]
    if state in OPEN_STATES:
        return _Remeasure.OPEN
    failed = state in {RunState.FAILED, RunState.CANCELLED}
    wait_s = RETRY_S if failed else min(RETRY_S * 2.0 ** (len(runs_so_far) - 1), MAX_RETRY_S)
    is_due = (failed or last_s < flagged_s) and cluster_now() - last_s >= wait_s
    return _Remeasure.ASK if is_due else _Remeasure.NO


def _request_remeasurement(application: Application) -> None:
    """Request a thorough profiling run; the old profile stays in use until it ends."""
    try:
        request_run(application.id, reason=REASON, thorough=True)
    except ConflictError as error:
        # already being profiled, or no free server: the next poll retries
        logger.info("cannot profile %s again after drift yet: %s", application.name, error)
