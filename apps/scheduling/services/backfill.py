"""Which jobs of a batch the reservations of gangs bind."""

from collections.abc import Sequence
from itertools import groupby

from apps.scheduling.core.reservations.backfill import Binding
from apps.scheduling.core.reservations.gangs import Reservation
from apps.scheduling.services.proposals import SizedJob


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

    def binding(place: int) -> tuple[int, ...]:
        job, ends_s = ready[place].job.id, now_s + ready[place].longest_s
        return tuple(i for i, each in enumerate(known) if each.binds(job, ends_s))

    return tuple(
        Binding(
            tuple(places), tuple(sorted(frozenset[int]().union(*(known[i].units for i in bound))))
        )
        for bound, places in groupby(range(len(ready)), binding)
    )
