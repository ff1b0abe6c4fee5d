"""What is known of each cell: measurements combined, corrections by hand on top.

An application that drifted is not what it was: once it is measured anew, nothing counts that is
older than the wish to.
"""

from collections import defaultdict
from collections.abc import Iterable
from uuid import UUID

from django.db.models import Max, QuerySet

from apps.classification.core.cells import KnownCell, Source
from apps.classification.core.drift import REASON
from apps.classification.core.feedback import Place
from apps.classification.core.known import TELEMETRY, Reading, known_cells
from apps.classification.core.matrix import Cell, MatrixName
from apps.classification.models import Override
from apps.profiling.models import Measurement, ProfilingRun, RunState


def live_rows() -> dict[str, list[KnownCell]]:
    """Read what is known of every application that was measured, by name."""
    readings: dict[str, list[Reading]] = defaultdict(list)
    measured = Measurement.objects.select_related("application").order_by("id")
    since = counted_since()
    for row in measured.iterator(chunk_size=5000):
        if row.cluster_s >= since.get(row.application_id, row.cluster_s):
            readings[row.application.name].append(_reading(row))
    by_hand: dict[str, list[KnownCell]] = defaultdict(list)
    for override in _overrides().select_related("application"):
        by_hand[override.application.name].append(_by_hand(override))
    return {name: known_cells(rows, by_hand[name]) for name, rows in readings.items()}


def known_cells_of(application_id: UUID) -> list[KnownCell]:
    """Read what is known of an application: measurements combined, overrides on top."""
    by_hand = _overrides().filter(application_id=application_id)
    return known_cells(map(_reading, _counting(application_id)), map(_by_hand, by_hand))


def profiled_cells_of(application_id: UUID) -> list[KnownCell]:
    """Read what is known of an application but for what its running jobs taught."""
    by_hand = _overrides().filter(application_id=application_id)
    rows = _counting(application_id).exclude(source=TELEMETRY)
    return known_cells(map(_reading, rows), map(_by_hand, by_hand))


def told_cells_of(application_id: UUID) -> dict[Place, Cell]:
    """Read what running jobs taught of each cell, as it was told last."""
    rows = _counting(application_id).filter(source=TELEMETRY)
    cells = [
        Cell(MatrixName(row.matrix), row.column, row.value, row.standard_error) for row in rows
    ]
    return {Place(cell.matrix, cell.column): cell for cell in cells}


def counted_since(application_ids: Iterable[UUID] | None = None) -> dict[UUID, float]:
    """Find the cluster second before which nothing counts, of applications that have one.

    Parameters
    ----------
    application_ids : of these only; None = of all
    """
    anew = ProfilingRun.objects.filter(reason=REASON, state=RunState.DONE)
    if application_ids is not None:
        anew = anew.filter(application_id__in=list(application_ids))
    since = anew.values("application_id").annotate(since_s=Max("requested_s"))
    return {row["application_id"]: row["since_s"] for row in since}


def _counting(application_id: UUID) -> QuerySet[Measurement]:
    """Measurements that count, oldest first."""
    since_s = counted_since([application_id]).get(application_id)
    rows = Measurement.objects.filter(application_id=application_id).order_by("id")
    return rows if since_s is None else rows.filter(cluster_s__gte=since_s)


def _overrides() -> QuerySet[Override]:
    return Override.objects.filter(withdrawn_at__isnull=True).order_by("created_at")


def _reading(row: Measurement) -> Reading:
    return Reading(
        MatrixName(row.matrix),
        row.column,
        row.value,
        row.standard_error,
        row.samples,
        row.cluster_s,
        row.source,
    )


def _by_hand(row: Override) -> KnownCell:
    return KnownCell(
        MatrixName(row.matrix), row.column, row.value, 0.0, Source.OVERRIDE, 1, row.cluster_s
    )
