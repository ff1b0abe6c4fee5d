"""Time that jobs need alone, the reference of their performance.

n jobs, h holds (the part of a job on one server), A applications.

A job alone runs on the best platform of the cluster for its application, with as many units as it
asked for in equal parts on the best number of servers, and with its best framework setting if its
size was left to the scheduler. Where its own servers without any other job would have been faster
(a server may be faster than its platform), before or after a migration, these are the reference.
So performance is at most 1: waiting, slower platforms, other splits, worse settings, interference
and migrations lower it.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from apps.emulation.core.events import Machines
from apps.emulation.core.stragglers import busy_shares, seeds_of
from apps.emulation.core.truth import Truth, UniversalScaling
from apps.inventory.core.snapshot import Floats, Ints
from apps.testbed.core.replay.workloads import SIZED, Workload
from apps.workloads.core.framework import SETTINGS

ROUNDING: Final = 1e-9  # of the engine's clock, relative


class Runs(NamedTuple):
    """Where the jobs ran.

    Attributes
    ----------
    asked : (n,) units that each job asked for; 0 = it did not start
    setting : (n,) speed of its framework setting relative to the default one
    first, parts : (n,) first hold and number of holds of each job
    server, units : (h,) of each hold
    """

    asked: Ints
    setting: Floats
    first: Ints
    parts: Ints
    server: Ints
    units: Ints


def performance(
    load: Workload,
    truths: Sequence[Truth],
    machines: Machines,
    layouts: Sequence[Runs],
    taken_s: Floats,
    seed: int,
) -> Floats:
    """(n,) seconds alone over the seconds from arrival to end, at most 1; NaN if unfinished.

    Parameters
    ----------
    layouts : where the jobs ran first, then those that migrated after each migration
    taken_s : (n,) from arrival to end; NaN if unfinished
    seed : of the run, from which the durations of the tasks were drawn: alone, a job has the same
    """
    runs = layouts[0]
    result = np.full(len(load), np.nan)
    done = np.flatnonzero(np.isfinite(taken_s))
    best = np.array([_setting(truth) for truth in truths])[load.application[done]]
    setting = np.where(load.units[done] == SIZED, best, 1.0)
    spread = np.array([truth.task_spread for truth in truths])[load.application]
    own = np.zeros(len(load))
    for layout in layouts:
        there = done[layout.parts[done] > 0]
        found, held = _own_speed(load, truths, machines, layout, there)
        seeds = seeds_of(seed, there.tolist())
        found = found * busy_shares(load.tasks[there], held, spread[there], seeds)
        own[there] = np.maximum(own[there], found)
    busy = busy_shares(load.tasks[done], runs.asked[done], spread[done],
                       seeds_of(seed, done.tolist()))  # fmt: skip
    speed = np.maximum(
        setting * _best_speed(load, truths, machines, runs.asked, done) * busy,
        runs.setting[done] * own[done],
    )
    phases = np.array([_phase_factor(truth) for truth in truths])[load.application[done]]
    alone_s = np.minimum(load.duration_s[done], load.work_s[done] / speed * phases)
    share = alone_s / taken_s[done]
    result[done] = np.where(np.abs(share - 1.0) < ROUNDING, 1.0, share)
    return result


def later_runs(
    runs: Runs, layouts: Mapping[int, Sequence[Sequence[tuple[int, int]]]]
) -> list[Runs]:
    """Where the jobs ran after their first, second, ... migration; the others have no parts."""
    found = []
    for turn in range(max(map(len, layouts.values()), default=0)):
        first, parts = np.zeros_like(runs.first), np.zeros_like(runs.parts)
        rows: list[tuple[int, int]] = []
        for job, places in layouts.items():
            if turn < len(places):
                first[job], parts[job] = len(rows), len(places[turn])
                rows += places[turn]
        server, units = np.array(rows, dtype=np.int64).reshape(-1, 2).T
        found.append(Runs(runs.asked, runs.setting, first, parts, server, units))
    return found


def _best_speed(
    load: Workload, truths: Sequence[Truth], machines: Machines, asked: Ints, done: Ints
) -> Floats:
    """(d,) work per second on the best platform if all units are busy, without phases."""
    kinds = np.unique(machines.platform)
    pairs, pair = np.unique(
        np.stack([load.application[done], asked[done]], axis=1), axis=0, return_inverse=True
    )
    speeds = np.array(
        [
            truths[a].platform_speed[kinds].max() * _best_split(truths[a], units)
            for a, units in pairs.tolist()
        ]
    )
    best: Floats = speeds[pair.ravel()]
    return best


def _best_split(truth: Truth, units: int) -> float:
    """Speed of units in equal parts on the best number of servers, relative to one unit.

    A part has no more units than speed a server up. Real parts: a bound on whole ones, as the
    scaling law is concave up to its peak.
    """
    servers = np.arange(1.0, units + 1.0)
    up, out = truth.scale_up, truth.scale_out
    peak = np.sqrt((1.0 - up.contention) / up.coherency) if up.coherency > 0.0 else np.inf
    part = np.minimum(units / servers, max(peak, 1.0))
    return float((servers * _speed_up(up, part) * _speed_up(out, servers) / servers).max())


def _own_speed(
    load: Workload, truths: Sequence[Truth], machines: Machines, runs: Runs, done: Ints
) -> tuple[Floats, Ints]:
    """(d,) work per second on its own servers without other jobs, in one rack; (d,) its units."""
    parts = runs.parts[done]
    starts = np.concatenate(([0], np.cumsum(parts)))[:-1]
    hold = np.arange(int(parts.sum())) - np.repeat(starts - runs.first[done], parts)
    application = np.repeat(load.application[done], parts)
    server, units = runs.server[hold], runs.units[hold]
    speeds = np.array([truth.platform_speed for truth in truths])
    unit = (
        speeds[application, machines.platform[server]]
        * machines.speed[server]
        * _efficiency([truth.scale_up for truth in truths], application, units)
    )
    if not done.size:
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    held = np.add.reduceat(units, starts)
    total = np.add.reduceat(units * unit, starts)
    in_step = np.array([truth.is_in_step for truth in truths])[load.application[done]]
    total = np.where(in_step, held * np.minimum.reduceat(unit, starts), total)
    out = _efficiency([truth.scale_out for truth in truths], load.application[done], parts)
    return total * out, held


def _efficiency(scalings: Sequence[UniversalScaling], index: Ints, n: Ints) -> Floats:
    contention = np.array([each.contention for each in scalings])[index]
    coherency = np.array([each.coherency for each in scalings])[index]
    efficiency: Floats = 1.0 / (1.0 + contention * (n - 1.0) + coherency * n * (n - 1.0))
    return efficiency


def _speed_up(scaling: UniversalScaling, n: Floats) -> Floats:
    speed: Floats = n / (1.0 + scaling.contention * (n - 1.0) + scaling.coherency * n * (n - 1.0))
    return speed


def _phase_factor(truth: Truth) -> float:
    """Seconds of a run over its seconds if its first phase lasted."""
    shares = np.diff(np.append(truth.phases.starts, 1.0))
    return float((shares / truth.phases.rate).sum())


def _setting(truth: Truth) -> float:
    """Speed of the best framework setting."""
    if truth.framework is None:
        return 1.0
    return max(truth.framework.speed(setting) for setting in SETTINGS)
