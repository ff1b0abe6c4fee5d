"""A decoded genome: a placement by container and by node, which NSGA-II varies and evaluates.

Compiled; imported by processes that search. n nodes, K containers the fullest node could hold, c
containers, j jobs; p the packed instance, d the decoded placement.
"""

from typing import Any, NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.front.archive import GRAIN
from apps.placement.core.problem.evaluator import PackedInstance, evaluate_layout, widest
from apps.placement.core.problem.instance import Instance


class DecodedPlacement(NamedTuple):
    """One placement (see `evaluator.Layout`), and scratch; `evaluator.fill` decodes a genome.

    Attributes
    ----------
    at : (c,) node
    held : (n, K) containers, the first ``used`` of each node
    used, tazes : (n,)
    marked : (j,) scratch: jobs that are exposed, or inherited
    raw : (3,) scratch: P, D and C
    archived : (1,) placements that the archive accepted
    chance : (1,) state of the random generator
    """

    at: Ints
    held: Ints
    used: Ints
    tazes: Ints
    marked: Bools
    raw: Floats
    archived: Ints
    chance: "np.ndarray[Any, np.dtype[np.uint64]]"


def allocate(instance: Instance, seed: int) -> DecodedPlacement:
    """Allocate the arrays; call `evaluator.fill` before use."""
    nodes, containers = len(instance.node_ids), instance.job.size
    return DecodedPlacement(
        at=np.zeros(containers, dtype=np.int32),
        held=np.zeros((nodes, widest(instance)), dtype=np.int32),
        used=np.zeros(nodes, dtype=np.int32),
        tazes=np.zeros(nodes, dtype=np.int32),
        marked=np.zeros(len(instance.job_ids), dtype=np.bool_),
        raw=np.zeros(3),
        archived=np.zeros(1, dtype=np.int64),
        chance=np.array(np.random.SeedSequence(seed).generate_state(1, np.uint64), np.uint64),
    )


@jit(makes_arrays=False)
def random_below(d: DecodedPlacement, end: int) -> int:
    """Draw a whole number from 0 to end - 1. Source: SplitMix64 (Steele et al. 2014)."""
    d.chance[0] += np.uint64(0x9E3779B97F4A7C15)
    z = d.chance[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return int(np.int64(((z >> np.uint64(32)) * np.uint64(end)) >> np.uint64(32)))


@jit(makes_arrays=False)
def evaluate_losses(p: PackedInstance, d: DecodedPlacement, losses: Floats) -> None:
    """Fill (3,) losses of the placement; see `archive.losses`. O(n·K + c)."""
    evaluate_layout(p, d, d.marked, d.raw)
    losses[0] = _rounded(d.raw[0] / p.scale[0])
    losses[1] = _rounded(1.0 - d.raw[1] / p.scale[1])
    losses[2] = _rounded(d.raw[2] / p.scale[2])


@jit(makes_arrays=False)
def _rounded(value: float) -> float:
    return float(np.round(value / GRAIN) * GRAIN)


@jit(makes_arrays=False)
def move(p: PackedInstance, d: DecodedPlacement, i: int, to: int) -> None:
    """Move a container to another node, which has a free slot. O(K)."""
    node = d.at[i]
    last = d.used[node] - 1
    d.held[node, _position(d, i)] = d.held[node, last]
    d.used[node] = last
    d.held[to, d.used[to]] = i
    d.used[to] += 1
    d.tazes[to] += p.is_taz[i]
    d.tazes[node] -= p.is_taz[i]
    d.at[i] = to


@jit(makes_arrays=False)
def swap(p: PackedInstance, d: DecodedPlacement, i: int, other: int) -> None:
    """Swap the nodes of two containers. O(K)."""
    a, b = d.at[i], d.at[other]
    position, other_position = _position(d, i), _position(d, other)
    d.held[a, position], d.held[b, other_position] = other, i
    d.at[i], d.at[other] = b, a
    difference = np.int32(p.is_taz[i]) - np.int32(p.is_taz[other])
    d.tazes[b] += difference
    d.tazes[a] -= difference


@jit(makes_arrays=False)
def _position(d: DecodedPlacement, i: int) -> int:
    """Return the position of a container in the row of its node."""
    node, k = d.at[i], 0
    while d.held[node, k] != i:
        k += 1
    return k
