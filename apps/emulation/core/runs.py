"""What the engine keeps of a running job beside its arrays, and what it may be asked to do."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from apps.emulation.core.events import Order
from apps.emulation.core.truth import split_share
from apps.inventory.core.snapshot import Ints


class Move(NamedTuple):
    """Units under way from one server to another."""

    server: int
    to: int
    units: int
    until_s: float


@dataclass(slots=True)
class Run:
    """One running job.

    Attributes
    ----------
    parts : units by server; those of a move are where they came from until it ends
    busy : share of the units its tasks keep at work
    end_s : when it ends whatever its work
    move : the one under way
    """

    order: Order
    parts: dict[int, int]
    busy: float
    started_s: float
    end_s: float
    move: Move | None = None
    phase: int = 0
    cycle: int = 0


def layout_factor(run: Run, rack: Ints) -> float:
    """Share of its speed that waves, the number of servers and the racks leave a job.

    Parameters
    ----------
    rack : (S,) of each server
    """
    truth = run.order.truth
    factor = run.busy * truth.scale_out.efficiency(len(run.parts))
    if truth.rack_loss == 0.0:
        return factor
    by_rack = ((int(rack[server]), units) for server, units in run.parts.items())
    return factor * (1.0 - truth.rack_loss * split_share(by_rack))


def check_order(order: Order, free: Ints) -> None:
    """Check that an order can start.

    Parameters
    ----------
    free : (S,) units no job holds

    Raises
    ------
    ValueError : names what is wrong.
    """
    servers = [server for server, _ in order.parts]
    if not servers or len(set(servers)) != len(servers):
        raise ValueError(f"parts of {order.key} must name at least one server, each once")
    for server, units in order.parts:
        if not 1 <= units <= free[server]:
            raise ValueError(f"server {server} has {free[server]} free units, not {units}")
    if not order.work_s > 0.0 or not 0.0 <= order.done_share <= 1.0:
        raise ValueError(f"work_s must be > 0 and done_share in [0, 1], got {order}")


def check_move(run: Run, move: Move, now: float, free: Ints) -> None:
    """Check that a move can begin now.

    Parameters
    ----------
    free : (S,) units no job holds

    Raises
    ------
    ValueError : names what is wrong.
    """
    key, held = run.order.key, run.parts.get(move.server, 0)
    if run.move is not None:
        raise ValueError(f"job {key} moves already, to server {run.move.to}")
    if not 1 <= move.units <= held:
        raise ValueError(f"job {key} has {held} units on server {move.server}, not {move.units}")
    if not 0 <= move.to < free.size or move.to == move.server:
        raise ValueError(f"job {key} cannot move from server {move.server} to {move.to}")
    if move.units > free[move.to]:
        raise ValueError(f"server {move.to} has {free[move.to]} free units, not {move.units}")
    if not now <= move.until_s < np.inf:
        raise ValueError(f"stall_s must be finite and at least 0, got {move.until_s - now}")
