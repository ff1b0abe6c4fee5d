"""Pickers: choose the units of a job among the scored ones.

Every picker takes (state, request, eligibility, scores best first) and returns positions in the
scores, best first; fewer than requested if there are no more.
"""

import numpy as np

from apps.inventory.core.snapshot import Ints, Shorts
from apps.scheduling.core.batch_state import BatchState
from apps.scheduling.core.cluster.places import first_of_each, place_of
from apps.scheduling.core.filters import Eligibility
from apps.scheduling.core.scorers import Scores
from apps.scheduling.core.tarcil.encoding import BASE
from apps.scheduling.core.types import Request, Within


def best(state: BatchState, request: Request, eligibility: Eligibility, scores: Scores) -> Ints:
    """Pick the m best, within the memory, network and storage of their servers."""
    return _walk(scores.servers, eligibility.room, request.units)


def apart(state: BatchState, request: Request, eligibility: Eligibility, scores: Scores) -> Ints:
    """Pick the m best in different places: servers, racks or switches (T5)."""
    return first_of_each(_places(state, request.spread, scores.servers))[: request.units]


def together(
    state: BatchState, request: Request, eligibility: Eligibility, scores: Scores
) -> Ints:
    """Pick the m best of the server (or rack, or switch) with the highest aggregate quality.

    That is the sum of Q over its m best units (Tarcil §3.3, Fig. 5b; T5). Ties are broken by the
    sum of their speeds, then by the coin of the best unit. With a spread, only the best unit of
    each of its places counts.
    """
    positions = np.arange(scores.servers.size)
    if request.spread is not None:
        positions = first_of_each(_places(state, request.spread, scores.servers))
    groups = _groups(positions, _places(state, request.locality, scores.servers[positions]))
    picks = [
        group[_walk(scores.servers[group], eligibility.room, request.units)] for group in groups
    ]
    whole = [pick for pick in picks if pick.size == request.units]
    return max(whole, key=lambda pick: _sum(scores.key[pick])) if whole else picks[0][:0]


def _walk(servers: Shorts, room: Shorts, units: int) -> Ints:
    """Return the positions of the first ``units`` that fit into the room of their servers."""
    picked: dict[int, int] = {}
    positions: list[int] = []
    for position, server in enumerate(servers.tolist()):
        if len(positions) == units:
            break
        if picked.get(server, 0) < room[server]:
            picked[server] = picked.get(server, 0) + 1
            positions.append(position)
    return np.array(positions, dtype=np.int64)


def _groups(positions: Ints, places: Shorts) -> list[Ints]:
    """Split positions by their places; those of one place stay in order."""
    order = np.argsort(places, kind="stable")
    return np.split(positions[order], np.flatnonzero(np.diff(places[order])) + 1)


def _places(state: BatchState, within: Within | None, servers: Shorts) -> Shorts:
    return place_of(state.snapshot.topology, within)[servers]


def _sum(key: Ints) -> tuple[int, ...]:
    """Sum keys: two words as one number in base 10^10 (Q), then speed, then the first coin."""
    high, low, speed = (int(n) for n in key[:, :3].sum(axis=0))
    return high * BASE + low, speed, int(key[0, 3])
