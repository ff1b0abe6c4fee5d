"""Compiled short list of the servers with the highest scores of a ranking.

Imported by processes that decide, never by the web process. A decision lists a few units only.
So each ranking keeps all servers whose scores exceed a floor, as long as they are few; as servers
change, they join and leave the list. Most decisions then read nothing else, however many servers
there are.

Notation: s a server, i a place in the list; L places.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Floats, Ints, Shorts

PER_ROOT: Final = 3.0  # places for leaders, by the root of the number of servers
SAMPLED: Final = 0.8  # of the places, for the servers that exceed a sampled floor
STEP: Final = 31  # one server of so many is sampled; a prime, as platforms may alternate
PLACE: Final = 26  # of `Ranking.base`: where the place of a leader is in what the filters found
ROOM: Final = 36
_MASK: Final = (1 << (ROOM - PLACE)) - 1
_UNIT: Final = float(1 << PLACE)
LEADERS, AGE, WAIT = 0, 1, 2  # of `Leaders.numbers`
FLOOR, IDLE = 0, 1  # of `Leaders.floor`
_MIN_WAIT: Final = 64
_MAX_WAIT: Final = 512


class Leaders(NamedTuple):
    """The servers whose scores exceed a floor.

    server, base, busy : (L,) each server, and the values of which its score is made
    floor : (2,) the score that all leaders and no other servers exceed, and the value of
        ``Cluster.idle`` for which it holds
    numbers : (3,) leaders; decisions without them; and after how many such decisions they are
        collected again
    """

    server: Shorts
    base: Floats
    busy: Floats
    floor: Floats
    numbers: Ints


@jit(makes_arrays=False, forceinline=True)
def place_of(found: float) -> int:
    """Return the place of a server by what the filters found, plus 1; 0 = it is no leader."""
    return (int(found) >> PLACE) & _MASK


@jit(makes_arrays=False)
def clear(leaders: Leaders, base: Floats, floor: float, idle: float) -> None:
    """Remove all leaders; servers join if their scores at ``idle`` exceed ``floor``. O(L)."""
    for i in range(leaders.numbers[LEADERS]):
        base[leaders.server[i], 1] -= (i + 1) * _UNIT
    leaders.numbers[LEADERS] = 0
    leaders.floor[FLOOR], leaders.floor[IDLE] = floor, idle


@jit(makes_arrays=False, forceinline=True)
def move(leaders: Leaders, base: Floats, s: int, busy: float, spread: float) -> None:
    """Let a server join, stay or leave by its new score."""
    place = place_of(base[s, 1])
    exceeds = base[s, 0] - spread * busy * leaders.floor[IDLE] > leaders.floor[FLOOR]
    if place:
        if exceeds:
            leaders.base[place - 1], leaders.busy[place - 1] = base[s, 0], busy
        else:
            _remove(leaders, base, place - 1)
    elif exceeds:
        join(leaders, base, s, busy, spread)


@jit(makes_arrays=False)
def join(leaders: Leaders, base: Floats, s: int, busy: float, spread: float) -> None:
    """Add a server whose score exceeds the floor; a full list raises the floor first."""
    if leaders.numbers[LEADERS] == leaders.server.size:
        _raise_floor(leaders, base, spread)
        if base[s, 0] - spread * busy * leaders.floor[IDLE] <= leaders.floor[FLOOR]:
            return
    i = leaders.numbers[LEADERS]
    leaders.server[i], leaders.base[i], leaders.busy[i] = s, base[s, 0], busy
    base[s, 1] += (i + 1) * _UNIT
    leaders.numbers[LEADERS] = i + 1


@jit(makes_arrays=False)
def _remove(leaders: Leaders, base: Floats, i: int) -> None:
    """Remove a leader; the last one takes its place."""
    last = leaders.numbers[LEADERS] - 1
    base[leaders.server[i], 1] -= (i + 1) * _UNIT
    if i != last:
        s = leaders.server[last]
        leaders.server[i], leaders.base[i] = s, leaders.base[last]
        leaders.busy[i] = leaders.busy[last]
        base[s, 1] -= (last - i) * _UNIT
    leaders.numbers[LEADERS] = last


@jit(makes_arrays=False)
def _raise_floor(leaders: Leaders, base: Floats, spread: float) -> None:
    """Raise the floor halfway from the least to the mean score, and remove those below. O(L)."""
    count = leaders.numbers[LEADERS]
    least = total = _score(leaders, 0, spread)
    for i in range(1, count):
        score = _score(leaders, i, spread)
        total += score
        least = min(least, score)
    # rounded, the mean of equal scores may be less than each of them
    leaders.floor[FLOOR] = max(0.5 * (total / count + least), least)
    for i in range(count - 1, -1, -1):
        if _score(leaders, i, spread) <= leaders.floor[FLOOR]:
            _remove(leaders, base, i)


@jit(makes_arrays=False, forceinline=True)
def _score(leaders: Leaders, i: int, spread: float) -> float:
    return leaders.base[i] - spread * leaders.busy[i] * leaders.floor[IDLE]


@jit(makes_arrays=False)
def highest_score(leaders: Leaders, spread: float) -> float:
    """Return the highest score of a leader, for ``spread`` times ``Cluster.idle``. O(L)."""
    top = -np.inf
    for i in range(leaders.numbers[LEADERS]):
        top = max(top, leaders.base[i] - spread * leaders.busy[i])
    return top


@jit(makes_arrays=False)
def best_scores(leaders: Leaders, spread: float, into: Floats) -> float:
    """Write the best scores, best first, and return the last; -inf of too few leaders. O(L)."""
    filled = 0
    for i in range(leaders.numbers[LEADERS]):
        filled = _insert(into, filled, leaders.base[i] - spread * leaders.busy[i])
    return into[filled - 1] if filled == into.size else -np.inf


@jit(makes_arrays=False)
def sampled_floor(leaders: Leaders, base: Floats, busy: Floats, spread: float) -> float:
    """Return a score that enough servers exceed for most of the places, by one server of `STEP`.

    ``spread`` is times ``Cluster.idle``. The list is empty: its memory holds the best scores of
    the sample. Returns -inf if the sample has too few servers. O(S / STEP).
    """
    wanted = int(SAMPLED * leaders.server.size / STEP)
    if wanted == 0:
        return -np.inf
    filled = 0
    for s in range(0, busy.size, STEP):
        filled = _insert(leaders.base[:wanted], filled, base[s, 0] - spread * busy[s])
    return leaders.base[wanted - 1] if filled == wanted else -np.inf


@jit(makes_arrays=False, forceinline=True)
def _insert(into: Floats, filled: int, score: float) -> int:
    """Insert a score if it is among the best, and return the number of scores."""
    if filled == into.size and score <= into[filled - 1]:
        return filled
    filled = min(filled + 1, into.size)
    at = filled - 1
    while at > 0 and into[at - 1] < score:
        into[at] = into[at - 1]
        at -= 1
    into[at] = score
    return filled


@jit(makes_arrays=False, forceinline=True)
def others_reach(leaders: Leaders, idle: float, spread: float) -> float:
    """Return a score that no other server exceeds, but for rounding: none is more than busy."""
    rise = spread * max(leaders.floor[IDLE] - idle, 0.0)
    return leaders.floor[FLOOR] + rise


@jit(makes_arrays=False, forceinline=True)
def are_kept(leaders: Leaders) -> bool:
    """Return whether servers join and leave; else the list is empty."""
    return bool(leaders.floor[FLOOR] < np.inf)


@jit(makes_arrays=False, forceinline=True)
def are_due(leaders: Leaders) -> bool:
    """Return whether to collect leaders for a decision, and count it."""
    leaders.numbers[AGE] += 1
    return bool(leaders.numbers[AGE] > leaders.numbers[WAIT])


@jit(makes_arrays=False)
def note(leaders: Leaders, base: Floats, are_enough: bool) -> None:
    """Give up leaders that are not even enough after they were collected.

    As where many servers are equally good: twice as many decisions then pass before the next try.
    """
    leaders.numbers[AGE] = 0
    if are_enough:
        leaders.numbers[WAIT] = 0
    else:
        leaders.numbers[WAIT] = min(max(2 * leaders.numbers[WAIT], _MIN_WAIT), _MAX_WAIT)
        clear(leaders, base, np.inf, 0.0)


def max_leaders(servers: int) -> int:
    """Return the capacity of the list of leaders.

    A longer list costs each decision more; a shorter one has to be collected from all servers
    more often. The total is lowest where both costs are similar.

    Parameters
    ----------
    servers : number of servers of the cluster
    """
    return min(int(PER_ROOT * math.sqrt(servers)) + 1, _MASK)
