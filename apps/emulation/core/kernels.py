"""The engine's inner loop, compiled by numba.

Imported by the emulator and the testbed only, never by the web process. Tests compare
`recompute_jobs` with the plain numpy formulas of `truth`. S servers, at most W parts per server, J
job slots, N sources, Q part slots.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np

from apps.common.core.compiled import jit
from apps.emulation.core.truth import QOS
from apps.inventory.core.snapshot import Bools, Floats, Ints

LOSS = 1.0 - QOS


class ServerTable(NamedTuple):
    """Parts running on each server.

    units : (S,) M, resource units of the server
    parts : (S, W) part slots; the first `filled` of a row are in use
    filled : (S,) number of part slots in use
    """

    units: Ints
    parts: Ints
    filled: Ints


class JobTable(NamedTuple):
    """Running jobs by slot; work in unit-seconds, times in cluster seconds.

    tolerated, caused : (J, N) scores of the current phase
    knee, decay, plateau : (J, N) shape of the loss (`truth.Curves`)
    floor : (J,) minimum speed under interference, relative to isolation
    factor : (J,) multiplier of the whole job's speed (waves, scale-out, racks, phase)
    in_step : (J,) units of a job whose parts wait for each other, else 0
    speed : (J,) current work per second
    done, updated_s : (J,) work done, and the time of that value
    goal : (J,) work at which the next event is due, infinite if none
    due_s : (J,) latest time of the next event, infinite if none
    next_s : (J,) time of the next event if nothing changes
    first_part : (J,) part slot, -1 if none
    """

    tolerated: Floats
    caused: Floats
    knee: Floats
    decay: Floats
    plateau: Floats
    floor: Floats
    factor: Floats
    in_step: Floats
    speed: Floats
    done: Floats
    updated_s: Floats
    goal: Floats
    due_s: Floats
    next_s: Floats
    first_part: Ints


class PartTable(NamedTuple):
    """The part of a job on one server, by slot.

    job : (Q,) job slot, -1 if the part slot is free
    server : (Q,) index of the server
    units : (Q,) working units; 0 while all of them are migrating
    position : (Q,) column of the part in its server's row of `ServerTable.parts`
    next_part : (Q,) next part of the same job, -1 at the end
    speed : (Q,) work per second in isolation: platform speed times scale-up
    effect : (Q,) current interference factor
    """

    job: Ints
    server: Ints
    units: Ints
    position: Ints
    next_part: Ints
    speed: Floats
    effect: Floats


RecomputeJobs = Callable[[ServerTable, JobTable, PartTable, Ints, float, Bools, Ints], int]


def _effect(pressure: float, tolerated: float, knee: float, decay: float, plateau: float) -> float:
    if pressure > tolerated:
        return plateau + (QOS - plateau) * math.exp(-(pressure - tolerated) / decay)
    ratio: float = (pressure / tolerated) ** knee
    return 1.0 - LOSS * ratio


_effect_compiled = jit(inline="always")(_effect)


def _update_effects(
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
            product *= _effect_compiled(
                pressure,
                jobs.tolerated[job, i],
                jobs.knee[job, i],
                jobs.decay[job, i],
                jobs.plateau[job, i],
            )
        parts.effect[part] = max(product, jobs.floor[job])


_update_effects_compiled = jit()(_update_effects)


def _update_speed(jobs: JobTable, parts: PartTable, job: int, now: float) -> None:
    """Advance the work of a job to now, then set its speed and next event. O(its parts)."""
    jobs.done[job] += jobs.speed[job] * (now - jobs.updated_s[job])
    jobs.updated_s[job] = now
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
    remaining = max(0.0, jobs.goal[job] - jobs.done[job])
    end_s = now + remaining / jobs.speed[job] if jobs.speed[job] > 0.0 else math.inf
    jobs.next_s[job] = min(jobs.due_s[job], end_s)


_update_speed_compiled = jit()(_update_speed)


def _recompute_jobs(  # noqa: PLR0913, PLR0917 - numba accepts arrays, not objects with arrays
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
    touched : (n,) servers whose load changed
    marked : (J,) scratch, all False before and after
    changed : (J,) output: slots of the recomputed jobs, from the front

    Returns
    -------
    Number of slots written to `changed`.
    """
    total = np.zeros(jobs.caused.shape[1])
    count = 0
    for server in touched:
        _update_effects_compiled(servers, jobs, parts, server, total)
        for x in range(servers.filled[server]):
            job = parts.job[servers.parts[server, x]]
            if not marked[job]:
                marked[job] = True
                changed[count] = job
                count += 1
    for x in range(count):
        marked[changed[x]] = False
        _update_speed_compiled(jobs, parts, changed[x], now)
    return count


recompute_jobs = cast("RecomputeJobs", jit()(_recompute_jobs))
