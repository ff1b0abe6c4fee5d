"""Jobs that could not be placed, by the rule of production.

Jobs of one shape wait together: a decision on one is a decision on all (`docs/architecture.md`).
The oldest job of a shape is evaluated as soon as capacity was freed that it could use, by priority
and last evaluation, and of the shapes no more at once than the free units suffice for. If it is
placed, the next two are evaluated, then four, until one is refused.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Ints, Snapshot
from apps.testbed.core.replay.demand import Shape
from apps.workloads.core.shapes import Needs, WaitsFor


class Refusal(NamedTuple):
    """Why jobs wait.

    reason, text : code and sentence
    needs : what may let them start; None = they are evaluated again at once
    sequence : change-log number of the snapshot on which they were refused
    until_s : when they are evaluated again at the latest
    """

    reason: str
    text: str
    needs: Needs | None
    sequence: int
    until_s: float = float("inf")


@dataclass(slots=True)
class _WaitingShape:
    """Waiting jobs with the same request.

    Attributes
    ----------
    entry : number of its valid entry in a heap; an entry with another number is void
    evaluated : change-log number of the snapshot of the last evaluation
    why : the last refusal
    """

    key: Shape
    entry: int = 0
    evaluated: int = 0
    allowance: int = 1
    why: Refusal | None = None
    jobs: deque[int] = field(default_factory=deque)


# negative priority, number of the entry (which grows with each evaluation), shape
_Entry = tuple[float, int, _WaitingShape]


@dataclass(slots=True)
class _Bucket:
    """Shapes with the same needs: those to evaluate, and those that wait for the next release.

    ``swept`` : change-log number of the release for which ``asleep`` was searched last
    """

    ready: list[_Entry] = field(default_factory=list)
    asleep: list[_Entry] = field(default_factory=list)
    swept: int = 0

    def wake(self, released: int) -> None:
        """Make the shapes ready that were evaluated before a release."""
        if released <= self.swept or not self.asleep:
            return
        self.swept = released
        still = []
        for entry in self.asleep:
            if entry[2].evaluated < released:
                heappush(self.ready, entry)
            else:
                still.append(entry)
        self.asleep = still


class WaitingShapes:
    """The waiting jobs of a replay."""

    def __init__(self) -> None:
        self._shapes: dict[Shape, _WaitingShape] = {}
        self._buckets: dict[Needs, _Bucket] = {}
        self._at_once: list[_Entry] = []
        self._serial = count(1)
        self._size = 0
        self._was_placed = False  # a shape since the last search that found none

    def __len__(self) -> int:
        return self._size

    @property
    def is_urgent(self) -> bool:
        """Whether to search even if no capacity was freed since the last search."""
        return bool(self._at_once) or self._was_placed

    def join(self, job: int, key: Shape) -> bool:
        """Let a new job wait if its shape waits; returns whether it does."""
        shape = self._shapes.get(key)
        if shape is None:
            return False
        shape.jobs.append(job)
        self._size += 1
        return True

    def refuse(self, jobs: Iterable[int], key: Shape, why: Refusal) -> None:
        """Let jobs of a shape wait, before those that wait already."""
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = _WaitingShape(key)
        returned = sorted(jobs)
        shape.jobs.extendleft(reversed(returned))
        self._size += len(returned)
        shape.why, shape.evaluated, shape.allowance = why, why.sequence, 1
        entry = self._enter(shape)
        if why.needs is None:
            heappush(self._at_once, entry)
        else:
            bucket = self._bucket(why.needs)
            bucket.asleep.append(entry)
            bucket.swept = min(bucket.swept, why.sequence)  # older if the copy was

    def wake(self, key: Shape) -> None:
        """Let a shape be evaluated at once."""
        shape = self._shapes.get(key)
        if shape is not None and shape.jobs:
            heappush(self._at_once, self._enter(shape))

    def accept(self, key: Shape) -> None:
        """Let twice as many jobs of a shape be evaluated next: those before were placed.

        They are evaluated now if there is still room for one, else after a release.
        """
        shape = self._shapes.get(key)
        if shape is None:
            return
        if not shape.jobs:
            del self._shapes[key]
            return
        shape.allowance *= 2
        needs = None if shape.why is None else shape.why.needs
        heap = self._at_once if needs is None else self._bucket(needs).ready
        heappush(heap, self._enter(shape))
        self._was_placed = True

    def _enter(self, shape: _WaitingShape) -> _Entry:
        shape.entry = next(self._serial)
        return shape.key[0], shape.entry, shape

    def take(
        self,
        snapshot: Snapshot,
        released: int,
        limit: int,
        *,
        opened: int = 0,
        freed: Ints | None = None,
    ) -> list[tuple[Shape, list[int]]]:
        """Take the jobs to evaluate now, by shape, about ``limit`` in all.

        Parameters
        ----------
        released : change-log number of the last release that the snapshot contains
        opened : of the last opening of a server, for jobs that no open server could hold; 0 = none
        freed : (P,) of the last release on each platform; None = on all of them
        """
        taken: list[tuple[Shape, list[int]]] = []
        if not self._size:
            return taken
        platforms = len(snapshot.topology.platform_name)
        known = np.full(platforms, released) if freed is None else np.minimum(freed, released)
        room = _Room.of(snapshot, known)
        heaps, left, units = self._open(room, opened), limit, room.units
        while left > 0 and (found := _first(heaps, units)) is not None:
            needed, shape = found
            most = min(shape.allowance, len(shape.jobs), units // needed if needed else left)
            jobs = [shape.jobs.popleft() for _ in range(most)]
            left -= most
            units -= needed * most
            self._size -= most
            taken.append((shape.key, jobs))
        self._was_placed = self._was_placed and bool(taken)
        return taken

    def reasons(self) -> dict[int, Refusal]:
        """Last refusal of each waiting job."""
        return {
            job: shape.why
            for shape in self._shapes.values()
            if shape.why is not None
            for job in shape.jobs
        }

    def _bucket(self, needs: Needs) -> _Bucket:
        return self._buckets.setdefault(needs, _Bucket())

    def _open(self, room: "_Room", opened: int) -> list["_Heap"]:
        """Return the shapes that may be evaluated now, with the units that a job of them needs."""
        heaps = [_Heap(0, self._at_once)]
        for needs, bucket in self._buckets.items():
            if not (bucket.ready or bucket.asleep):
                continue
            if needs.waits_for is WaitsFor.OPENING:
                bucket.wake(opened)
                heaps.append(_Heap(0, bucket.ready))
            elif (freed := room.freed_for(needs)) is not None:
                bucket.wake(freed)
                heaps.append(_Heap(needs.units, bucket.ready))
        return heaps


class _Heap(NamedTuple):
    units: int  # that each job needs at least
    entries: list[_Entry]


def _first(heaps: Sequence[_Heap], units: int) -> tuple[int, _WaitingShape] | None:
    """Remove the first shape that these units suffice for, and return what its jobs need.

    The others stay: a job that needs more than the jobs before it leave would be refused.
    """
    while True:
        fit = [heap for heap in heaps if heap.entries and heap.units <= units]
        if not fit:
            return None
        best = min(fit, key=lambda heap: heap.entries[0][:2])
        _, entry, shape = heappop(best.entries)
        if entry == shape.entry and shape.jobs:
            return best.units, shape


class _PlatformRoom(NamedTuple):
    """The most that a server of one platform has free, and the last release on the platform."""

    freed: int
    units: int
    memory_bytes: float
    network_bps: float
    storage_bytes: float


@dataclass(frozen=True, slots=True)
class _Room:
    """Free capacity of the open servers, by platform."""

    units: int
    platforms: dict[str, _PlatformRoom]

    @classmethod
    def of(cls, snapshot: Snapshot, freed: Ints) -> "_Room":
        """Summarise a snapshot and (P,) numbers of the last releases. O(U + S)."""
        topology = snapshot.topology
        free = np.add.reduceat(snapshot.unit_free, topology.server_first_unit, dtype=np.int64)
        free = np.where(snapshot.server_open, free, 0)
        usable = np.flatnonzero(free)
        most = np.full((len(topology.platform_name), 4), -1.0)
        kinds = topology.server_platform[usable]
        np.maximum.at(most, kinds, np.column_stack((free[usable], snapshot.server_free[usable])))
        rooms = {
            name: _PlatformRoom(last, int(row[0]), *row[1:])
            for name, row, last in zip(
                topology.platform_name, most.tolist(), freed.tolist(), strict=True
            )
            if row[0] > 0
        }
        return cls(int(free.sum()), rooms)

    def freed_for(self, needs: Needs) -> int | None:
        """Return the last release on the platforms that may hold a refused request.

        None if no platform may, or too few units are free in all.
        """
        if needs.waits_for is not WaitsFor.UNITS or self.units < needs.units:
            return None
        names = self.platforms if needs.platforms is None else needs.platforms
        least = needs.units if needs.on_one_server else 1
        return max(
            (
                room.freed
                for room in map(self.platforms.get, names)
                if room is not None
                and room.units >= least
                and room.memory_bytes >= needs.unit_memory_bytes
                and room.network_bps >= needs.unit_network_bps
                and room.storage_bytes >= needs.unit_storage_bytes
            ),
            default=None,
        )
