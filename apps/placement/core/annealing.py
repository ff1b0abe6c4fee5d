"""Improving a placement by small exchanges: two containers, one container, two whole nodes.

Compiled; imported by processes that search. F is kept up to date exchange by exchange in O(slots),
under every rule of `objectives`: a node is taken out of the sums, changed, and put back.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.costs import Costs
from apps.placement.core.instance import Communication, Instance

_NODE: Final = int(Communication.NODE)
_RACK: Final = int(Communication.RACK)
_EMPTY: Final = -1


class Fixed(NamedTuple):
    """What an annealing reads; see `Instance` and `Costs`. Containers of a job lie side by side.

    Attributes
    ----------
    first, of_job : containers of job j are ``of_job[first[j]:first[j + 1]]``
    """

    rack: Ints
    slots: Ints
    open: Floats
    slot: Floats
    job: Ints
    intensity: Floats
    is_taz: Bools
    counts_as: Ints
    split: Floats
    current: Ints
    first: Ints
    of_job: Ints
    credit: float
    move: float


class State(NamedTuple):
    """A placement and its sums.

    Attributes
    ----------
    at : (c,) node
    held : (n, K) containers, `_EMPTY` behind the last; K the most one node can ever hold
    used, tazes : (n,) containers and tazes held
    worth : (j,) credits of the job's containers
    exposed : (j,) tazes of the job that share a node with another
    in_rack : (j, R) containers of the job; only of jobs that count as ``rack``
    places : (j,) racks that hold such a job
    total : (1,) F, but for what no solver sees
    chance : (1,) state of the generator
    """

    at: Ints
    held: Ints
    used: Ints
    tazes: Ints
    worth: Floats
    exposed: Ints
    in_rack: Ints
    places: Ints
    total: Floats
    chance: "np.ndarray[Any, np.dtype[np.uint64]]"


def fixed(instance: Instance, costs: Costs) -> Fixed:
    """Gather what an annealing reads."""
    ends = np.cumsum(instance.size)
    return Fixed(
        rack=instance.rack,
        slots=instance.slots,
        open=costs.open,
        slot=costs.slot,
        job=instance.job,
        intensity=instance.intensity,
        is_taz=instance.is_taz,
        counts_as=instance.counts_as,
        split=costs.split,
        current=instance.current,
        first=np.append(0, ends).astype(np.int64),
        of_job=np.argsort(instance.job, kind="stable").astype(np.int64),
        credit=costs.credit,
        move=costs.move,
    )


def empty(known: Fixed, containers: int, seed: int = 0) -> State:
    """Return the state of nothing placed yet. O(n·K + c + j·R) memory."""
    nodes, jobs = known.rack.size, known.counts_as.size
    width = min(int(known.slots.max(initial=1)), max(containers, 1))
    return State(
        at=np.full(containers, _EMPTY, dtype=np.int64),
        held=np.full((nodes, width), _EMPTY, dtype=np.int64),
        used=np.zeros(nodes, dtype=np.int64),
        tazes=np.zeros(nodes, dtype=np.int64),
        worth=np.zeros(jobs),
        exposed=np.zeros(jobs, dtype=np.int64),
        in_rack=np.zeros((jobs, int(known.rack.max(initial=0)) + 1), dtype=np.int64),
        places=np.zeros(jobs, dtype=np.int64),
        total=np.zeros(1),
        chance=np.array([seed * 2 + 1], dtype=np.uint64),
    )


def state(known: Fixed, assignment: Ints, seed: int) -> State:
    """Count a placement."""
    made = empty(known, assignment.size, seed)
    made.at[:] = assignment
    _fill(known, made)
    return made


@jit()
def _fill(known: Fixed, s: State) -> None:
    for i in range(s.at.size):
        node = s.at[i]
        s.held[node, s.used[node]] = i
        s.used[node] += 1
        s.tazes[node] += known.is_taz[i]
        job = known.job[i]
        if known.counts_as[job] == _RACK:
            rack = known.rack[node]
            s.places[job] += s.in_rack[job, rack] == 0
            s.in_rack[job, rack] += 1
        if known.current[i] >= 0 and known.current[i] != node:
            s.total[0] += known.move
    for node in range(s.used.size):
        count_in(known, s, node, 1)
    for job in range(s.places.size):
        if known.counts_as[job] == _RACK and s.places[job] > 1:
            s.total[0] += known.split[job]
        elif known.counts_as[job] == _NODE:
            s.total[0] += _apart(known, s, job)


@jit()
def count_in(known: Fixed, s: State, node: int, sign: int) -> None:
    """Put a node into the sums (sign 1) or take it out (-1)."""
    used = s.used[node]
    if used == 0:
        return
    s.total[0] += sign * (known.open[node] + known.slot[node] * used)
    top, credit = _credit(known, s, node)
    job = known.job[top]
    s.worth[job] += sign * credit
    if s.exposed[job] == 0:
        s.total[0] -= sign * known.credit * credit
    if s.tazes[node] < 2:
        return
    for k in range(used):
        if known.is_taz[s.held[node, k]]:
            j = known.job[s.held[node, k]]
            before = s.exposed[j]
            s.exposed[j] = before + sign
            if before == 0:
                s.total[0] += known.credit * s.worth[j]
            elif s.exposed[j] == 0:
                s.total[0] -= known.credit * s.worth[j]


@jit()
def _credit(known: Fixed, s: State, node: int) -> tuple[int, float]:
    """Return the most intense container of a node, and what it is above the next."""
    top = s.held[node, 0]
    best, second = known.intensity[top], 0.0
    for k in range(1, s.used[node]):
        x = known.intensity[s.held[node, k]]
        if x > best:
            top, best, second = s.held[node, k], x, best
        elif x > second:
            second = x
    return top, best - second


@jit()
def _apart(known: Fixed, s: State, job: int) -> float:
    """Return what a ``node`` job costs where its containers are."""
    first = s.at[known.of_job[known.first[job]]]
    for k in range(known.first[job] + 1, known.first[job + 1]):
        if s.at[known.of_job[k]] != first:
            return float(known.split[job])
    return 0.0


@jit()
def _carry(known: Fixed, s: State, i: int, to: int) -> None:
    """Note that a container is on another node: wishes and moves; not what nodes hold."""
    job, came = known.job[i], s.at[i]
    wish = known.counts_as[job]
    if wish == _RACK:
        a, b = known.rack[came], known.rack[to]
        if a != b:
            before = s.places[job]
            s.in_rack[job, a] -= 1
            s.places[job] -= s.in_rack[job, a] == 0
            s.places[job] += s.in_rack[job, b] == 0
            s.in_rack[job, b] += 1
            s.total[0] += known.split[job] * ((s.places[job] > 1) - (before > 1))
        s.at[i] = to
    elif wish == _NODE:
        before_cost = _apart(known, s, job)
        s.at[i] = to
        s.total[0] += _apart(known, s, job) - before_cost
    else:
        s.at[i] = to
    home = known.current[i]
    if home >= 0:
        s.total[0] += known.move * ((home != to) * 1.0 - (home != came) * 1.0)


@jit()
def exchange(known: Fixed, s: State, a: int, i: int, b: int, k: int) -> None:
    """Swap the i-th container of node a with the k-th of b; a place behind the last is empty."""
    count_in(known, s, a, -1)
    count_in(known, s, b, -1)
    x = s.held[a, i] if i < s.used[a] else _EMPTY
    y = s.held[b, k] if k < s.used[b] else _EMPTY
    if x != _EMPTY:
        _carry(known, s, x, b)
        s.tazes[a] -= known.is_taz[x]
        s.tazes[b] += known.is_taz[x]
    if y != _EMPTY:
        _carry(known, s, y, a)
        s.tazes[b] -= known.is_taz[y]
        s.tazes[a] += known.is_taz[y]
    if x != _EMPTY and y != _EMPTY:  # noqa: PLR1714 - compiled
        s.held[a, i], s.held[b, k] = y, x
    elif x != _EMPTY:
        _take(s, a, i)
        s.held[b, s.used[b]] = x
        s.used[b] += 1
    elif y != _EMPTY:
        _take(s, b, k)
        s.held[a, s.used[a]] = y
        s.used[a] += 1
    count_in(known, s, a, 1)
    count_in(known, s, b, 1)


@jit()
def _take(s: State, node: int, k: int) -> None:
    """Remove the k-th container; the last takes its place."""
    s.used[node] -= 1
    s.held[node, k] = s.held[node, s.used[node]]
    s.held[node, s.used[node]] = _EMPTY


@jit()
def trade(known: Fixed, s: State, a: int, b: int) -> None:
    """Swap all that two nodes of equally many slots hold."""
    count_in(known, s, a, -1)
    count_in(known, s, b, -1)
    for k in range(s.used[a]):
        _carry(known, s, s.held[a, k], b)
    for k in range(s.used[b]):
        _carry(known, s, s.held[b, k], a)
    for k in range(max(s.used[a], s.used[b])):
        s.held[a, k], s.held[b, k] = s.held[b, k], s.held[a, k]
    s.used[a], s.used[b] = s.used[b], s.used[a]
    s.tazes[a], s.tazes[b] = s.tazes[b], s.tazes[a]
    count_in(known, s, a, 1)
    count_in(known, s, b, 1)


@jit()
def _draw(s: State, below: int) -> int:
    """Return a number below another, by xorshift."""
    x = s.chance[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    s.chance[0] = x
    return int((x >> np.uint64(11)) % np.uint64(below))


@jit()
def _is_kept(s: State, before: float, heat: float) -> bool:
    rise = s.total[0] - before
    if rise <= 0.0:
        return True
    return heat > 0.0 and _draw(s, 1 << 30) / float(1 << 30) < np.exp(-rise / heat)


@jit()
def anneal(known: Fixed, s: State, heat: float, tries: int) -> None:
    """Try so many exchanges, the heat falling to 0 over the first nine tenths of them."""
    nodes, width = s.held.shape
    cooling = max(1, tries * 9 // 10)
    for step in range(tries):
        now = heat * (1.0 - step / cooling) if step < cooling else 0.0
        before = s.total[0]
        i = _draw(s, s.at.size)
        a, b = s.at[i], _draw(s, nodes)
        if a == b:
            continue
        if step % 4 == 0:
            if known.slots[a] == known.slots[b]:
                trade(known, s, a, b)
                if not _is_kept(s, before, now):
                    trade(known, s, a, b)
            continue
        at = 0
        while s.held[a, at] != i:
            at += 1
        k = _draw(s, min(width, known.slots[b]))
        was_moved = k >= s.used[b]
        exchange(known, s, a, at, b, k)
        if not _is_kept(s, before, now):
            if was_moved:
                exchange(known, s, b, s.used[b] - 1, a, s.used[a])
            else:
                exchange(known, s, a, at, b, k)
