"""Figures of a run, computed at its end from the times and places of its jobs.

n jobs, h holds: a hold is the part of a job on one server.
"""

from typing import Final, NamedTuple

import numpy as np

from apps.emulation.core.events import Machines
from apps.inventory.core.snapshot import Floats, Ints

KWH: Final = 3.6e6
INTERVALS: Final = 288  # of a series


class HoldLists(NamedTuple):
    """Server, units, start, end and job of each part of a job; the end is infinite until then."""

    server: list[int]
    units: list[int]
    from_s: list[float]
    to_s: list[float]
    job: list[int]


class Holds(NamedTuple):
    """Units held on servers, all (h,): server, units, seconds from and to, and job."""

    server: Ints
    units: Ints
    from_s: Floats
    to_s: Floats
    job: Ints

    @classmethod
    def of(cls, lists: HoldLists, end_s: float) -> "Holds":
        """Return the holds of a run that ended at a time."""
        server, units, job = (
            np.array(each, dtype=np.int64) for each in (lists.server, lists.units, lists.job)
        )
        from_s, to_s = (np.array(each, dtype=np.float64) for each in (lists.from_s, lists.to_s))
        return cls(server, units, from_s, np.minimum(to_s, end_s), job)


class HoldEnergy(NamedTuple):
    """Energy of the holds, in joules.

    Attributes
    ----------
    joules : (h,) of the load of its units, and its share of the idle power
    idle_joules : idle power of all servers that were on
    """

    joules: Floats
    idle_joules: float


def hold_energy_j(holds: Holds, machines: Machines) -> HoldEnergy:
    """Divide the energy of servers that are off while empty among their holds.

    A server of n units with u in use draws idle + (peak - idle) u/n watts. The idle power is
    divided equally among the units in use. Source: ClavisMO §3.1 (P), §4.3.
    """
    span = (machines.peak_watts - machines.idle_watts) / machines.units
    own = span[holds.server] * holds.units * (holds.to_s - holds.from_s)
    server = np.concatenate((holds.server, holds.server))
    at_s = np.concatenate((holds.from_s, holds.to_s))
    change = np.concatenate((holds.units, -holds.units))
    order = np.lexsort((at_s, server))
    server, at_s, used = server[order], at_s[order], np.cumsum(change[order])
    # the units of a server add up to 0, so the sums restart at 0 with each server
    joules = np.where(used[:-1] > 0, machines.idle_watts[server[:-1]] * np.diff(at_s), 0.0)
    per_unit = np.empty(order.size)
    per_unit[order] = np.cumsum(np.append(0.0, joules / np.maximum(used[:-1], 1)))[: order.size]
    begin, end = np.split(per_unit, 2)
    return HoldEnergy(own + holds.units * (end - begin), float(joules.sum()))


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
