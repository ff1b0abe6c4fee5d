"""The engine's inner loop, compiled by numba.

Imported by the emulator and the testbed only, never by the web process. Tests hold `settle` equal
to the plain numpy formulas of `truth`. S servers, W parts per server at most, J job slots, N
sources, Q part slots.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np

from apps.common.core.compiled import jit
from apps.emulation.core.truth import DECAY_SCORE, FLOOR, KNEE_POWER, QOS
from apps.inventory.core.snapshot import Bools, Floats, Ints

LOSS = 1.0 - QOS


class ServerTable(NamedTuple):
    """Parts running on each server.

    units : (S,) M, resource units of the server
    parts : (S, W) part slots, the first `filled` of a row are in use
    filled : (S,)
    """

    units: Ints
    parts: Ints
    filled: Ints


class JobTable(NamedTuple):
    """Running jobs by slot; work in unit-seconds, times in cluster seconds.

    tolerated, caused : (J, N) scores of the present phase
    factor : (J,) what the whole job's speed is multiplied by (waves, scale-out, racks, phase)
    in_step : (J,) units of a job whose parts wait for each other; 0 where they do not
    speed : (J,) work per second now
    done, seen_s : (J,) work done, and when that was true
    goal : (J,) work at which the next event is due, infinite if none
    due_s : (J,) time at which it is due at the latest, infinite if none
    next_s : (J,) when the next event happens if nothing changes
    first_part : (J,) part slot, -1 for none
    """

    tolerated: Floats
    caused: Floats
    factor: Floats
    in_step: Floats
    speed: Floats
    done: Floats
    seen_s: Floats
    goal: Floats
    due_s: Floats
    next_s: Floats
    first_part: Ints


class PartTable(NamedTuple):
    """What a job holds on one server, by slot.

    job : (Q,) job slot, -1 where the part slot is free
    server : (Q,)
    units : (Q,) at work; 0 of a part that others are on their way to, or have all left
    position : (Q,) column of the part in its server's row of `ServerTable.parts`
    next_part : (Q,) next part of the same job, -1 at the end
    speed : (Q,) work per second alone: platform speed times scale-up
    effect : (Q,) interference factor now
    """

    job: Ints
    server: Ints
    units: Ints
    position: Ints
    next_part: Ints
    speed: Floats
    effect: Floats


Settle = Callable[[ServerTable, JobTable, PartTable, Ints, float, Bools, Ints], int]


def _effect(pressure: float, tolerated: float) -> float:
    if pressure > tolerated:
        return QOS * math.exp(-(pressure - tolerated) / DECAY_SCORE)
    ratio: float = (pressure / tolerated) ** KNEE_POWER
    return 1.0 - LOSS * ratio


_effect_compiled = jit(inline="always")(_effect)


def _press(
    servers: ServerTable, jobs: JobTable, parts: PartTable, server: int, total: Floats
) -> None:
    """Recompute the interference factor of every part of one server. O(parts x N)."""
    total[:] = 0.0
    sources = total.shape[0]
    for x in range(servers.filled[server]):
        part = servers.parts[server, x]
        for i in range(sources):
            total[i] += parts.units[part] * jobs.caused[parts.job[part], i]
    others = servers.units[server] - 1
    for x in range(servers.filled[server]):
        part = servers.parts[server, x]
        job = parts.job[part]
        product = 1.0
        for i in range(sources if others > 0 else 0):
            own = parts.units[part] * jobs.caused[job, i]
            pressure = min(100.0, max(0.0, (total[i] - own) / others))
            product *= _effect_compiled(pressure, jobs.tolerated[job, i])
        parts.effect[part] = max(product, FLOOR)


_press_compiled = jit()(_press)


def _rate(jobs: JobTable, parts: PartTable, job: int, now: float) -> None:
    """Bring one job's work up to now, then set its speed and its next event. O(its parts)."""
    jobs.done[job] += jobs.speed[job] * (now - jobs.seen_s[job])
    jobs.seen_s[job] = now
    speed, slowest = 0.0, math.inf
    part = jobs.first_part[job]
    while part >= 0:
        rate = parts.speed[part] * parts.effect[part]
        speed += rate
        slowest = min(slowest, rate / max(parts.units[part], 1))
        part = parts.next_part[part]
    if jobs.in_step[job] > 0.0:
        speed = slowest * jobs.in_step[job]
    jobs.speed[job] = speed * jobs.factor[job]
    left = max(0.0, jobs.goal[job] - jobs.done[job])
    ends = now + left / jobs.speed[job] if jobs.speed[job] > 0.0 else math.inf
    jobs.next_s[job] = min(jobs.due_s[job], ends)


_rate_compiled = jit()(_rate)


def _settle(  # noqa: PLR0913, PLR0917 - numba takes arrays, not objects that hold them
    servers: ServerTable,
    jobs: JobTable,
    parts: PartTable,
    touched: Ints,
    now: float,
    marked: Bools,
    changed: Ints,
) -> int:
    """Recompute every job that has a part on a touched server.

    Parameters
    ----------
    touched : (n,) servers where something changed
    marked : (J,) scratch, all False before and after
    changed : (J,) filled from the front with the slots of the jobs recomputed

    Returns
    -------
    How many of `changed` are filled.
    """
    total = np.zeros(jobs.caused.shape[1])
    count = 0
    for server in touched:
        _press_compiled(servers, jobs, parts, server, total)
        for x in range(servers.filled[server]):
            job = parts.job[servers.parts[server, x]]
            if not marked[job]:
                marked[job] = True
                changed[count] = job
                count += 1
    for x in range(count):
        marked[changed[x]] = False
        _rate_compiled(jobs, parts, changed[x], now)
    return count


settle = cast("Settle", jit()(_settle))
