"""Schedulers with queues of their own beside policies of an installation, in replays.

    ./dev bench queueing [--servers N] [--loads 0.5,0.7] [--seeds 1-3] [--part sparrow|yarn]

`sparrow`: jobs of one unit, and of one to eight, arrive over 40 minutes on servers of the demo
platforms, and of one unit on equal servers; waits to the first unit and to all units, of the jobs
of the second half, and their performance. `yarn`: two queues of equal weight; jobs of the first
arrive all the time and need half of the units, those of the second need 1.5 times the units for
ten minutes in between.
Means over the seeds. Stores the result.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from apps.emulation.core.worlds import world_named
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.testbed.core.demo_cluster import cluster_of
from apps.testbed.core.replay.clusters import synthetic_cluster
from apps.testbed.core.replay.demand import Demand
from apps.testbed.core.replay.loop import ReplayLoop
from apps.testbed.core.replay.model import (
    ProfileSource,
    ReplayCluster,
    ReplayOptions,
    ReplayResult,
)
from apps.testbed.core.replay.results import result_of
from apps.testbed.core.replay.run import policy_of
from apps.testbed.core.replay.summary import Holds
from apps.testbed.core.replay.workloads import Application, Workload, workload
from benchmarks._results import RESULTS, Table, markdown, store
from benchmarks.policies import HORIZON_S, MEAN_SPEED, MEAN_WORK_S, numbers

APPLICATIONS: Final = tuple(
    Application(f"app{i}", ("analytics", "single_node", "batch")[i % 3]) for i in range(60)
)
EQUAL: Final = "equal"  # servers of one platform
# servers, and units of a job
CASES: Final = (("demo", (1, 1)), ("demo", (1, 8)), (EQUAL, (1, 1)))
SPARROW: Final[dict[str, dict[str, Any]]] = {
    "`random`": {"policy": "random"},
    "`least_loaded`": {"policy": "least_loaded"},
    "`sparrow`, d = 2": {"policy": "sparrow"},
    "`sparrow`, d = 4": {"policy": "sparrow", "parameters": {"probes": 4.0}},
}
YARN: Final[dict[str, dict[str, Any]]] = {
    "`yarn_fifo`": {"policy": "yarn_fifo"},
    "`yarn_capacity`, a = 0.1": {"policy": "yarn_capacity"},
    "`yarn_capacity`, a = 1": {"policy": "yarn_capacity", "parameters": {"am_share": 1.0}},
    "`yarn_fair`, a = 0.5": {"policy": "yarn_fair"},
    "`least_loaded`": {"policy": "least_loaded"},
}
BURST_S: Final = (600.0, 1200.0)
BURST: Final = 1.5  # of all units
STEADY: Final = 0.5
SAMPLES: Final = 60  # times in the burst at which servers are compared


class Replayed(NamedTuple):
    """One run: its result, the parts of its jobs, and the units of each server."""

    result: ReplayResult
    holds: Holds
    units: Ints


def replayed(
    cluster: ReplayCluster, load: Workload, seed: int, values: dict[str, Any]
) -> Replayed:
    """Run one policy; the scheduler knows the true profiles."""
    options = ReplayOptions(seed=seed, profiles=ProfileSource.TRUE, **values)
    emulated = cluster_of(
        cluster.platforms, cluster.platform, cluster.rack, seed, world_named(options.world)
    )
    demand = Demand(load, cluster, emulated, options)
    loop = ReplayLoop(emulated, demand, policy_of(options), options)
    for _ in loop.turns():
        pass
    result = result_of(loop, demand, emulated.machines, float("nan"))
    return Replayed(result, Holds.of(loop.holds, loop.engine.now), cluster.units)


def equal_servers(count: int) -> ReplayCluster:
    """Return servers of the demo platform whose units are nearest to the mean of a server."""
    demo = synthetic_cluster(count)
    cores = np.array([platform.cores for platform in demo.platforms])
    nearest = demo.platforms[int(np.abs(cores - demo.units.mean()).argmin())]
    return ReplayCluster(EQUAL, (nearest,), np.zeros(count, dtype=np.int64), demo.rack)


class Arrivals(NamedTuple):
    """Poisson arrivals of exponential work: (n,) time, application, work and units."""

    at_s: Floats
    application: Ints
    work_s: Floats
    units: Ints


def arrivals(
    rng: np.random.Generator, units: int, load: float, span_s: tuple[float, float],
    sizes: tuple[int, int] = (1, 8),
) -> Arrivals:  # fmt: skip
    """Return jobs that need a share of all units between two times."""
    mean_size = sum(sizes) / 2.0
    rate = load * units * MEAN_SPEED / (MEAN_WORK_S * mean_size)
    n = int(rate * (span_s[1] - span_s[0]))
    size = rng.integers(sizes[0], sizes[1] + 1, n)
    work = size * (rng.exponential(MEAN_WORK_S, n) + 5.0)
    times = np.sort(rng.uniform(*span_s, n))
    return Arrivals(times, rng.integers(len(APPLICATIONS), size=n), work, size)


def one_queue(units: int, load: float, sizes: tuple[int, int], seed: int) -> Workload:
    """Return jobs of one queue."""
    jobs = arrivals(np.random.default_rng(seed), units, load, (0.0, HORIZON_S), sizes)
    return workload("one queue", APPLICATIONS, *jobs[:3], units=jobs.units)


def two_queues(units: int, seed: int) -> Workload:
    """Return the steady jobs of queue 0 and the burst of queue 1."""
    rng = np.random.default_rng(seed)
    both = (
        arrivals(rng, units, STEADY, (0.0, HORIZON_S)),
        arrivals(rng, units, BURST, BURST_S),
    )
    times, application, work, size = (np.concatenate(each) for each in zip(*both, strict=True))
    queue = np.repeat([0, 1], [each.at_s.size for each in both])
    order = np.argsort(times, kind="stable")
    return workload(
        "two queues", APPLICATIONS, times[order], application[order], work[order],
        units=size[order], queue=queue[order],
    )  # fmt: skip


def waits(result: ReplayResult, chosen: Bools) -> list[float]:
    """Return p50 and p99 of the wait of jobs to the first unit, and to all units, in seconds.

    A job that ended before it had all its units waited for them until its end.
    """
    first = (result.started_s - result.arrived_s)[chosen]
    whole = np.where(np.isfinite(result.whole_s), result.whole_s, result.ended_s)
    every = (whole - result.arrived_s)[chosen]
    return [float(np.quantile(each, q)) for each in (first, every) for q in (0.5, 0.99)]


def sparrow_rows(options: argparse.Namespace) -> Iterator[list[str]]:
    """Yield a row for each size of jobs, load and policy."""
    clusters = {"demo": synthetic_cluster(options.servers), EQUAL: equal_servers(options.servers)}
    for (servers, sizes), load in product(CASES, map(float, options.loads.split(","))):
        cluster = clusters[servers]
        units = int(cluster.units.sum())
        loads = {seed: one_queue(units, load, sizes, seed) for seed in options.seeds}
        for policy, values in SPARROW.items():
            cells = []
            for seed, jobs in loads.items():
                result = replayed(cluster, jobs, seed, values).result
                late = jobs.arrival_s >= HORIZON_S / 2.0
                cells.append([*waits(result, late), float(result.performance[late].mean())])
            *times, speed = np.mean(cells, axis=0).tolist()
            texts = [f"{seconds:,.1f} s" for seconds in times]
            size = "1" if sizes == (1, 1) else f"{sizes[0]} to {sizes[1]}"
            yield [servers, size, f"{load:.2f}", policy, *texts, f"{speed:.3f}"]


def yarn_rows(options: argparse.Namespace) -> Iterator[list[str]]:
    """Yield a row for each scheduler."""
    cluster = synthetic_cluster(options.servers)
    units = int(cluster.units.sum())
    loads = {seed: two_queues(units, seed) for seed in options.seeds}
    for policy, values in YARN.items():
        cells = []
        for seed, jobs in loads.items():
            found = replayed(cluster, jobs, seed, values)
            of_queue = [waits(found.result, jobs.queue == queue) for queue in (0, 1)]
            cells.append([*_shares(found, jobs), *of_queue[0][:2], *of_queue[1][:2]])
        first, second, spread, running, *times = np.mean(cells, axis=0).tolist()
        yield [
            policy, f"{first:.2f}", f"{second:.2f}", f"{spread:.3f}", f"{running:,.0f}",
            *(f"{seconds:,.1f} s" for seconds in times),
        ]  # fmt: skip


def _shares(found: Replayed, jobs: Workload) -> list[float]:
    """Return what holds in the burst, as means over time.

    Share of all units of each queue, standard deviation of the used share over the servers, and
    number of running jobs.
    """
    holds, times = found.holds, np.linspace(*BURST_S, SAMPLES)
    rows = []
    for at_s in times.tolist():
        now = (holds.from_s <= at_s) & (at_s < holds.to_s)
        queue = np.bincount(jobs.queue[holds.job[now]], weights=holds.units[now], minlength=2)
        used = np.bincount(holds.server[now], weights=holds.units[now], minlength=found.units.size)
        spread = float((used / found.units).std())
        rows.append([*(queue / found.units.sum()), spread, float(np.unique(holds.job[now]).size)])
    means: list[float] = np.mean(rows, axis=0).tolist()
    return means


HEADS: Final = {
    "sparrow": [
        "servers", "units", "load", "policy", "first unit p50", "p99", "all units p50", "p99",
        "performance",
    ],
    "yarn": [
        "policy", "units of queue 0", "of queue 1", "spread over servers", "running jobs",
        "wait of queue 0 p50", "p99", "wait of queue 1 p50", "p99",
    ],
}  # fmt: skip
PARTS: Final = {"sparrow": sparrow_rows, "yarn": yarn_rows}


def main(argv: Sequence[str] | None = None) -> int:
    """Print and store the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--servers", type=int, default=50)
    parser.add_argument("--loads", default="0.5,0.7,0.85")
    parser.add_argument("--seeds", type=numbers, default=numbers("3"), help="5, 1-5 or 1,3")
    parser.add_argument("--part", choices=list(PARTS), help="default: both")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    tables: dict[str, Table] = {}
    for name in [options.part] if options.part else PARTS:
        tables[name] = [HEADS[name]]
        for row in PARTS[name](options):
            tables[name].append(row)
            sys.stdout.write("  ".join(row) + "\n")
        sys.stdout.write(markdown(tables[name]) + "\n")
    chosen = {key: getattr(options, key) for key in ("servers", "loads", "seeds")}
    store("queueing", arguments=chosen, figures=[], tables=tables, folder=options.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
