"""Reads of profiling: the platforms to measure on, and what was measured."""

from collections.abc import Sequence
from uuid import UUID

from django.db.models import Count, Q

from apps.inventory.models import Platform, ServerState
from apps.profiling.core.plan import PlatformShape
from apps.profiling.models import Measurement


def platform_shapes() -> list[PlatformShape]:
    """Platforms, highest-end first, with their servers that are not down.

    The highest-end one is always there, as every measurement is compared to it; the others only
    where they have servers.
    """
    alive = Count("servers", filter=~Q(servers__state=ServerState.DOWN))
    rows = Platform.objects.annotate(alive=alive).order_by("rank")
    return [
        PlatformShape(row.name, row.alive, row.cores)
        for i, row in enumerate(rows)
        if i == 0 or row.alive
    ]


def measurements_of(application_id: UUID) -> Sequence[Measurement]:
    """Every cell measured of an application, oldest first."""
    return list(Measurement.objects.filter(application_id=application_id).order_by("id"))
