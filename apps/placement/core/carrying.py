"""Which moves of a plan can begin now, and which never will.

Moves stand in an order in which each fits once those before it are done: a server is emptied
before others fill it. Resources are vectors (units, memory, network, storage).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple


class Room(NamedTuple):
    """What a server has left, or a container needs."""

    units: float
    memory_bytes: float
    network_bps: float
    storage_bytes: float

    def holds(self, need: "Room") -> bool:
        """Whether the need fits in."""
        return all(left >= asked for left, asked in zip(self, need, strict=True))

    def less(self, need: "Room") -> "Room":
        """Return what is left without it."""
        return Room(*(left - asked for left, asked in zip(self, need, strict=True)))

    def more(self, freed: "Room") -> "Room":
        """Return what is left with it."""
        return Room(*(left + given for left, given in zip(self, freed, strict=True)))


NO_ROOM: Final = Room(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Step:
    """One move of a plan that has not ended.

    Attributes
    ----------
    job : of whichever type tells jobs apart
    needs, frees : at the target, and at the source once it is done
    is_moving : under way: the room at its target is taken, that at its source is not yet free
    """

    ordinal: int
    bundle: int
    job: object
    source: int
    target: int
    needs: Room
    frees: Room
    is_moving: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """Ordinals of moves to begin, and of those for which there will be no room."""

    begin: tuple[int, ...]
    hopeless: tuple[int, ...]


def due(
    steps: Sequence[Step], rooms: Mapping[int, Room], *, busy: Collection[object], most: int
) -> Due:
    """Tell what can begin. O(steps).

    A move waits for room that an earlier one will free; those after it leave it the room that is
    there. Where no earlier one will, there is no hope for it.

    Parameters
    ----------
    steps : not ended, in order
    rooms : now, of each open server; one that is missing takes nothing
    busy : jobs of which something moves already; one part of a job moves at a time
    most : moves that may begin
    """
    under_way = [step for step in steps if step.is_moving]
    moving = {*busy, *(step.job for step in under_way)}
    freeing = {step.source for step in under_way}
    left = dict(rooms)
    begin: list[int] = []
    hopeless: list[int] = []
    for step in steps:
        if step.is_moving:
            continue
        room = left.get(step.target, NO_ROOM)
        fits = room.holds(step.needs)
        if not fits and (step.target not in freeing or step.target not in rooms):
            hopeless.append(step.ordinal)
            continue
        left[step.target] = room.less(step.needs)
        freeing.add(step.source)
        if fits and step.job not in moving and len(begin) < most:
            moving.add(step.job)
            begin.append(step.ordinal)
    return Due(tuple(begin), tuple(hopeless))


def without_room(steps: Sequence[Step], rooms: Mapping[int, Room]) -> tuple[int, ...]:
    """Return ordinals of moves that do not fit, were those before them done, the misfits left out.

    Parameters
    ----------
    steps, rooms : as in `due`; none is under way
    """
    left, misfits = dict(rooms), list[int]()
    for step in steps:
        room = left.get(step.target, NO_ROOM)
        if step.target not in rooms or not room.holds(step.needs):
            misfits.append(step.ordinal)
            continue
        left[step.target] = room.less(step.needs)
        left[step.source] = left.get(step.source, NO_ROOM).more(step.frees)
    return tuple(misfits)


def bundles_without_room(steps: Sequence[Step], rooms: Mapping[int, Room]) -> tuple[int, ...]:
    """Return bundles that cannot be carried out whole; leaving one out may cost others the room.

    Parameters
    ----------
    steps, rooms : as in `without_room`
    """
    out: list[int] = []
    kept = list(steps)
    while misfits := without_room(kept, rooms):
        first = next(step.bundle for step in kept if step.ordinal == misfits[0])
        out.append(first)
        kept = [step for step in kept if step.bundle != first]
    return tuple(out)


def schedule(
    moves: Sequence[tuple[object, float]], *, per_minute: int, turn_s: float = 0.0
) -> list[tuple[float, float]]:
    """Return from when to when each of some moves goes on, from now, if none waits for room.

    Parameters
    ----------
    moves : job and seconds of each, in order; one part of a job moves at a time
    per_minute : how many may begin in a cluster minute, >= 1
    turn_s : from the end of one move of a job until the next is begun
    """
    free_s: dict[object, float] = {}
    spans = []
    for place, (job, seconds) in enumerate(moves):
        begins_s = max(60.0 * (place // per_minute), free_s.get(job, 0.0))
        free_s[job] = begins_s + seconds + turn_s
        spans.append((begins_s, begins_s + seconds))
    return spans
