"""What running jobs teach: predictions held against what they achieve, cells moved, drift told.

The observations of an application are kept (`PredictionError`), and everything is computed anew
from them: the belief that profiling alone gives, all that was seen since, the sums. So nothing
depends on the order of work or on what a process that died had in mind.

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

from django.db import connection, transaction

from apps.classification import selectors
from apps.classification.core.assemble import assemble, without
from apps.classification.core.cells import KnownCell, Source
from apps.classification.core.drift import REASON, Sums, summed
from apps.classification.core.feedback import (
    Belief,
    Followed,
    Observation,
    Place,
    believed,
    follow,
    predict,
    taught,
)
from apps.classification.core.known import TELEMETRY
from apps.classification.core.matrix import RATE_COLUMNS, Cell, MatrixName
from apps.classification.models import Drift
from apps.classification.selectors.known import (
    counted_since,
    profiled_cells_of,
    told_cells_of,
)
from apps.classification.services.folding import request_folds
from apps.common.core.errors import ConflictError
from apps.inventory.selectors import cluster_now
from apps.operations.services import NewEvent, record_events
from apps.profiling.models import OPEN_STATES, Measurement, ProfilingRun, RunState
from apps.profiling.services import lock_applications, request_run
from apps.workloads.models import Application

logger = logging.getLogger(__name__)

REMEMBERED: Final = 64  # newest observations of an application that count
# Cluster seconds after which a profiling run that failed is asked again, and one that did not
# help: an application whose own phases differ, or that its neighbours hurt, drifts again whatever
# is measured of it. So the second run waits this long, then twice, four times ..., a day at most.
RETRY_S: Final = 3600.0
LONGEST_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Achieved:
    """What one job did for a while; ``number`` counts the observations of the job."""

    application_id: UUID
    job_id: UUID
    number: int
    at_s: float
    seen: Observation


_INSERT: Final = """
INSERT INTO classification_predictionerror
    (application_id, job_id, profile_id, number, cluster_s, predicted, measured, deviation, beyond)
SELECT d.* FROM unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::int[], %s::float8[], %s::float8[],
                       %s::float8[], %s::float8[], %s::float8[])
    AS d(application, job, profile, number, at_s, predicted, measured, deviation, beyond)
