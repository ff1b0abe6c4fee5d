"""Which jobs of a batch the reservations of gangs bind."""

from collections.abc import Sequence

from apps.scheduling.core.backfill import Binding
from apps.scheduling.core.reservations import Reservation
from apps.scheduling.services.proposals import SizedJob


def bindings(
    ready: Sequence[SizedJob], known: Sequence[Reservation], now_s: float
) -> tuple[Binding, ...]:
    """Group the jobs of a batch by the reservations for which they end too late.

    Parameters
    ----------
    now_s : cluster seconds
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, sized_job in enumerate(ready):
        ends_s = now_s + sized_job.longest_s
        binding = (i for i, x in enumerate(known) if x.binds(sized_job.job.id, ends_s))
        groups.setdefault(tuple(binding), []).append(place)
    return tuple(
        Binding(
            tuple(places), tuple(sorted(frozenset[int]().union(*(known[i].units for i in bound))))
        )
        for bound, places in groups.items()
    )
