"""Which of the scored units a job gets.

Every picker takes (board, request, eligibility, scores best first) and returns positions in the
scores, best first; fewer than the job wants when it could not find more.
"""

import numpy as np

from apps.inventory.core.snapshot import Ints, Shorts
from apps.scheduling.core.board import Board
from apps.scheduling.core.encoding import BASE
from apps.scheduling.core.filters import Eligibility
from apps.scheduling.core.scorers import Scores
from apps.scheduling.core.types import Request, Within


def best(board: Board, request: Request, eligibility: Eligibility, scores: Scores) -> Ints:
    """Take the m best, none where better ones use up the server's memory, network or storage."""
    return _walk(scores.servers, eligibility.room, request.units)


def apart(board: Board, request: Request, eligibility: Eligibility, scores: Scores) -> Ints:
    """Take the m best on different servers, or in different racks (T5)."""
    places = _places(board, request.spread, scores.servers)
    return np.sort(np.unique(places, return_index=True)[1])[: request.units]


def together(board: Board, request: Request, eligibility: Eligibility, scores: Scores) -> Ints:
    """Take the m best of the server (or rack) where these m are best on the whole.

    The aggregate quality of a place is the sum of Q over its m best units (Tarcil §3.3, Fig. 5b;
    T5); then the sum of their speeds, then the coin of its best unit.
    """
    places = _places(board, request.locality, scores.servers)
    order = np.argsort(places, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(places[order])) + 1)
    picks = [
        group[_walk(scores.servers[group], eligibility.room, request.units)] for group in groups
    ]
    whole = [pick for pick in picks if pick.size == request.units]
    return max(whole, key=lambda pick: _sum(scores.key[pick])) if whole else picks[0][:0]


def _walk(servers: Shorts, room: Shorts, units: int) -> Ints:
    """Positions of the first ``units`` that stay within each server's room."""
    taken: dict[int, int] = {}
    positions: list[int] = []
    for position, server in enumerate(servers.tolist()):
        if len(positions) == units:
            break
        if taken.get(server, 0) < room[server]:
            taken[server] = taken.get(server, 0) + 1
            positions.append(position)
    return np.array(positions, dtype=np.int64)


def _places(board: Board, within: Within | None, servers: Shorts) -> Shorts:
    return board.snapshot.topology.server_rack[servers] if within == Within.RACK else servers


def _sum(key: Ints) -> tuple[int, ...]:
    """Sum of keys: the two words of Q as one number, then speed, then the first one's coin."""
    high, low, speed = (int(n) for n in key[:, :3].sum(axis=0))
    return high * BASE + low, speed, int(key[0, 3])
