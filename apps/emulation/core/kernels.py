"""The engine's inner loop, compiled by numba.

Imported by the emulator and the testbed only, never by the web process. Tests compare the engine
with the plain numpy formulas of `truth`. S servers, at most W parts per server, J job slots, N
sources, Q part slots, T kinds of jobs (truths that running jobs have) with at most K phases.

The values of the parts of one server lie side by side, and jobs of one truth share its scores. So
an event reads a few cache lines, however many jobs run elsewhere.
"""

import math
from typing import NamedTuple

from apps.common.core.compiled import jit
from apps.emulation.core.truth import QOS
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts

LOSS = 1.0 - QOS


class ServerTable(NamedTuple):
    """Parts running on each server.

    units : (S,) M, resource units of the server
    filled : (S,) number of parts; the first so many of a row are in use
    parts, kinds, phases, counts : (S, W) part slot, kind, phase and working units of each part
    """

    units: Ints
    filled: Ints
    parts: Ints
    kinds: Shorts
    phases: Shorts
    counts: Shorts


class KindTable(NamedTuple):
    """Truths by kind; `truth` describes the columns.

    phases : (T,) number of phases
    period_s, floor, rack_loss, in_step : (T,)
    up_contention, up_coherency, out_contention, out_coherency : (T,) of the scaling laws
    platform_speed : (T, P)
    knee, decay, plateau : (T, N)
    starts, rate : (T, K)
    tolerated, caused : (T, K, N)
    """

    phases: Ints
    period_s: Floats
    floor: Floats
    rack_loss: Floats
    in_step: Bools
    up_contention: Floats
    up_coherency: Floats
    out_contention: Floats
    out_coherency: Floats
    platform_speed: Floats
    knee: Floats
    decay: Floats
    plateau: Floats
    starts: Floats
    rate: Floats
    tolerated: Floats
    caused: Floats


class JobTable(NamedTuple):
    """Running jobs by slot; work in unit-seconds, times in cluster seconds.

    factor : (J,) multiplier of the whole job's speed (waves, scale-out, racks, phase)
    in_step : (J,) units of a job whose parts wait for each other, else 0
    speed : (J,) current work per second
    done, updated_s : (J,) work done, and the time of that value
    goal : (J,) work at which the next event is due, infinite if none
    due_s : (J,) latest time of the next event, infinite if none
    next_s : (J,) time of the next event if nothing changes
    first_part : (J,) part slot, -1 if none
    """

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
    position : (Q,) column of the part in its server's rows of `ServerTable`
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


class Scratch(NamedTuple):
    """Room for one call.

    marked : (J,) all False before and after
    changed : (J,) slots of the recomputed jobs
    touched : (S,) servers whose load changed, from the front
    is_touched : (S,) whether a server is among them; all False before and after
    total : (N,) caused by the parts of a server
    """

    marked: Bools
    changed: Ints
    touched: Ints
    is_touched: Bools
    total: Floats


@jit(makes_arrays=False, forceinline=True)
def _effect(pressure: float, tolerated: float, knee: float, decay: float, plateau: float) -> float:
    if pressure > tolerated:
        return plateau + (QOS - plateau) * math.exp(-(pressure - tolerated) / decay)
    if pressure == 0.0:
        return 1.0
    ratio: float = (pressure / tolerated) ** knee
    return 1.0 - LOSS * ratio


@jit(makes_arrays=False)
def _update_effects(
    servers: ServerTable, kinds: KindTable, parts: PartTable, server: int, total: Floats
) -> None:
    """Recompute the interference factor of every part of one server. O(parts x N)."""
    sources, filled = total.shape[0], servers.filled[server]
    for i in range(sources):
        total[i] = 0.0
    for x in range(filled):
        kind, phase = servers.kinds[server, x], servers.phases[server, x]
        units = servers.counts[server, x]
        for i in range(sources):
            total[i] += units * kinds.caused[kind, phase, i]
    others = servers.units[server] - 1
    for x in range(filled):
        kind, phase = servers.kinds[server, x], servers.phases[server, x]
        units, floor = servers.counts[server, x], kinds.floor[kind]
        same = _same_before(servers, server, x)
        if same >= 0:
            parts.effect[servers.parts[server, x]] = parts.effect[servers.parts[server, same]]
            continue
        product = 1.0
        for i in range(sources if others > 0 else 0):
            own = units * kinds.caused[kind, phase, i]
            pressure = min(100.0, max(0.0, (total[i] - own) / others))
            product *= _effect(
                pressure,
                kinds.tolerated[kind, phase, i],
                kinds.knee[kind, i],
                kinds.decay[kind, i],
                kinds.plateau[kind, i],
            )
            if product <= floor:
                break  # no factor exceeds 1
        parts.effect[servers.parts[server, x]] = max(product, floor)


@jit(makes_arrays=False, forceinline=True)
def _same_before(servers: ServerTable, server: int, x: int) -> int:
    """Return an earlier part with the same kind, phase and units, -1 if there is none."""
    for y in range(x):
        if (
            servers.kinds[server, y] == servers.kinds[server, x]
            and servers.phases[server, y] == servers.phases[server, x]
            and servers.counts[server, y] == servers.counts[server, x]
        ):
            return y
    return -1


@jit(makes_arrays=False)
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


@jit(makes_arrays=False, forceinline=True)
def touch(scratch: Scratch, touched: int, server: int) -> int:
    """Add a server to the touched ones; returns their number."""
    if scratch.is_touched[server]:
        return touched
    scratch.is_touched[server] = True
    scratch.touched[touched] = server
    return touched + 1


@jit(makes_arrays=False)
def recompute_jobs(  # noqa: PLR0913, PLR0917 - numba accepts arrays, not objects with arrays
    servers: ServerTable,
    kinds: KindTable,
    jobs: JobTable,
    parts: PartTable,
    scratch: Scratch,
    touched: int,
    now: float,
) -> int:
    """Recompute every job that has a part on one of the first `touched` servers of the scratch.

    Returns
    -------
    Number of slots written to the changed ones of the scratch, from the front.
    """
    count = 0
    for t in range(touched):
        server = scratch.touched[t]
        scratch.is_touched[server] = False
        _update_effects(servers, kinds, parts, server, scratch.total)
        for x in range(servers.filled[server]):
            job = parts.job[servers.parts[server, x]]
            if not scratch.marked[job]:
                scratch.marked[job] = True
                scratch.changed[count] = job
                count += 1
    for x in range(count):
        scratch.marked[scratch.changed[x]] = False
        _update_speed(jobs, parts, scratch.changed[x], now)
    return count
