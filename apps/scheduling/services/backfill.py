"""Which jobs of a batch the reservations of gangs bind, by when they start at the earliest."""

from collections.abc import Sequence
from functools import cache
from itertools import groupby

from apps.inventory.selectors import cluster_time
from apps.scheduling.core.requests import START_DELAY_S
from apps.scheduling.core.reservations.backfill import Binding
from apps.scheduling.core.reservations.gangs import (
    Bound,
    Reservation,
    binding,
    kept_room,
    units_of,
)
from apps.scheduling.services.proposals import SizedJob

Rows = tuple[tuple[int, float, float, float], ...]  # as `Binding.room`


def start_s() -> float:
    """Return the cluster seconds at which a job that is committed now starts."""
    now = cluster_time()
    return now.cluster_s + START_DELAY_S * now.speed


def bindings(
    ready: Sequence[SizedJob], known: Sequence[Reservation], from_s: float
) -> tuple[Binding, ...]:
    """Group adjacent jobs of a batch by the reservations for which they end too late.

    Only adjacent ones, as groups are decided one after the other, and the order of the jobs is
    that of their priorities and shares.

    Parameters
    ----------
    from_s : cluster seconds at which they start
    """

    def bound(place: int) -> Bound:
        return binding(known, ready[place].job.id, from_s + ready[place].longest_s)

    @cache
    def reserved(by: Bound) -> tuple[tuple[int, ...], Rows]:
        room = kept_room([known[i] for i in by.room], ready[0].topology)
        rows = zip(room.units.tolist(), *room.amounts.T.tolist(), strict=True)
        return tuple(sorted(units_of([known[i] for i in by.units]))), tuple(rows)

    return tuple(
        Binding(tuple(places), *reserved(by)) for by, places in groupby(range(len(ready)), bound)
    )
