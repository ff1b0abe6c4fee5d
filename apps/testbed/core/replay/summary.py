"""Figures of a run, computed at its end from the times and places of its jobs.

n jobs, h holds: a hold is the part of a job on one server.
"""

from typing import Final, NamedTuple

import numpy as np

from apps.emulation.core.events import Machines
from apps.inventory.core.snapshot import Floats, Ints

KWH: Final = 3.6e6
INTERVALS: Final = 288  # of a series


class Holds(NamedTuple):
    """Units held on servers, all (h,): server, units, and seconds from and to."""

    server: Ints
    units: Ints
    from_s: Floats
    to_s: Floats


def energy_j(holds: Holds, machines: Machines) -> float:
    """Joules of servers that are off while empty.

    A server of n units with u in use draws idle + (peak - idle) u/n watts. Source: ClavisMO §3.1.
    """
    span = (machines.peak_watts - machines.idle_watts) / machines.units
    seconds = holds.to_s - holds.from_s
    dynamic = float((span[holds.server] * holds.units * seconds).sum())
    server = np.concatenate((holds.server, holds.server))
    at_s = np.concatenate((holds.from_s, holds.to_s))
    change = np.concatenate((holds.units, -holds.units))
    order = np.lexsort((at_s, server))
    server, at_s, used = server[order], at_s[order], np.cumsum(change[order])
    # the units of a server add up to 0, so the sum starts anew with each server
    is_on = used[:-1] > 0
    return dynamic + float((machines.idle_watts[server[:-1]] * np.diff(at_s))[is_on].sum())


def utilisation(holds: Holds, units: int, from_s: float, to_s: float) -> float:
    """Mean share of all units held between two times; NaN if they are equal."""
    if to_s <= from_s:
        return float("nan")
    inside = np.clip(holds.to_s, from_s, to_s) - np.clip(holds.from_s, from_s, to_s)
    return float((inside * holds.units).sum() / (units * (to_s - from_s)))


def series(holds: Holds, units: int, end_s: float) -> tuple[Floats, Floats]:
    """(k + 1,) ends of equal intervals from 0, and (k,) mean share of the units held in each."""
    at_s = np.linspace(0.0, max(end_s, 1e-9), INTERVALS + 1)
    held = _held_until(holds.to_s, holds.units, at_s) - _held_until(
        holds.from_s, holds.units, at_s
    )
    return at_s, -np.diff(held) / (units * np.diff(at_s))


def _held_until(times: Floats, units: Ints, at_s: Floats) -> Floats:
    """Sum of units x (time - t) over the times up to t, negative: a ramp for each change."""
    order = np.argsort(times, kind="stable")
    times, weights = times[order], units[order].astype(np.float64)
    place = np.searchsorted(times, at_s, side="right")
    count = np.concatenate(([0.0], np.cumsum(weights)))[place]
    moment = np.concatenate(([0.0], np.cumsum(weights * times)))[place]
    return count * at_s - moment
