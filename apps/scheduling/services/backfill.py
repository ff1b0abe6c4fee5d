"""Which jobs of a batch the reservations of gangs bind."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from apps.scheduling.core.reservations.backfill import Binding
from apps.scheduling.core.reservations.gangs import Reservation, kept_room, units_of
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

    def bound(place: int) -> tuple[int, ...]:
        job, ends_s = ready[place].job.id, now_s + ready[place].longest_s
        return tuple(i for i, each in enumerate(known) if each.binds(job, ends_s))

    def binding(numbers: tuple[int, ...], places: Iterable[int]) -> Binding:
        binds = [known[i] for i in numbers]
        room = kept_room(binds, ready[0].topology) if binds else {}
        rows = tuple((server, *vector) for server, vector in room.items())
        return Binding(tuple(places), tuple(sorted(units_of(binds))), rows)

    return tuple(binding(numbers, places) for numbers, places in groupby(range(len(ready)), bound))
