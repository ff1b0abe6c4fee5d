"""Generations of NSGA-II, compiled. Imported by processes that search.

N placements are kept and N are bred in each generation. Source: Deb et al. (2002), NSGA-II. Every
placement bred is offered to an archive, and half of the first parents come from it: a population
of N cannot hold a front of thousands.

p the packed instance, d the decoded placement.
"""

from typing import Final, NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.front.archive import REFERENCE
from apps.placement.core.front.genome import DecodedPlacement, evaluate_losses, random_below
from apps.placement.core.front.kernels import REJECTED, crowding, hypervolume, insert, ranks
from apps.placement.core.front.variation import cross, mutate
from apps.placement.core.problem.evaluator import PackedInstance, fill

_TENTHS_CROSSED: Final = 7  # of the children: they have two parents
_REFERENCE: Final = np.array(REFERENCE)


class Population(NamedTuple):
    """2N placements.

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


class ArchiveArrays(NamedTuple):
    """The arrays of an `archive.Archive`."""

    losses: Floats
    slots: Ints
    genomes: Ints


def population(size: int, containers: int) -> Population:
    """Allocate 2·size placements."""
    return Population(
        genomes=np.zeros((2 * size, containers), dtype=np.int32),
        losses=np.zeros((2 * size, 3)),
        rank=np.zeros(2 * size, dtype=np.int64),
        distance=np.zeros(2 * size),
        rows=np.arange(2 * size),
        scratch=np.zeros((2, 2 * size), dtype=np.int64),
    )


@jit()
def begin(
    p: PackedInstance,
    d: DecodedPlacement,
    group: Population,
    archive: ArchiveArrays,
    size: int,
    starts: Ints,
) -> int:
    """Fill the first N rows with (m, c) starts and mutants of them; return the archive's size."""
    count = group.rows.size // 2
    for row in range(count):
        fill(p, d, starts[row % starts.shape[0]])
        if row >= starts.shape[0] and starts.shape[1]:
            mutate(p, d)
        size = _store(p, d, group, archive, size, row)
    _rank(group, group.rows[:count])
    return size


@jit()
def advance(
    p: PackedInstance,
    d: DecodedPlacement,
    group: Population,
    archive: ArchiveArrays,
    size: int,
    volumes: Floats,
) -> int:
    """Breed one generation for each of (g,) ``volumes``, and fill in the archive's hypervolume.

    The archive must have room for N·g more points. Returns its size.
    O(g·N·(n·K + c + archive)).
    """
    count = group.rows.size // 2
    volume = hypervolume(archive.losses, size, _REFERENCE)
    for g in range(volumes.size):
        before = d.archived[0]
        size = _breed(p, d, group, archive, size)
        _rank(group, group.rows)
        _select(group, count)
        if d.archived[0] != before:
            volume = hypervolume(archive.losses, size, _REFERENCE)
        volumes[g] = volume
    return size


@jit(makes_arrays=False)
def _breed(
    p: PackedInstance, d: DecodedPlacement, group: Population, archive: ArchiveArrays, size: int
) -> int:
    """Breed N placements; return the archive's size."""
    count = group.rows.size // 2
    for t in range(count):
        _make_child(p, d, group, archive, size)
        size = _store(p, d, group, archive, size, group.rows[count + t])
    return size


@jit(makes_arrays=False, forceinline=True)
def _make_child(
    p: PackedInstance, d: DecodedPlacement, group: Population, archive: ArchiveArrays, size: int
) -> None:
    """Decode a parent, and vary it."""
    if size and random_below(d, 2):
        fill(p, d, archive.genomes[archive.slots[random_below(d, size)]])
    else:
        fill(p, d, group.genomes[_tournament(d, group)])
    if random_below(d, 10) < _TENTHS_CROSSED:
        cross(p, d, group.genomes[_tournament(d, group)])
    mutate(p, d)


@jit(makes_arrays=False, forceinline=True)
def _tournament(d: DecodedPlacement, group: Population) -> int:
    """Return the better of two random placements: of a lower front, or less crowded."""
    count = group.rows.size // 2
    a, b = group.rows[random_below(d, count)], group.rows[random_below(d, count)]
    if group.rank[a] != group.rank[b]:
        return int(a if group.rank[a] < group.rank[b] else b)
    return int(a if group.distance[a] >= group.distance[b] else b)


@jit(makes_arrays=False, forceinline=True)
def _store(
    p: PackedInstance,
    d: DecodedPlacement,
    group: Population,
    archive: ArchiveArrays,
    size: int,
    row: int,
) -> int:
    """Store the decoded placement in a row, and offer it to the archive; return its size."""
    _copy(d.at, group.genomes[row])
    evaluate_losses(p, d, group.losses[row])
    size, slot = insert(archive.losses, archive.slots, size, group.losses[row])
    if slot != REJECTED:
        _copy(d.at, archive.genomes[slot])
        d.archived[0] += 1
    return size


@jit(makes_arrays=False)
def _copy(source: Ints, target: Ints) -> None:
    for i in range(source.size):
        target[i] = source[i]


@jit()
def _rank(group: Population, rows: Ints) -> None:
    """Set front and crowding of the placements in some rows."""
    count = rows.size
    losses = np.empty((count, 3))
    for t in range(count):
        losses[t] = group.losses[rows[t]]
    order = np.argsort(losses[:, 2], kind="mergesort")
    order = order[np.argsort(losses[order, 1], kind="mergesort")]
    order = order[np.argsort(losses[order, 0], kind="mergesort")]
    rank = np.empty(count, np.int64)
    ranks(losses, order, rank, group.scratch[0], group.scratch[1])
    distance = np.zeros(count)
    by_rank = np.argsort(rank, kind="mergesort")
    first = 0
    for t in range(1, count + 1):
        if t == count or rank[by_rank[t]] != rank[by_rank[first]]:
            if first < group.rows.size // 2:  # only these can be selected
                crowding(losses, by_rank[first:t], distance)
            first = t
    for t in range(count):
        group.rank[rows[t]] = rank[t]
        group.distance[rows[t]] = distance[t]


@jit()
def _select(group: Population, count: int) -> None:
    """Put the best ``count`` first in the rows: lower fronts, then the least crowded."""
    order = np.argsort(-group.distance[group.rows], kind="mergesort")
    group.rows[:] = group.rows[order]
    order = np.argsort(group.rank[group.rows], kind="mergesort")
    group.rows[:] = group.rows[order]
