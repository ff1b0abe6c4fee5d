"""How NSGA-II makes a placement of others: crossover by jobs, and moves that mean something.

Compiled; imported by processes that search. Every operator turns a placement that fits into one
that fits: containers change places, or go where a slot is free.

Source: partially matched crossover (Goldberg and Lingle 1985) on jobs; ClavisMO §3.1 "adopted a
partially matched crossover and mutation operators to our problem".
"""

from typing import Final

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.genome import Space, Work, below, move, swap
from apps.placement.core.instance import NOWHERE, Communication

_NODE: Final = int(Communication.NODE)
_RACK: Final = int(Communication.RACK)
_PROBES: Final = 48  # nodes looked at for a place
_CANDIDATES: Final = 6  # containers looked at for an exchange


@jit(makes_arrays=False)
def cross(s: Space, w: Work, donor: Ints) -> None:
    """Take some jobs' places over from another placement: partially matched, by jobs.

    Whoever is in the way takes the place that the newcomer leaves. At most a quarter of the jobs
    come over, one at least. O(c).
    """
    jobs = s.size.size
    w.marked[:] = False
    for _ in range(1 + below(w, max(1, jobs // 4))):
        w.marked[below(w, jobs)] = True
    for job in range(jobs):
        if w.marked[job]:
            for t in range(s.first[job], s.first[job + 1]):
                _bring(s, w, donor, s.of_job[t])


@jit(makes_arrays=False)
def _bring(s: Space, w: Work, donor: Ints, i: int) -> None:
    """Put a container where the donor has it, in place of one that did not come over."""
    to = donor[i]
    if w.at[i] == to:
        return
    if w.used[to] < s.slots[to]:
        move(s, w, i, to)
        return
    for k in range(w.used[to]):
        # the donor has this container here, so not all that are here came over
        other = w.held[to, k]
        if not (w.marked[s.job[other]] and donor[other] == to):
            swap(s, w, i, other)
            return


@jit(makes_arrays=False)
def mutate(s: Space, w: Work) -> None:
    """Change the placement a little, in one of seven ways; one time in four in another one too."""
    while True:
        way = below(w, 16)
        if way < 6:
            _exchange(s, w)
        elif way < 7:
            _anywhere(s, w)
        elif way < 9:
            _close(s, w)
        elif way < 11:
            _gather(s, w)
        elif way < 13:
            _protect(s, w)
        elif way < 15:
            _huddle(s, w)
        else:
            _trade(s, w)
        if below(w, 4):
            return


@jit(makes_arrays=False)
def _find(s: Space, w: Work, rack: int, i: int, is_open: bool) -> int:
    """Find a node with room for a container, in a rack or anywhere (`NOWHERE`).

    Not its own, where a taz meets no other, and, if ``is_open``, one that holds something.
    """
    begin = 0 if rack == NOWHERE else s.begins[rack]
    width = s.of_rack.size if rack == NOWHERE else s.begins[rack + 1] - begin
    at = below(w, width)
    for _ in range(min(width, _PROBES)):
        node = s.of_rack[begin + at]
        at = at + 1 if at + 1 < width else 0
        if w.used[node] == s.slots[node] or node == w.at[i] or (is_open and w.used[node] == 0):
            continue
        if s.is_taz[i] and w.tazes[node]:
            continue
        return int(node)
    return NOWHERE


@jit(makes_arrays=False)
def _bound_to(s: Space, w: Work, i: int) -> int:
    """Return the rack that a container should not leave, or `NOWHERE`."""
    return NOWHERE if s.is_free[s.job[i]] else int(s.rack[w.at[i]])


@jit(makes_arrays=False)
def _exchange(s: Space, w: Work) -> None:
    """Let two containers change places: of a few pairs that which earns most credit, or any."""
    i = below(w, w.at.size)
    if not below(w, 8):
        swap(s, w, i, below(w, w.at.size))
        return
    a, rack = w.at[i], _bound_to(s, w, i)
    alone = _worth(s.intensity, s.is_taz, w.held[a, : w.used[a]], NOWHERE, NOWHERE)
    best, most = NOWHERE, 0.0
    for _ in range(_CANDIDATES):
        other = _candidate(s, w, rack)
        if other == NOWHERE or w.at[other] == a:
            continue
        home = _bound_to(s, w, other)
        if home != NOWHERE and home != s.rack[a]:
            continue
        b = w.at[other]
        here, there = w.held[a, : w.used[a]], w.held[b, : w.used[b]]
        gain = _worth(s.intensity, s.is_taz, here, i, other) - alone
        gain += _worth(s.intensity, s.is_taz, there, other, i)
        gain -= _worth(s.intensity, s.is_taz, there, NOWHERE, NOWHERE)
        if best == NOWHERE or gain > most:
            best, most = other, gain
    if best != NOWHERE:
        swap(s, w, i, best)


@jit(makes_arrays=False)
def _candidate(s: Space, w: Work, rack: int) -> int:
    """Draw a container, in a rack or anywhere (`NOWHERE`)."""
    if rack == NOWHERE:
        return below(w, w.at.size)
    node = s.of_rack[s.begins[rack] + below(w, s.begins[rack + 1] - s.begins[rack])]
    return int(w.held[node, below(w, w.used[node])]) if w.used[node] else NOWHERE


@jit(makes_arrays=False)
def _worth(intensity: Floats, is_taz: Bools, held: Ints, gone: int, came: int) -> float:
    """Return the credit of a node less its stragglers, with one container in place of another."""
    tazes, best, second = 0, -1.0, 0.0
    for i in held:
        one = came if i == gone else i
        tazes += is_taz[one]
        x = intensity[one]
        if x > best:
            best, second = x, max(best, 0.0)
        elif x > second:
            second = x
    return float(best - second - (tazes if tazes > 1 else 0))


@jit(makes_arrays=False)
def _anywhere(s: Space, w: Work) -> None:
    """Move a container to a node that has room: a sensible one, or any."""
    i = below(w, w.at.size)
    if below(w, 2):
        node = below(w, w.used.size)
        if w.used[node] < s.slots[node] and node != w.at[i]:
            move(s, w, i, node)
        return
    to = _find(s, w, _bound_to(s, w, i), i, below(w, 2) == 1)
    if to != NOWHERE:
        move(s, w, i, to)


@jit(makes_arrays=False)
def _close(s: Space, w: Work) -> None:
    """Empty a node: its containers go where a slot is free on nodes that are on anyway."""
    node = w.at[below(w, w.at.size)]
    for _ in range(w.used[node]):
        i = w.held[node, w.used[node] - 1]
        to = _find(s, w, _bound_to(s, w, i), i, True)
        if to == NOWHERE:
            return
        move(s, w, i, to)


@jit(makes_arrays=False)
def _gather(s: Space, w: Work) -> None:
    """Bring a job together where one of its containers is: on its node, or in its rack."""
    i = below(w, w.at.size)
    job = s.job[i]
    wish = s.counts_as[job]
    if wish == _NODE:
        for t in range(s.first[job], s.first[job + 1]):
            other = s.of_job[t]
            if w.at[other] != w.at[i]:
                _join(s, w, other, w.at[i])
    elif wish == _RACK:
        rack = s.rack[w.at[i]]
        for t in range(s.first[job], s.first[job + 1]):
            if s.rack[w.at[s.of_job[t]]] != rack:
                _enter(s, w, s.of_job[t], rack)


@jit(makes_arrays=False)
def _join(s: Space, w: Work, i: int, node: int) -> None:
    """Put a container on a node; a stranger there takes its place if there is no room."""
    if w.used[node] < s.slots[node]:
        move(s, w, i, node)
        return
    for k in range(w.used[node]):
        if s.job[w.held[node, k]] != s.job[i]:
            swap(s, w, i, w.held[node, k])
            return


@jit(makes_arrays=False)
def _enter(s: Space, w: Work, i: int, rack: int) -> None:
    """Put a container into a rack: on a free slot, or in place of one that may as well leave."""
    begin, width = s.begins[rack], s.begins[rack + 1] - s.begins[rack]
    at, second = below(w, width), NOWHERE
    for _ in range(min(width, _PROBES)):
        node = s.of_rack[begin + at]
        at = at + 1 if at + 1 < width else 0
        for k in range(w.used[node]):
            other = w.held[node, k]
            if s.is_taz[other] == s.is_taz[i] and s.job[other] != s.job[i]:
                if s.is_free[s.job[other]]:
                    swap(s, w, i, other)
                    return
                second = other
    to = _find(s, w, rack, i, False)
    if to != NOWHERE:
        move(s, w, i, to)
    elif second != NOWHERE:
        swap(s, w, i, second)


@jit(makes_arrays=False)
def _protect(s: Space, w: Work) -> None:
    """Part the tazes of a job from all others, in their racks if they wish to stay there."""
    i = below(w, w.at.size)
    for t in range(s.first[s.job[i]], s.first[s.job[i] + 1]):
        taz = s.of_job[t]
        if not s.is_taz[taz] or w.tazes[w.at[taz]] < 2:
            continue
        rack = _bound_to(s, w, taz)
        turtle = _quiet(s, w, rack)
        if turtle != NOWHERE and below(w, 8):
            swap(s, w, taz, turtle)
            continue
        to = _find(s, w, rack, taz, False)
        if to == NOWHERE:
            return  # one straggler and all is in vain
        move(s, w, taz, to)


@jit(makes_arrays=False)
def _quiet(s: Space, w: Work, rack: int) -> int:
    """Find a turtle on a node without tazes, in a rack, or one that may leave its own."""
    begin = 0 if rack == NOWHERE else s.begins[rack]
    width = s.of_rack.size if rack == NOWHERE else s.begins[rack + 1] - begin
    at = below(w, width)
    for _ in range(min(width, _PROBES)):
        node = s.of_rack[begin + at]
        at = at + 1 if at + 1 < width else 0
        if w.used[node] and not w.tazes[node]:
            turtle = w.held[node, below(w, w.used[node])]
            if rack != NOWHERE or _bound_to(s, w, turtle) == NOWHERE:
                return int(turtle)
    return NOWHERE


@jit(makes_arrays=False)
def _huddle(s: Space, w: Work) -> None:
    """Put the tazes of a job together on fewer nodes: their job gives its credit up for others."""
    job = s.job[below(w, w.at.size)]
    host = NOWHERE
    for t in range(s.first[job], s.first[job + 1]):
        taz = s.of_job[t]
        if not s.is_taz[taz]:
            continue
        if host == NOWHERE or w.tazes[host] == s.slots[host]:
            host = w.at[taz]
        elif w.at[taz] != host:
            _host(s, w, taz, host)


@jit(makes_arrays=False)
def _host(s: Space, w: Work, taz: int, host: int) -> None:
    """Put a taz on a node that holds another, in place of a turtle if there is no room."""
    if w.used[host] < s.slots[host]:
        move(s, w, taz, host)
        return
    for k in range(w.used[host]):
        turtle = w.held[host, k]
        if s.is_taz[turtle]:
            continue
        if s.is_free[s.job[turtle]] or s.rack[host] == s.rack[w.at[taz]]:
            swap(s, w, taz, turtle)
            return


@jit(makes_arrays=False)
def _trade(s: Space, w: Work) -> None:
    """Let two jobs change places, container by container, as far as the smaller goes."""
    a, b = s.job[below(w, w.at.size)], s.job[below(w, w.at.size)]
    if a == b:
        return
    for t in range(min(s.size[a], s.size[b])):
        swap(s, w, s.of_job[s.first[a] + t], s.of_job[s.first[b] + t])
