"""What is known of each cell: measurements combined, corrections by hand on top."""

from collections import defaultdict
from uuid import UUID

from django.db.models import QuerySet

from apps.classification.core.cells import KnownCell, Source
from apps.classification.core.known import Reading, known_cells
from apps.classification.core.matrix import MatrixName
from apps.classification.models import Override
from apps.profiling.models import Measurement


def live_rows() -> dict[str, list[KnownCell]]:
    """Read what is known of every application that was measured, by name."""
    readings: dict[str, list[Reading]] = defaultdict(list)
    measured = Measurement.objects.select_related("application").order_by("id")
    for row in measured.iterator(chunk_size=5000):
        readings[row.application.name].append(_reading(row))
    by_hand: dict[str, list[KnownCell]] = defaultdict(list)
    for override in _overrides().select_related("application"):
        by_hand[override.application.name].append(_by_hand(override))
    return {name: known_cells(rows, by_hand[name]) for name, rows in readings.items()}


def known_cells_of(application_id: UUID) -> list[KnownCell]:
    """Read what is known of an application: measurements combined, overrides on top."""
    rows = Measurement.objects.filter(application_id=application_id).order_by("id")
    by_hand = _overrides().filter(application_id=application_id)
    return known_cells(map(_reading, rows), map(_by_hand, by_hand))


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
