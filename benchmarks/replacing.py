"""Time until rebalancing finds its first migrations, and their effect.

    python -m benchmarks.replacing [--servers 600 3000] [--seconds 2 20] [--load 0.65] [--seeds 3]

Clusters of the demo's platforms in racks of 40, filled at random to a share of their units with
jobs of 1 to 12 containers of 1 to 4 units. A tenth of the jobs are tazes, a third communicate.
Prints for each size and time limit the time of the first bundle, the migrations, and the change
of watts, exposed jobs and F + beta, as medians over the seeds.
"""

import argparse
import statistics
import sys
import time
from typing import Final

import numpy as np

from apps.inventory.core.demo import PLATFORMS
from apps.placement.core.rebalancing.cluster import RunningCluster, exposed_jobs, measure
from apps.placement.core.rebalancing.planner import RebalancingResult, improve
from benchmarks._calibration import calibrate, calibration_line

WEIGHTS: Final = {"P": 0.54, "D": 0.45, "C": 1.0}
MIGRATION: Final = 0.05
RACK: Final = 40
SOURCES: Final = 10


def random_cluster(servers: int, load: float, seed: int) -> RunningCluster:
    """Draw a cluster with a feasible placement."""
    rng = np.random.default_rng(seed)
    platform = rng.integers(0, len(PLATFORMS), servers)
    units = np.array([PLATFORMS[p].cores for p in platform], dtype=np.int64)
    sizes, job, assignment = _containers(units, load, rng)
    jobs = int(job.max()) + 1
    caused = rng.uniform(5.0, 45.0, (jobs, SOURCES))
    is_taz = rng.random(jobs)[job] < 0.1
    free = units - np.bincount(assignment, weights=sizes, minlength=servers).astype(np.int64)
    slower = np.sort(rng.uniform(0.5, 1.0, (jobs, len(PLATFORMS))), axis=1)[:, ::-1]
    return RunningCluster(
        at_s=0.0,
        sequence=0,
        server_id=np.arange(servers),
        server_name=tuple(f"srv-{i:04d}" for i in range(servers)),
        rack=np.arange(servers) // RACK,
        rack_name=tuple(f"rack-{i}" for i in range(-(-servers // RACK))),
        platform=platform,
        platform_name=tuple(facts.name for facts in PLATFORMS),
        units=units,
        idle_watts=np.array([PLATFORMS[p].idle_watts for p in platform]),
        peak_watts=np.array([PLATFORMS[p].peak_watts for p in platform]),
        is_open=np.ones(servers, dtype=np.bool_),
        held_units=units - free,
        room=np.full((servers, 3), 1e12),
        allocation_id=np.arange(sizes.size),
        job=job,
        assignment=assignment,
        size=sizes,
        demand=np.ones((sizes.size, 3)),
        intensity=np.where(is_taz, rng.uniform(0.5, 1.0, job.size), rng.uniform(0, 0.3, job.size)),
        is_taz=is_taz,
        is_movable=np.ones(sizes.size, dtype=np.bool_),
        job_id=tuple(map(str, range(jobs))),
        job_name=tuple(map(str, range(jobs))),
        communication=np.where(rng.random(jobs) < 1 / 3, rng.integers(1, 3, jobs), 0),
        is_allowed=np.ones((jobs, servers), dtype=np.bool_),
        attainment=rng.uniform(0.95, 1.6, jobs),
        speed=slower,
        caused=caused,
        tolerated=99.0 - caused,
    )


def _containers(
    units: "np.ndarray[tuple[int], np.dtype[np.int64]]", load: float, rng: np.random.Generator
) -> tuple[
    "np.ndarray[tuple[int], np.dtype[np.int64]]",
    "np.ndarray[tuple[int], np.dtype[np.int64]]",
    "np.ndarray[tuple[int], np.dtype[np.int64]]",
]:
    """Draw units, job and server of containers, up to a share of the units."""
    free, target = units.copy(), load * float(units.sum())
    sizes: list[int] = []
    job: list[int] = []
    assignment: list[int] = []
    jobs = 0
    while sum(sizes) < target:
        each = int(rng.integers(1, 5))
        for server in rng.choice(len(units), int(rng.integers(1, 13)), replace=False).tolist():
            if free[server] >= each:
                free[server] -= each
                sizes.append(each)
                job.append(jobs)
                assignment.append(server)
        jobs = max(job, default=-1) + 1
    return np.array(sizes), np.array(job), np.array(assignment)


def timed(cluster: RunningCluster, seconds: float) -> tuple[RebalancingResult, float]:
    """Search once; returns the result and the time of the first progress report."""
    reported: list[float] = []
    began = time.perf_counter()
    result = improve(
        cluster,
        WEIGHTS,
        clock=time.perf_counter,
        limit_s=seconds,
        migration_cost=MIGRATION,
        on_progress=lambda _: reported.append(time.perf_counter() - began),
    )
    return result, reported[0] if reported else result.seconds


def main() -> None:
    """Print a line for each size and time."""
    parser = argparse.ArgumentParser(description="Measure rebalancing of a running cluster.")
    parser.add_argument("--servers", type=int, nargs="+", default=[600, 3000])
    parser.add_argument("--seconds", type=float, nargs="+", default=[2.0, 20.0])
    parser.add_argument("--load", type=float, default=0.65)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    before = calibrate()
    for servers in options.servers:
        clusters = [random_cluster(servers, options.load, seed) for seed in range(options.seeds)]
        for seconds in options.seconds:
            sys.stdout.write(_line(clusters, seconds) + "\n")
    sys.stdout.write(calibration_line(before, calibrate()) + "\n")


def _line(clusters: list[RunningCluster], seconds: float) -> str:
    runs = [timed(cluster, seconds) for cluster in clusters]
    pairs = list(zip(clusters, runs, strict=True))
    beta = WEIGHTS["D"]

    def median(values: list[float]) -> float:
        return statistics.median(values)

    watts = median(
        [
            measure(c, o.assignment).watts / measure(c, c.assignment).watts - 1.0
            for c, (o, _) in pairs
        ]
    )
    was = median([float(exposed_jobs(c, c.assignment).sum()) for c in clusters])
    now = median([float(exposed_jobs(c, o.assignment).sum()) for c, (o, _) in pairs])
    value = median([(o.after + beta) / (o.before + beta) - 1.0 for o, _ in runs])
    complete = sum(o.is_complete for o, _ in runs)
    return (
        f"{clusters[0].units.size:>5} servers, {clusters[0].job.size:>6,} containers, "
        f"{seconds:>4.0f} s: first bundle {median([t for _, t in runs]):.2f} s, "
        f"ended {median([o.seconds for o, _ in runs]):.1f} s "
        f"({complete} of {len(runs)} complete), "
        f"moves {median([float(o.migration_count) for o, _ in runs]):.0f}, watts {watts:+.1%}, "
        f"exposed jobs {was:.0f} to {now:.0f}, F + beta {value:+.1%}"
    )


if __name__ == "__main__":
    main()