JOIN workloads_job j ON j.id = d.job
ON CONFLICT DO NOTHING RETURNING application_id
"""


def record_achieved(achieved: Sequence[Achieved]) -> set[UUID]:
    """Write down what jobs achieved beside what their profiles predict, each observation once.

    Returns the applications of which there is something new; those without a profile are left
    out.
    """
    current = selectors.current_profile_ids({row.application_id for row in achieved})
    columns: list[tuple[object, ...]] = []
    for row in achieved:
        profile_id = current.get(row.application_id)
        expected = None if profile_id is None else predict(_in_force(profile_id), row.seen)
        if expected is not None:
            columns.append(
                (
                    *(row.application_id, row.job_id, profile_id, row.number, row.at_s),
                    *(expected.rate, row.seen.rate, expected.deviation, row.seen.beyond),
                )
            )
    if not columns:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, [list(column) for column in zip(*columns, strict=True)])
        return {row[0] for row in cursor.fetchall()}


@lru_cache(maxsize=1024)
def _in_force(profile_id: UUID) -> Belief:
    return believed(selectors.profiles([profile_id])[profile_id])


def learn(application_id: UUID, seen: Sequence[Observation]) -> bool:
    """Draw the conclusions from all observations of an application that count.

    Its drift is told, and its cells are written as measurements of telemetry where they taught
    something worth a new profile, which is then asked for; not while it is measured anew, because
    it has drifted. Returns whether a new profile was asked for.

    Parameters
    ----------
    seen : oldest first, since `counted_since`
    """
    before = _profiled(application_id)
    followed = follow(before, seen)
    sums = summed(followed.innovations, followed.errors)
    with transaction.atomic():
        (application,) = lock_applications([application_id])
        drift, has_drifted = _keep_sums(application, sums)
        anew = (
            _Anew.NO if drift.flagged_s is None else _measured_anew(application, drift.flagged_s)
        )
        told = [] if anew is not _Anew.NO else _tell(application, before, followed)
        if has_drifted:
            record_events([_drifted(application, sums)])
    if anew is _Anew.ASK:
        _measure_anew(application)
    return bool(told)


class _Anew(Enum):
    """Whether an application is measured anew; where it is not, it is learnt of."""

    NO = 0
    ASK = 1
    OPEN = 2


def _profiled(application_id: UUID) -> Belief:
    """Read what profiling and corrections by hand alone make believe."""
    known = profiled_cells_of(application_id)
    library = selectors.current_library()
    return _believed(application_id, library.revision, tuple(known))


@lru_cache(maxsize=512)
def _believed(application_id: UUID, revision: int, known: tuple[KnownCell, ...]) -> Belief:
    """Kept, as an application is learnt of far more often than it is measured."""
    application = Application.objects.get(id=application_id)
    library = without(selectors.current_library(), application.name)
    profile = assemble(
        application.name,
        application.kind,
        [cell.cell for cell in known],
        library,
        platforms=library.matrices[MatrixName.HETEROGENEITY].columns,
    )
    places = {Place(cell.matrix, cell.column): cell.source for cell in known}
    rates = [places.get(Place(MatrixName.BASE_RATE, column)) for column in RATE_COLUMNS]
    return believed(
        profile,
        fixed={place for place, source in places.items() if source is Source.OVERRIDE},
        tied=all(source is Source.MEASURED for source in rates),
    )


def _keep_sums(application: Application, sums: Sums) -> tuple[Drift, bool]:
    """Store where the sums stand; whether the application has drifted just now."""
    drift, _ = Drift.objects.get_or_create(application=application)
    drift.observations, drift.mean_error = sums.observations, sums.mean_error
    drift.faster, drift.slower = sums.faster, sums.slower
    since_s = counted_since([application.id]).get(application.id, -math.inf)
    if drift.flagged_s is not None and since_s >= drift.flagged_s:
        drift.flagged_s = None  # it was measured anew since
    has_drifted = sums.is_flagged and drift.flagged_s is None
    if has_drifted:
        drift.flagged_s = cluster_now()
    drift.save()
    return drift, has_drifted


def _tell(application: Application, before: Belief, followed: Followed) -> list[Cell]:
    told = taught(before, followed.belief, told_cells_of(application.id))
    if told:
        now_s, samples = cluster_now(), int(followed.innovations.size)
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
            for cell in told
        )
        request_folds([application.id])
    return told


def _drifted(application: Application, sums: Sums) -> NewEvent:
    return NewEvent(
        topic="applications",
        kind="application.drifted",
        subject=str(application.id),
        data={"name": application.name, "mean_error": round(sums.mean_error, 3)},
    )


def _measured_anew(application: Application, flagged_s: float | None) -> _Anew:
    """Whether an application that has drifted is profiled again, or is to be now."""
    if flagged_s is None:
        return _Anew.NO
    runs = ProfilingRun.objects.filter(application=application, reason=REASON)
    asked = list(runs.order_by("requested_s").values_list("requested_s", "state"))
    if not asked:
        return _Anew.ASK
    last_s, state = asked[-1]
    if state in OPEN_STATES:
        return _Anew.OPEN
    failed = state in {RunState.FAILED, RunState.CANCELLED}
    wait_s = RETRY_S if failed else min(RETRY_S * 2.0 ** (len(asked) - 1), LONGEST_S)
    is_due = (failed or last_s < flagged_s) and cluster_now() - last_s >= wait_s
    return _Anew.ASK if is_due else _Anew.NO


def _measure_anew(application: Application) -> None:
    """See that it is profiled again, every source of it; the old profile stays meanwhile."""
    try:
        request_run(application.id, reason=REASON, thorough=True)
    except ConflictError as error:
        # being measured already, or no server is there: the next look asks again
        logger.info("%s drifted and waits: %s", application.name, error)
