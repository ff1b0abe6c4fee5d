"""Which jobs of a batch the reservations of gangs bind."""

from collections.abc import Sequence
from functools import cache
from itertools import groupby

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


def bindings(
    ready: Sequence[SizedJob], known: Sequence[Reservation], now_s: float
) -> tuple[Binding, ...]:
    """Group adjacent jobs of a batch by the reservations for which they end too late.

    Only adjacent ones, as groups are decided one after the other, and the order of the jobs is
    that of their priorities and shares.

    Parameters
    ----------
    now_s : cluster seconds
    """

    def bound(place: int) -> Bound:
        return binding(known, ready[place].job.id, now_s + ready[place].longest_s)

    @cache
    def reserved(by: Bound) -> tuple[tuple[int, ...], Rows]:
        room = kept_room([known[i] for i in by.room], ready[0].topology)
        rows = zip(room.units.tolist(), *room.amounts.T.tolist(), strict=True)
        return tuple(sorted(units_of([known[i] for i in by.units]))), tuple(rows)

    return tuple(
        Binding(tuple(places), *reserved(by)) for by, places in groupby(range(len(ready)), bound)
    )
