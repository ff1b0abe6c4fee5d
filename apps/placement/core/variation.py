"""How NSGA-II makes a placement of others: crossover by jobs, and moves that mean something.

Compiled; imported by processes that search. Every operator turns a placement that fits into one
that fits: containers change places, or go where a slot is free.

Source: partially matched crossover (Goldberg and Lingle 1985) on jobs; ClavisMO §3.1 "adopted a
partially matched crossover and mutation operators to our problem".
"""

from typing import Final

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.genome import Space, Work, below, count_tazes, move, shift, swap, trade
from apps.placement.core.instance import NOWHERE, Communication

_NODE: Final = int(Communication.NODE)
_RACK: Final = int(Communication.RACK)
_PROBES: Final = 48  # nodes looked at for a place
_CANDIDATES: Final = 6  # containers looked at for an exchange


@jit()
def cross(s: Space, w: Work, donor: Ints) -> None:
    """Take some jobs' places over from another placement: partially matched, by jobs.

    Whoever is in the way takes the place that the newcomer leaves. At most a quarter of the jobs
    come over, one at least. O(c).
    """
    jobs = s.size.size
    share = 1 + below(w, 1 << 14)  # of 2^16
    # fields taken out once: each time costs two atomic counts
    at, held, used, marked = w.at, w.held, w.used, w.marked
    job_of, first, of_job, slots = s.job, s.first, s.of_job, s.slots
    for job in range(jobs):
        marked[job] = below(w, 1 << 16) < share
    marked[below(w, jobs)] = True
    for job in range(jobs):
        if not marked[job]:
            continue
        for t in range(first[job], first[job + 1]):
            i = of_job[t]
            to = donor[i]
            if at[i] == to:
                continue
            if used[to] < slots[to]:
                shift(at, held, used, i, to)
                at[i] = to
                continue
            for k in range(used[to]):
                # the donor has this container here, so not all that are here came over
                other = held[to, k]
                if not (marked[job_of[other]] and donor[other] == to):
                    trade(at, held, used, i, other)
                    break
    count_tazes(s.is_taz, at, w.tazes)


@jit()
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


@jit()
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


@jit()
def _bound_to(s: Space, w: Work, i: int) -> int:
    """Return the rack that a container should not leave, or `NOWHERE`."""
    return NOWHERE if s.is_free[s.job[i]] else int(s.rack[w.at[i]])


@jit()
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


@jit()
def _candidate(s: Space, w: Work, rack: int) -> int:
    """Draw a container, in a rack or anywhere (`NOWHERE`)."""
    if rack == NOWHERE:
        return below(w, w.at.size)
    node = s.of_rack[s.begins[rack] + below(w, s.begins[rack + 1] - s.begins[rack])]
    return int(w.held[node, below(w, w.used[node])]) if w.used[node] else NOWHERE


@jit()
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


@jit()
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


@jit()
def _close(s: Space, w: Work) -> None:
    """Empty a node: its containers go where a slot is free on nodes that are on anyway."""
    node = w.at[below(w, w.at.size)]
    for _ in range(w.used[node]):
        i = w.held[node, w.used[node] - 1]
        to = _find(s, w, _bound_to(s, w, i), i, True)
        if to == NOWHERE:
            return
        move(s, w, i, to)


@jit()
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


@jit()
def _join(s: Space, w: Work, i: int, node: int) -> None:
    """Put a container on a node; a stranger there takes its place if there is no room."""
    if w.used[node] < s.slots[node]:
        move(s, w, i, node)
        return
    for k in range(w.used[node]):
        if s.job[w.held[node, k]] != s.job[i]:
            swap(s, w, i, w.held[node, k])
            return


@jit()
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


@jit()
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


@jit()
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


@jit()
def _huddle(s: Space, w: Work) -> None:
    """Put the tazes of a job together on fewer nodes: their job gives its credit up for others."""
    job = s.job[below(w, w.at.size)]
    at, held, used, tazes = w.at, w.held, w.used, w.tazes
    is_taz, of_job, slots, rack, is_free = s.is_taz, s.of_job, s.slots, s.rack, s.is_free
    host = NOWHERE
    for t in range(s.first[job], s.first[job + 1]):
        taz = of_job[t]
        if not is_taz[taz]:
            continue
        if host == NOWHERE or tazes[host] == slots[host]:
            host = at[taz]
        elif at[taz] != host:
            here = at[taz]
            if _host(s.job, s.is_taz, is_free, at, held, used, slots, rack, taz, host):
                tazes[here] -= 1
                tazes[host] += 1


@jit()
def _host(  # noqa: PLR0913, PLR0917 - arrays one by one: see `cross`
    job: Ints,
    is_taz: Bools,
    is_free: Bools,
    at: Ints,
    held: Ints,
    used: Ints,
    slots: Ints,
    rack: Ints,
    taz: int,
    host: int,
) -> bool:
    """Put a taz on a node that holds another, in place of a turtle if there is no room."""
    if used[host] < slots[host]:
        shift(at, held, used, taz, host)
        at[taz] = host
        return True
    for k in range(used[host]):
        turtle = held[host, k]
        if not is_taz[turtle] and (is_free[job[turtle]] or rack[host] == rack[at[taz]]):
            trade(at, held, used, taz, turtle)
            return True
    return False


@jit()
def _trade(s: Space, w: Work) -> None:
    """Let two jobs change places, container by container, as far as the smaller goes."""
    a, b = s.job[below(w, w.at.size)], s.job[below(w, w.at.size)]
    if a == b:
        return
    at, held, used, of_job = w.at, w.held, w.used, s.of_job
    begin, other = s.first[a], s.first[b]
    for t in range(min(s.size[a], s.size[b])):
        trade(at, held, used, of_job[begin + t], of_job[other + t])
    count_tazes(s.is_taz, at, w.tazes)
