"""Which units could run a job at all, and what took the others out.

A uniform draw must be uniform among the eligible units (T3), so filters come before the sample
here; they ask about servers, not units: S questions, not U.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Shorts
from apps.scheduling.core.board import Board
from apps.scheduling.core.capacity import SLACK, wanted
from apps.scheduling.core.types import Request, Within

FILTERS: Final = ("busy", "closed", "platform", "labels", "excluded", "capacity", "locality")


@dataclass(frozen=True, slots=True, eq=False)
class Eligibility:
    """Servers whose free units a job may use.

    Attributes
    ----------
    servers : (S,) True where the job may use the free units
    room : (S,) int32 how many of its units fit there at once, free units and capacity considered
    units : how many units are eligible
    dropped : units taken out, by filter in the order of FILTERS; filters that took none are absent
    """

    servers: Bools
    room: Shorts
    units: int
    dropped: dict[str, int]


def eligible(board: Board, request: Request) -> Eligibility:
    """Apply every filter in turn; a unit is counted at the first that takes it out. O(S)."""
    topology = board.snapshot.topology
    fitting = room(board, request)
    least = request.units if request.locality == Within.SERVER else 1
    excluded = np.zeros(topology.server_id.size, dtype=np.bool_)
    excluded[[s for s in request.excluded if 0 <= s < excluded.size]] = True
    tests = {
        "closed": board.snapshot.server_open,
        "platform": board.facts.allowed(request.platforms)[topology.server_platform],
        "labels": board.facts.labelled(request.labels),
        "excluded": ~excluded,
        "capacity": fitting > 0,
        "locality": fitting >= least,
    }
    left = board.free_count > 0
    dropped = {"busy": int(topology.unit_id.size - board.free_count.sum())}
    for name, passes in tests.items():
        dropped[name] = int(board.free_count[left & ~passes].sum())
        left = left & passes
    if request.locality == Within.RACK:
        near = _roomy_racks(board, np.where(left, fitting, 0), request.units)
        dropped["locality"] += int(board.free_count[left & ~near].sum())
        left = left & near
    counts = {name: n for name, n in dropped.items() if n}
    return Eligibility(left, fitting, int(board.free_count[left].sum()), counts)


def room(board: Board, request: Request) -> Shorts:
    """(S,) int32 units of the request that fit on each server now."""
    asked = wanted(request)
    vectors = np.where(asked > 0, asked, board.facts.share) * (1.0 - SLACK)
    most = float(request.units)
    with np.errstate(divide="ignore", invalid="ignore"):
        fitting = np.where(vectors > 0, np.floor(board.server_free / vectors), most).min(axis=1)
    by_capacity = np.clip(fitting, 0, most).astype(np.int32)
    return np.minimum(board.free_count, by_capacity)


def _roomy_racks(board: Board, fitting: Shorts, units: int) -> Bools:
    """(S,) servers whose rack has room for all units."""
    topology = board.snapshot.topology
    total = np.bincount(topology.server_rack, weights=fitting, minlength=len(topology.rack_name))
    near: Bools = total[topology.server_rack] >= units
    return near
