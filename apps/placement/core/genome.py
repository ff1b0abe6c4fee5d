"""A placement opened up, so that it can be changed and measured: what NSGA-II works on.

Compiled; imported by processes that search. n nodes, K slots of the largest, c containers, j jobs,
R racks. `objectives` is the plain form that `measure` is held to.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.front import GRAIN, scales
from apps.placement.core.instance import Communication, Instance

_NODE: Final = int(Communication.NODE)
_CLUSTER: Final = int(Communication.CLUSTER)


class Space(NamedTuple):
    """What is fixed: an instance as the operators read it.

    Attributes
    ----------
    first, of_job : containers of job j are ``of_job[first[j]:first[j + 1]]``
    begins, of_rack : nodes of rack r are ``of_rack[begins[r]:begins[r + 1]]``
    is_free : (j,) not bound to stay in one rack
    scale : (3,) divisors of P, D and C; infinite where there is nothing to divide
    """

    rack: Ints
    slots: Ints
    idle_watts: Floats
    slot_watts: Floats
    job: Ints
    intensity: Floats
    is_taz: Bools
    counts_as: Ints
    size: Ints
    first: Ints
    of_job: Ints
    begins: Ints
    of_rack: Ints
    is_free: Bools
    scale: Floats


class Work(NamedTuple):
    """One placement opened up, and scratch.

    Attributes
    ----------
    at : (c,) node
    held : (n, K) containers, the first ``used`` of each node
    used, tazes : (n,)
    marked : (j,) scratch: jobs exposed, or taken over
    taken : (1,) placements that the archive took
    chance : (1,) state of the generator
    """

    at: Ints
    held: Ints
    used: Ints
    tazes: Ints
    marked: Bools
    taken: Ints
    chance: "np.ndarray[Any, np.dtype[np.uint64]]"


def space(instance: Instance) -> Space:
    """Gather what the operators read."""
    return Space(
        rack=instance.rack,
        slots=instance.slots,
        idle_watts=instance.idle_watts,
        slot_watts=(instance.peak_watts - instance.idle_watts) / instance.slots,
        job=instance.job,
        intensity=instance.intensity,
        is_taz=instance.is_taz,
        counts_as=instance.counts_as,
        size=instance.size,
        first=np.append(np.int64(0), np.cumsum(instance.size, dtype=np.int64)),
        of_job=np.argsort(instance.job, kind="stable"),
        begins=np.append(np.int64(0), np.cumsum(np.bincount(instance.rack), dtype=np.int64)),
        of_rack=np.argsort(instance.rack, kind="stable"),
        is_free=(instance.counts_as != Communication.RACK) | (instance.size == 1),
        scale=scales(instance),
    )


def work(instance: Instance, seed: int) -> Work:
    """Allocate; call `unfold` before use."""
    nodes, containers = len(instance.node_ids), instance.job.size
    return Work(
        at=np.zeros(containers, dtype=np.int32),
        held=np.zeros((nodes, int(instance.slots.max(initial=1))), dtype=np.int32),
        used=np.zeros(nodes, dtype=np.int32),
        tazes=np.zeros(nodes, dtype=np.int32),
        marked=np.zeros(len(instance.job_ids), dtype=np.bool_),
        taken=np.zeros(1, dtype=np.int64),
        chance=np.array(np.random.SeedSequence(seed).generate_state(1, np.uint64), np.uint64),
    )


@jit(makes_arrays=False)
def below(w: Work, end: int) -> int:
    """Draw a whole number from 0 to end - 1. Source: SplitMix64 (Steele et al. 2014)."""
    w.chance[0] += np.uint64(0x9E3779B97F4A7C15)
    z = w.chance[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return int(np.int64(((z >> np.uint64(32)) * np.uint64(end)) >> np.uint64(32)))


@jit(makes_arrays=False)
def unfold(s: Space, w: Work, genome: Ints) -> None:
    """Open up a placement. O(n + c)."""
    w.used[:] = 0
    w.tazes[:] = 0
    for i in range(genome.size):
        node = genome[i]
        w.at[i] = node
        w.held[node, w.used[node]] = i
        w.used[node] += 1
        w.tazes[node] += s.is_taz[i]


@jit(makes_arrays=False)
def measure(s: Space, w: Work, losses: Floats) -> None:
    """Fill (3,) losses of the placement at hand; see `front.losses`. O(n·K + c)."""
    w.marked[:] = False
    is_paired = w.held.shape[1] == 2 and w.at.size > 0
    credit = _credits_of_pairs(s, w) if is_paired else _credits(s, w)
    watts = 0.0
    for node in range(w.used.size):
        watts += s.idle_watts[node] * (w.used[node] > 0) + s.slot_watts[node] * w.used[node]
    apart = 0
    for job in range(s.size.size):
        if is_split(s, w, job):
            apart += s.size[job]
    losses[0] = _rounded(watts / s.scale[0])
    losses[1] = _rounded(1.0 - credit / s.scale[1])
    losses[2] = _rounded(apart / s.scale[2])


@jit(makes_arrays=False)
def _rounded(value: float) -> float:
    return float(np.round(value / GRAIN) * GRAIN)


@jit(makes_arrays=False)
def _credits_of_pairs(s: Space, w: Work) -> float:
    """Return what `_credits` does where two share a node, without branches.

    A placement that is always another one has half of them guessed wrong.
    """
    job, intensity = s.job, s.intensity
    for node in range(w.used.size):
        if w.tazes[node] > 1:
            w.marked[job[w.held[node, 0]]] = True
            w.marked[job[w.held[node, 1]]] = True
    total = 0.0
    for node in range(w.used.size):
        a, b = w.held[node, 0], w.held[node, 1]
        x, y = intensity[a] * (w.used[node] > 0), intensity[b] * (w.used[node] > 1)
        top = a if x >= y else b
        total += abs(x - y) * (not w.marked[job[top]])
    return total


@jit(makes_arrays=False)
def _credits(s: Space, w: Work) -> float:
    """Mark the jobs with a straggler; returns the credits of the others."""
    for node in range(w.used.size):
        if w.tazes[node] > 1:
            for k in range(w.used[node]):
                if s.is_taz[w.held[node, k]]:
                    w.marked[s.job[w.held[node, k]]] = True
    total = 0.0
    for node in range(w.used.size):
        top, best, second = -1, -1.0, 0.0
        for k in range(w.used[node]):
            i = w.held[node, k]
            x = s.intensity[i]
            if x > best:
                top, best, second = i, x, max(best, 0.0)
            elif x > second:
                second = x
        if top >= 0 and not w.marked[s.job[top]]:
            total += best - second
    return total


@jit(makes_arrays=False)
def is_split(s: Space, w: Work, job: int) -> bool:
    """Whether a job is not where it counts as wishing to be."""
    wish = s.counts_as[job]
    if wish == _CLUSTER:
        return False
    node = w.at[s.of_job[s.first[job]]]
    for t in range(s.first[job] + 1, s.first[job + 1]):
        other = w.at[s.of_job[t]]
        if other != node and (wish == _NODE or s.rack[other] != s.rack[node]):
            return True
    return False


@jit(makes_arrays=False)
def move(s: Space, w: Work, i: int, to: int) -> None:
    """Put a container on another node, which has room. O(K)."""
    node = w.at[i]
    last = w.used[node] - 1
    w.held[node, _place(w, i)] = w.held[node, last]
    w.used[node] = last
    w.held[to, w.used[to]] = i
    w.used[to] += 1
    w.tazes[to] += s.is_taz[i]
    w.tazes[node] -= s.is_taz[i]
    w.at[i] = to


@jit(makes_arrays=False)
def swap(s: Space, w: Work, i: int, other: int) -> None:
    """Let two containers change places. O(K)."""
    a, b = w.at[i], w.at[other]
    here, there = _place(w, i), _place(w, other)
    w.held[a, here], w.held[b, there] = other, i
    w.at[i], w.at[other] = b, a
    more = np.int32(s.is_taz[i]) - np.int32(s.is_taz[other])
    w.tazes[b] += more
    w.tazes[a] -= more


@jit(makes_arrays=False)
def _place(w: Work, i: int) -> int:
    """Return where in the row of its node a container is."""
    node, k = w.at[i], 0
    while w.held[node, k] != i:
        k += 1
    return k
