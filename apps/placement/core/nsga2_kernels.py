"""Generations of NSGA-II, compiled. Imported by processes that search.

N placements are kept, N are made of them in each generation. Source: Deb et al. (2002), NSGA-II;
every placement made is offered to an archive, and half of the first parents come from there: a
population of N cannot hold a front of thousands.
"""

from typing import Final, NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.front import REFERENCE
from apps.placement.core.front_kernels import REJECTED, crowding, hypervolume, insert, ranks
from apps.placement.core.genome import Space, Work, below, measure, unfold
from apps.placement.core.variation import cross, mutate

_CROSSED: Final = 7  # of ten children have two parents
_REFERENCE: Final = np.array(REFERENCE)


class Population(NamedTuple):
    """Room for 2N placements.

    Attributes
    ----------
    genomes : (2N, c) node of each container
    losses : (2N, 3)
    rank, distance : (2N,) front and crowding
    rows : (2N,) a permutation: the first N are kept, the others are overwritten next
    scratch : (2, 2N)
    """

    genomes: Ints
    losses: Floats
    rank: Ints
    distance: Floats
    rows: Ints
    scratch: Ints


class Held(NamedTuple):
    """The archive's arrays; see `front.Archive`."""

    losses: Floats
    slots: Ints
    genomes: Ints


def population(size: int, containers: int) -> Population:
    """Allocate room for 2·size placements."""
    return Population(
        genomes=np.zeros((2 * size, containers), dtype=np.int32),
        losses=np.zeros((2 * size, 3)),
        rank=np.zeros(2 * size, dtype=np.int64),
        distance=np.zeros(2 * size),
        rows=np.arange(2 * size),
        scratch=np.zeros((2, 2 * size), dtype=np.int64),
    )


@jit()
def begin(s: Space, w: Work, p: Population, held: Held, size: int, starts: Ints) -> int:
    """Fill the first N rows: (m, c) starts, then mutants of them; returns the archive's size."""
    count = p.rows.size // 2
    for row in range(count):
        unfold(s, w, starts[row % starts.shape[0]])
        if row >= starts.shape[0] and starts.shape[1]:
            mutate(s, w)
        size = _take(s, w, p, held, size, row)
    _rank(p, p.rows[:count])
    return size


@jit()
def advance(s: Space, w: Work, p: Population, held: Held, size: int, volumes: Floats) -> int:
    """Make one generation for each of (g,) ``volumes``, and fill in the archive's hypervolume.

    The archive must have room for N·g more points. Returns its size.
    O(g·N·(n·K + c + archive)).
    """
    count = p.rows.size // 2
    volume = hypervolume(held.losses, size, _REFERENCE)
    for g in range(volumes.size):
        before = w.taken[0]
        size = _brood(s, w, p, held, size)
        _rank(p, p.rows)
        _select(p, count)
        if w.taken[0] != before:
            volume = hypervolume(held.losses, size, _REFERENCE)
        volumes[g] = volume
    return size


@jit(makes_arrays=False)
def _brood(s: Space, w: Work, p: Population, held: Held, size: int) -> int:
    """Make N placements; returns the archive's size."""
    count = p.rows.size // 2
    for t in range(count):
        _breed(s, w, p, held, size)
        size = _take(s, w, p, held, size, p.rows[count + t])
    return size


@jit(makes_arrays=False)
def _breed(s: Space, w: Work, p: Population, held: Held, size: int) -> None:
    """Leave a child in the work space."""
    if size and below(w, 2):
        unfold(s, w, held.genomes[held.slots[below(w, size)]])
    else:
        unfold(s, w, p.genomes[_tournament(w, p)])
    if below(w, 10) < _CROSSED:
        cross(s, w, p.genomes[_tournament(w, p)])
    mutate(s, w)


@jit(makes_arrays=False)
def _tournament(w: Work, p: Population) -> int:
    """Return the better of two: of a lower front, or less crowded."""
    count = p.rows.size // 2
    a, b = p.rows[below(w, count)], p.rows[below(w, count)]
    if p.rank[a] != p.rank[b]:
        return int(a if p.rank[a] < p.rank[b] else b)
    return int(a if p.distance[a] >= p.distance[b] else b)


@jit(makes_arrays=False)
def _take(s: Space, w: Work, p: Population, held: Held, size: int, row: int) -> int:
    """Put the placement at hand into a row, and offer it to the archive."""
    _copy(w.at, p.genomes[row])
    measure(s, w, p.losses[row])
    size, slot = insert(held.losses, held.slots, size, p.losses[row])
    if slot != REJECTED:
        _copy(w.at, held.genomes[slot])
        w.taken[0] += 1
    return size


@jit(makes_arrays=False)
def _copy(source: Ints, target: Ints) -> None:
    for i in range(source.size):
        target[i] = source[i]


@jit()
def _rank(p: Population, rows: Ints) -> None:
    """Set front and crowding of the placements in some rows."""
    count = rows.size
    losses = np.empty((count, 3))
    for t in range(count):
        losses[t] = p.losses[rows[t]]
    order = np.argsort(losses[:, 2], kind="mergesort")
    order = order[np.argsort(losses[order, 1], kind="mergesort")]
    order = order[np.argsort(losses[order, 0], kind="mergesort")]
    rank = np.empty(count, np.int64)
    ranks(losses, order, rank, p.scratch[0], p.scratch[1])
    distance = np.zeros(count)
    by_rank = np.argsort(rank, kind="mergesort")
    first = 0
    for t in range(1, count + 1):
        if t == count or rank[by_rank[t]] != rank[by_rank[first]]:
            if first < p.rows.size // 2:  # of those that may stay
                crowding(losses, by_rank[first:t], distance)
            first = t
    for t in range(count):
        p.rank[rows[t]] = rank[t]
        p.distance[rows[t]] = distance[t]


@jit()
def _select(p: Population, count: int) -> None:
    """Move the best ``count`` to the front of the rows: lower fronts, then the least crowded."""
    order = np.argsort(-p.distance[p.rows], kind="mergesort")
    p.rows[:] = p.rows[order]
    order = np.argsort(p.rank[p.rows], kind="mergesort")
    p.rows[:] = p.rows[order]
