"""Variation of placements in NSGA-II: crossover by jobs, and mutations that suit the objectives.

Compiled; imported by processes that search. Every operator turns a valid placement into a valid
one: containers swap nodes, or move to a free slot. p the packed instance, d the decoded placement.

Source: partially matched crossover (Goldberg and Lingle 1985) on jobs; ClavisMO §3.1 "adopted a
partially matched crossover and mutation operators to our problem".
"""

from typing import Final

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.front.genome import DecodedPlacement, move, random_below, swap
from apps.placement.core.problem.evaluator import PackedInstance
from apps.placement.core.problem.instance import NOWHERE, Communication

_NODE: Final = int(Communication.NODE)
_RACK: Final = int(Communication.RACK)
_NODES_PROBED: Final = 48
_CANDIDATES: Final = 6  # containers considered for a swap


@jit(makes_arrays=False)
def cross(p: PackedInstance, d: DecodedPlacement, donor: Ints) -> None:
    """Inherit the nodes of some jobs from another placement: partially matched, by jobs.

    A container that is in the way gets the node that the inherited one leaves. At least one job
    and at most a quarter of them are inherited. O(c).
    """
    jobs = p.size.size
    d.marked[:] = False
    for _ in range(1 + random_below(d, max(1, jobs // 4))):
        d.marked[random_below(d, jobs)] = True
    for job in range(jobs):
        if d.marked[job]:
            for k in range(p.job_start[job], p.job_start[job + 1]):
                _inherit(p, d, donor, p.job_containers[k])


@jit(makes_arrays=False)
def _inherit(p: PackedInstance, d: DecodedPlacement, donor: Ints, i: int) -> None:
    """Put a container on the donor's node, in place of a container that is not inherited."""
    to = donor[i]
    if d.at[i] == to:
        return
    if d.used[to] < p.slots[to]:
        move(p, d, i, to)
        return
    for k in range(d.used[to]):
        # the donor has this container here, so not all containers here are inherited
        other = d.held[to, k]
        if not (d.marked[p.job[other]] and donor[other] == to):
            swap(p, d, i, other)
            return


@jit(makes_arrays=False)
def mutate(p: PackedInstance, d: DecodedPlacement) -> None:
    """Apply one of seven mutations, and with probability 1/4 another one."""
    while True:
        choice = random_below(d, 16)
        if choice < 6:
            _swap_containers(p, d)
        elif choice < 7:
            _move_container(p, d)
        elif choice < 9:
            _empty_node(p, d)
        elif choice < 11:
            _gather_job(p, d)
        elif choice < 13:
            _protect_job(p, d)
        elif choice < 15:
            _concentrate_tazes(p, d)
        else:
            _swap_jobs(p, d)
        if random_below(d, 4):
            return


@jit(makes_arrays=False)
def _find_node(p: PackedInstance, d: DecodedPlacement, rack: int, i: int, is_open: bool) -> int:
    """Return a node with a free slot for a container, in a rack or in any; `NOWHERE` if none.

    Another node than its own; for a taz one without tazes; if ``is_open``, one that is not empty.
    """
    begin = 0 if rack == NOWHERE else p.rack_start[rack]
    width = p.rack_nodes.size if rack == NOWHERE else p.rack_start[rack + 1] - begin
    at = random_below(d, width)
    for _ in range(min(width, _NODES_PROBED)):
        node = p.rack_nodes[begin + at]
        at = at + 1 if at + 1 < width else 0
        if d.used[node] == p.slots[node] or node == d.at[i] or (is_open and d.used[node] == 0):
            continue
        if p.is_taz[i] and d.tazes[node]:
            continue
        return int(node)
    return NOWHERE


@jit(makes_arrays=False)
def _required_rack(p: PackedInstance, d: DecodedPlacement, i: int) -> int:
    """Return the rack that a container should not leave, or `NOWHERE`."""
    return NOWHERE if p.is_free[p.job[i]] else int(p.rack[d.at[i]])


@jit(makes_arrays=False)
def _swap_containers(p: PackedInstance, d: DecodedPlacement) -> None:
    """Swap two containers: of a few pairs the one that gains most credit, or any pair."""
    i = random_below(d, d.at.size)
    if not random_below(d, 8):
        swap(p, d, i, random_below(d, d.at.size))
        return
    a, rack = d.at[i], _required_rack(p, d, i)
    present = _node_score(p.intensity, p.is_taz, d.held[a, : d.used[a]], NOWHERE, NOWHERE)
    best, best_gain = NOWHERE, 0.0
    for _ in range(_CANDIDATES):
        other = _random_container(p, d, rack)
        if other == NOWHERE or d.at[other] == a:
            continue
        other_rack = _required_rack(p, d, other)
        if other_rack != NOWHERE and other_rack != p.rack[a]:
            continue
        b = d.at[other]
        on_a, on_b = d.held[a, : d.used[a]], d.held[b, : d.used[b]]
        gain = _node_score(p.intensity, p.is_taz, on_a, i, other) - present
        gain += _node_score(p.intensity, p.is_taz, on_b, other, i)
        gain -= _node_score(p.intensity, p.is_taz, on_b, NOWHERE, NOWHERE)
        if best == NOWHERE or gain > best_gain:
            best, best_gain = other, gain
    if best != NOWHERE:
        swap(p, d, i, best)


@jit(makes_arrays=False)
def _random_container(p: PackedInstance, d: DecodedPlacement, rack: int) -> int:
    """Draw a container, in a rack or in any (`NOWHERE`); `NOWHERE` if the node drawn is empty."""
    if rack == NOWHERE:
        return random_below(d, d.at.size)
    width = p.rack_start[rack + 1] - p.rack_start[rack]
    node = p.rack_nodes[p.rack_start[rack] + random_below(d, width)]
    return int(d.held[node, random_below(d, d.used[node])]) if d.used[node] else NOWHERE


@jit(makes_arrays=False)
def _node_score(intensity: Floats, is_taz: Bools, held: Ints, removed: int, added: int) -> float:
    """Return credit less stragglers of a node, with one container replaced by another.

    An estimate of the node's share in D: it ignores the other nodes of the jobs.
    """
    tazes, best, second = 0, -1.0, 0.0
    for i in held:
        container = added if i == removed else i
        tazes += is_taz[container]
        x = intensity[container]
        if x > best:
            best, second = x, max(best, 0.0)
        elif x > second:
            second = x
    return float(best - second - (tazes if tazes > 1 else 0))


@jit(makes_arrays=False)
def _move_container(p: PackedInstance, d: DecodedPlacement) -> None:
    """Move a container to a node with a free slot: a suitable one, or any."""
    i = random_below(d, d.at.size)
    if random_below(d, 2):
        node = random_below(d, d.used.size)
        if d.used[node] < p.slots[node] and node != d.at[i]:
            move(p, d, i, node)
        return
    to = _find_node(p, d, _required_rack(p, d, i), i, random_below(d, 2) == 1)
    if to != NOWHERE:
        move(p, d, i, to)


@jit(makes_arrays=False)
def _empty_node(p: PackedInstance, d: DecodedPlacement) -> None:
    """Move the containers of a node to free slots of other open nodes."""
    node = d.at[random_below(d, d.at.size)]
    for _ in range(d.used[node]):
        i = d.held[node, d.used[node] - 1]
        to = _find_node(p, d, _required_rack(p, d, i), i, True)
        if to == NOWHERE:
            return
        move(p, d, i, to)


@jit(makes_arrays=False)
def _gather_job(p: PackedInstance, d: DecodedPlacement) -> None:
    """Gather a job on the node, or in the rack, of one of its containers."""
    i = random_below(d, d.at.size)
    job = p.job[i]
    scope = p.communication[job]
    if scope == _NODE:
        for k in range(p.job_start[job], p.job_start[job + 1]):
            other = p.job_containers[k]
            if d.at[other] != d.at[i]:
                _move_to_node(p, d, other, d.at[i])
    elif scope == _RACK:
        rack = p.rack[d.at[i]]
        for k in range(p.job_start[job], p.job_start[job + 1]):
            if p.rack[d.at[p.job_containers[k]]] != rack:
                _move_to_rack(p, d, p.job_containers[k], rack)


@jit(makes_arrays=False)
def _move_to_node(p: PackedInstance, d: DecodedPlacement, i: int, node: int) -> None:
    """Move a container to a node, or swap it with one of another job if the node is full."""
    if d.used[node] < p.slots[node]:
        move(p, d, i, node)
        return
    for k in range(d.used[node]):
        if p.job[d.held[node, k]] != p.job[i]:
            swap(p, d, i, d.held[node, k])
            return


@jit(makes_arrays=False)
def _move_to_rack(p: PackedInstance, d: DecodedPlacement, i: int, rack: int) -> None:
    """Move a container into a rack: in place of one that may leave, or to a free slot."""
    begin, width = p.rack_start[rack], p.rack_start[rack + 1] - p.rack_start[rack]
    at, fallback = random_below(d, width), NOWHERE
    for _ in range(min(width, _NODES_PROBED)):
        node = p.rack_nodes[begin + at]
        at = at + 1 if at + 1 < width else 0
        for k in range(d.used[node]):
            other = d.held[node, k]
            if p.is_taz[other] == p.is_taz[i] and p.job[other] != p.job[i]:
                if p.is_free[p.job[other]]:
                    swap(p, d, i, other)
                    return
                fallback = other
    to = _find_node(p, d, rack, i, False)
    if to != NOWHERE:
        move(p, d, i, to)
    elif fallback != NOWHERE:
        swap(p, d, i, fallback)


@jit(makes_arrays=False)
def _protect_job(p: PackedInstance, d: DecodedPlacement) -> None:
    """Separate the tazes of a job from all other tazes, within their racks if required."""
    i = random_below(d, d.at.size)
    for k in range(p.job_start[p.job[i]], p.job_start[p.job[i] + 1]):
        taz = p.job_containers[k]
        if not p.is_taz[taz] or d.tazes[d.at[taz]] < 2:
            continue
        rack = _required_rack(p, d, taz)
        turtle = _find_turtle(p, d, rack)
        if turtle != NOWHERE and random_below(d, 8):
            swap(p, d, taz, turtle)
            continue
        to = _find_node(p, d, rack, taz, False)
        if to == NOWHERE:
            return  # a single straggler costs the whole job its credit
        move(p, d, taz, to)


@jit(makes_arrays=False)
def _find_turtle(p: PackedInstance, d: DecodedPlacement, rack: int) -> int:
    """Return a turtle on a node without tazes, in the rack, or one free to leave its own rack."""
    begin = 0 if rack == NOWHERE else p.rack_start[rack]
    width = p.rack_nodes.size if rack == NOWHERE else p.rack_start[rack + 1] - begin
    at = random_below(d, width)
    for _ in range(min(width, _NODES_PROBED)):
        node = p.rack_nodes[begin + at]
        at = at + 1 if at + 1 < width else 0
        if d.used[node] and not d.tazes[node]:
            turtle = d.held[node, random_below(d, d.used[node])]
            if rack != NOWHERE or _required_rack(p, d, turtle) == NOWHERE:
                return int(turtle)
    return NOWHERE


@jit(makes_arrays=False)
def _concentrate_tazes(p: PackedInstance, d: DecodedPlacement) -> None:
    """Put the tazes of a job on fewer nodes: its credit is given up in favour of other jobs."""
    job = p.job[random_below(d, d.at.size)]
    target = NOWHERE
    for k in range(p.job_start[job], p.job_start[job + 1]):
        taz = p.job_containers[k]
        if not p.is_taz[taz]:
            continue
        if target == NOWHERE or d.tazes[target] == p.slots[target]:
            target = d.at[taz]
        elif d.at[taz] != target:
            _join_taz(p, d, taz, target)


@jit(makes_arrays=False)
def _join_taz(p: PackedInstance, d: DecodedPlacement, taz: int, node: int) -> None:
    """Move a taz to a node with another taz, or swap it with a turtle if the node is full."""
    if d.used[node] < p.slots[node]:
        move(p, d, taz, node)
        return
    for k in range(d.used[node]):
        turtle = d.held[node, k]
        if p.is_taz[turtle]:
            continue
        if p.is_free[p.job[turtle]] or p.rack[node] == p.rack[d.at[taz]]:
            swap(p, d, taz, turtle)
            return


@jit(makes_arrays=False)
def _swap_jobs(p: PackedInstance, d: DecodedPlacement) -> None:
    """Swap the nodes of two jobs, container by container, up to the size of the smaller."""
    a, b = p.job[random_below(d, d.at.size)], p.job[random_below(d, d.at.size)]
    if a == b:
        return
    for k in range(min(p.size[a], p.size[b])):
        swap(p, d, p.job_containers[p.job_start[a] + k], p.job_containers[p.job_start[b] + k])
