"""Known cells of applications: measurements combined, then overrides.

After an application has drifted and been profiled again, measurements older than the request for
that profiling run are ignored.
"""

from collections import defaultdict
from collections.abc import Iterable
from uuid import UUID

from django.db.models import Max, QuerySet

from apps.classification.core.cells import KnownCell, Source
from apps.classification.core.drift import REASON
from apps.classification.core.feedback import CellKey
from apps.classification.core.known_cells import TELEMETRY, known_cells
from apps.classification.core.matrix import Cell, MatrixName
from apps.classification.core.scores import Scores, scores_of_cells
from apps.classification.models import Override
from apps.profiling.models import Measurement, ProfilingRun, RunState
from apps.workloads.models import Application


def live_rows() -> dict[str, list[KnownCell]]:
    """Return the known cells of every measured application, by name."""
    measurements: dict[str, list[KnownCell]] = defaultdict(list)
    measured = Measurement.objects.select_related("application").order_by("id")
    since = valid_since()
    for row in measured.iterator(chunk_size=5000):
        if row.cluster_s >= since.get(row.application_id, row.cluster_s):
            measurements[row.application.name].append(_measured(row))
    by_hand: dict[str, list[KnownCell]] = defaultdict(list)
    for override in _overrides().select_related("application"):
        by_hand[override.application.name].append(_by_hand(override))
    return {name: known_cells(rows, by_hand[name]) for name, rows in measurements.items()}


def known_cells_of(application_id: UUID) -> list[KnownCell]:
    """Return the known cells of an application: measurements combined, then overrides."""
    by_hand = _overrides().filter(application_id=application_id)
    return known_cells(map(_measured, _valid_measurements(application_id)), map(_by_hand, by_hand))


def program_scores(application_ids: Iterable[UUID]) -> dict[UUID, Scores]:
    """Return the scores of applications without a profile that have any, such as imported ones.

    One statement if none has a measurement.
    """
    wanted = list(application_ids)
    rows = Measurement.objects.filter(application_id__in=wanted)
    measured = rows.values_list("application_id", flat=True).distinct()
    found = {key: scores_of_cells(known_cells_of(key)) for key in measured.order_by()}
    return {key: scores for key, scores in found.items() if scores is not None}


def program_scores_of(application: str) -> Scores | None:
    """Return the scores of one application by name; None if it has none."""
    key = Application.objects.filter(name=application).values_list("pk", flat=True).first()
    return None if key is None else program_scores([key]).get(key)


def profiled_cells_of(application_id: UUID) -> list[KnownCell]:
    """Return the known cells of an application without telemetry of its jobs."""
    by_hand = _overrides().filter(application_id=application_id)
    rows = _valid_measurements(application_id).exclude(source=TELEMETRY)
    return known_cells(map(_measured, rows), map(_by_hand, by_hand))


def telemetry_cells_of(application_id: UUID) -> dict[CellKey, Cell]:
    """Return the newest telemetry measurement of each cell."""
    rows = _valid_measurements(application_id).filter(source=TELEMETRY)
    cells = [
        Cell(MatrixName(row.matrix), row.column, row.value, row.standard_error) for row in rows
    ]
    return {CellKey(cell.matrix, cell.column): cell for cell in cells}


def valid_since(application_ids: Iterable[UUID] | None = None) -> dict[UUID, float]:
    """Return the cluster time before which measurements are ignored, for drifted applications.

    Parameters
    ----------
    application_ids : None = all applications
    """
    runs = ProfilingRun.objects.filter(reason=REASON, state=RunState.DONE)
    if application_ids is not None:
        runs = runs.filter(application_id__in=list(application_ids))
    since = runs.values("application_id").annotate(since_s=Max("requested_s"))
    return {row["application_id"]: row["since_s"] for row in since}


def _valid_measurements(application_id: UUID) -> QuerySet[Measurement]:
    """Return the measurements that are not ignored, oldest first."""
    since_s = valid_since([application_id]).get(application_id)
    rows = Measurement.objects.filter(application_id=application_id).order_by("id")
    return rows if since_s is None else rows.filter(cluster_s__gte=since_s)


def _overrides() -> QuerySet[Override]:
    return Override.objects.filter(withdrawn_at__isnull=True).order_by("created_at")


def _measured(row: Measurement) -> KnownCell:
    return KnownCell(
        MatrixName(row.matrix),
        row.column,
        row.value,
        row.standard_error,
        Source.MEASURED,
        row.samples,
        row.cluster_s,
        is_posterior=row.source == TELEMETRY,
    )


def _by_hand(row: Override) -> KnownCell:
    return KnownCell(
        MatrixName(row.matrix), row.column, row.value, 0.0, Source.OVERRIDE, 1, row.cluster_s
    )
