"""A binary heap of events in two arrays; compiled.

Entries are ordered by time, then by their number, so that a run does not depend on the order of
insertion. A push or pop costs O(log size).
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apps.common.core.compiled import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NEVER: Final = np.inf


class EventHeap(NamedTuple):
    """Events that have not happened yet.

    Attributes
    ----------
    at : (capacity,) times
    what : (capacity,) numbers of the events, unique among events of the same time
    size : (1,) entries in use
    """

    at: Floats
    what: Ints
    size: Ints


def empty_heap(capacity: int) -> EventHeap:
    """Return a heap that can hold ``capacity`` events."""
    room = max(1, capacity)
    return EventHeap(np.zeros(room), np.zeros(room, dtype=np.int64), np.zeros(1, dtype=np.int64))


@jit(makes_arrays=False)
def next_time(heap: EventHeap) -> Any:
    """Time of the next event; infinite if there is none."""
    return heap.at[0] if heap.size[0] > 0 else NEVER


@jit(makes_arrays=False)
def push(heap: EventHeap, at: float, what: int) -> None:
    """Insert an event."""
    place = heap.size[0]
    heap.size[0] += 1
    _rise(heap, place, at, what)


@jit(makes_arrays=False)
def pop(heap: EventHeap) -> Any:
    """Remove the next event and return its number. The heap is not empty."""
    first = heap.what[0]
    heap.size[0] -= 1
    size = heap.size[0]
    if size > 0:
        _sink(heap, size)
    return first


@jit(makes_arrays=False)
def _sink(heap: EventHeap, size: int) -> None:
    """Move the last entry to its place below the root, which is free.

    The smaller child moves up to the bottom first: the last entry nearly always belongs there.
    """
    at, what = heap.at[size], heap.what[size]
    place, child = 0, 1
    while child < size:
        other = child + 1
        if other < size and (
            heap.at[other] < heap.at[child]
            or (heap.at[other] == heap.at[child] and heap.what[other] < heap.what[child])
        ):
            child = other
        heap.at[place] = heap.at[child]
        heap.what[place] = heap.what[child]
        place, child = child, 2 * child + 1
    _rise(heap, place, at, what)


@jit(makes_arrays=False)
def _rise(heap: EventHeap, place: int, at: float, what: int) -> None:
    """Move an event up from a free place until the event above it is earlier."""
    while place > 0:
        above = (place - 1) >> 1
        if heap.at[above] < at or (heap.at[above] == at and heap.what[above] < what):
            break
        heap.at[place] = heap.at[above]
        heap.what[place] = heap.what[above]
        place = above
    heap.at[place] = at
    heap.what[place] = what
