"""Speed of the engine with interference, and of a day of a trace replayed on it."""

import resource
import time
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from apps.emulation.core.draws import KINDS, application_truth
from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineOrder, EventKind
from apps.testbed.core.demo_cluster import demo_cluster
from apps.testbed.core.replay.clusters import synthetic_cluster
from apps.testbed.core.replay.grid import workload_of
from apps.testbed.core.replay.model import ReplayOptions, RunRow
from apps.testbed.core.replay.run import run
from apps.testbed.core.replay.workloads import workload
from apps.testbed.files import read_trace
from benchmarks._results import Table

MEAN_WORK_S: Final = 300.0
APPLICATIONS: Final = 60
WAVES: Final = 16  # tasks of a unit of the Facebook day, as production's best effort
EVENTS_GOAL: Final = 100_000.0
DAY_GOAL_S: Final = 10.0
MEMORY_GOAL_MB: Final = 1024.0
MEGABYTE: Final = 1024.0  # in the unit of ru_maxrss


def events_per_s(servers: int, *, load: float = 0.75, steps: int = 120) -> float:
    """Events of the engine per second of processor time: starts, ends and phases.

    One-unit jobs keep the load, so that each start and end touches a different server.
    """
    world, rng = demo_cluster(servers, seed=1), np.random.default_rng(2)
    engine = Engine(world.machines, np.random.default_rng(3))
    library = [
        application_truth(1, f"bench-{i}", KINDS[i % 4], world.machines.platforms)
        for i in range(APPLICATIONS)
    ]
    homes = rng.permutation(np.repeat(np.arange(servers), world.machines.units)).tolist()
    serial = int(load * len(homes))
    free, home = homes[serial:], dict(enumerate(homes[:serial]))

    def orders(keys: list[int]) -> list[EngineOrder]:
        chosen = rng.integers(APPLICATIONS, size=len(keys)).tolist()
        work = (rng.exponential(MEAN_WORK_S, len(keys)) + 1.0).tolist()
        return [
            EngineOrder(key, library[c], [(home[key], 1)], work_s=w)
            for key, c, w in zip(keys, chosen, work, strict=True)
        ]

    engine.start(orders(list(home)), 0.0)
    events, spent_s = 0, 0.0
    for step in range(1, steps + 1):
        began = time.process_time()
        fired = engine.advance(6.0 * step)
        spent_s += time.process_time() - began
        ended = [int(str(e.key)) for e in fired if e.kind is EventKind.FINISHED]
        free += [home.pop(key) for key in ended]
        keys = list(range(serial, serial + len(ended)))
        serial += len(keys)
        home |= {key: free.pop(int(rng.integers(len(free)))) for key in keys}
        batch = orders(keys)
        began = time.process_time()
        engine.start(batch, 6.0 * step)
        spent_s += time.process_time() - began
        events += len(fired) + len(batch)
    return events / spent_s


def replayed_day(path: Path, *, servers: int, policy: str, is_sized: bool) -> tuple[RunRow, float]:
    """Replay a trace; returns its row and the seconds of processor time.

    Parameters
    ----------
    is_sized : units by production's sizing; else each job asks for a unit for 16 tasks, up to 64
    """
    load = workload_of(read_trace(path))
    units = np.zeros_like(load.units)
    if not is_sized:
        units = np.clip(-(-load.tasks // WAVES), 1, 64)
    load = workload(
        load.name, load.applications, load.arrival_s, load.application, load.work_s,
        tasks=load.tasks, target_s=load.target_s, units=units,
    )  # fmt: skip
    cluster, options = synthetic_cluster(servers), ReplayOptions(policy=policy)
    run(cluster, load.part(slice(0, 50)), options)  # compiles
    began = time.process_time()
    result = run(cluster, load, options)
    return result.run, time.process_time() - began


def measure(trace: Path | None, rounds: int) -> tuple[dict[str, Table], list[tuple[str, bool]]]:
    """Measure the engine and, with a trace, a day of it; returns tables and goals."""
    events_per_s(100, steps=10)  # compiles
    rows: Table = [["servers", "events per second of processor time"]]
    goals = []
    for servers in (1000, 3000):
        rate = median(events_per_s(servers) for _ in range(rounds))
        rows.append([f"{servers:,}", f"{rate:,.0f}"])
        goals.append((f"{servers:,} servers: {rate:,.0f} events/s", rate >= EVENTS_GOAL))
    tables = {"interference": rows}
    if trace is None:
        return tables, goals
    days: Table = [["units", "policy", "jobs", "events", "seconds", "µs per job"]]
    for is_sized, policy in ((False, "tarcil"), (False, "least_loaded"), (True, "tarcil")):
        row, seconds = replayed_day(trace, servers=3000, policy=policy, is_sized=is_sized)
        units, jobs = "sized" if is_sized else "requested", row.jobs_submitted
        days.append(
            [units, f"`{policy}`", f"{jobs:,}", f"{row.events:,}", f"{seconds:.1f}",
             f"{1e6 * seconds / jobs:,.0f}"]
        )  # fmt: skip
        if policy == "tarcil" and not is_sized:
            goals.append((f"the day under {policy}: {seconds:.1f} s", seconds <= DAY_GOAL_S))
    tables["day"] = days
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MEGABYTE
    goals.append((f"memory of all runs: {peak_mb:,.0f} MB", peak_mb <= MEMORY_GOAL_MB))
    return tables, goals
