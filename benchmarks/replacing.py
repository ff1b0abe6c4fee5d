"""How soon a running cluster is told better places, and how much better they are.

    python -m benchmarks.replacing [--servers 600 3000] [--seconds 2 20] [--load 0.65] [--seeds 3]

Clusters of the demo's platforms in racks of 40, filled at random to a share of their units with
jobs of 1 to 12 containers of 1 to 4 units, a tenth of them tazes, a third of which talk. For each
size and time: when the first bundle was told, moves, and what became of watts, exposed jobs and
F + beta, medians over the seeds.
"""

import argparse
import statistics
import sys
import time
from typing import Final

import numpy as np

from apps.inventory.core.demo import PLATFORMS
from apps.placement.core.live import Cluster, exposed_jobs, measure
from apps.placement.core.replacing import Outcome, improve
from benchmarks._calibration import calibrate, calibration_line

WEIGHTS: Final = {"P": 0.54, "D": 0.45, "C": 1.0}
MIGRATION: Final = 0.05
RACK: Final = 40
SOURCES: Final = 10


def drawn(servers: int, load: float, seed: int) -> Cluster:
    """Draw a cluster whose containers fit where they are."""
    rng = np.random.default_rng(seed)
    platform = rng.integers(0, len(PLATFORMS), servers)
    units = np.array([PLATFORMS[p].cores for p in platform], dtype=np.int64)
    sizes, job, home = _containers(units, load, rng)
    jobs = int(job.max()) + 1
    loud = rng.uniform(5.0, 45.0, (jobs, SOURCES))
    is_taz = rng.random(jobs)[job] < 0.1
    free = units - np.bincount(home, weights=sizes, minlength=servers).astype(np.int64)
    slower = np.sort(rng.uniform(0.5, 1.0, (jobs, len(PLATFORMS))), axis=1)[:, ::-1]
    return Cluster(
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
        home=home,
        size=sizes,
        demand=np.ones((sizes.size, 3)),
        intensity=np.where(is_taz, rng.uniform(0.5, 1.0, job.size), rng.uniform(0, 0.3, job.size)),
        is_taz=is_taz,
        is_movable=np.ones(sizes.size, dtype=np.bool_),
        job_id=tuple(map(str, range(jobs))),
        job_name=tuple(map(str, range(jobs))),
        wish=np.where(rng.random(jobs) < 1 / 3, rng.integers(1, 3, jobs), 0),
        is_allowed=np.ones((jobs, servers), dtype=np.bool_),
        attainment=rng.uniform(0.95, 1.6, jobs),
        speed=slower,
        caused=loud,
        tolerated=99.0 - loud,
    )


def _containers(
    units: "np.ndarray[tuple[int], np.dtype[np.int64]]", load: float, rng: np.random.Generator
) -> tuple[
    "np.ndarray[tuple[int], np.dtype[np.int64]]",
    "np.ndarray[tuple[int], np.dtype[np.int64]]",
    "np.ndarray[tuple[int], np.dtype[np.int64]]",
]:
    """Units, job and server of containers, until so much of the cluster is lent."""
    free, wanted = units.copy(), load * float(units.sum())
    sizes: list[int] = []
    job: list[int] = []
    home: list[int] = []
    jobs = 0
    while sum(sizes) < wanted:
        each = int(rng.integers(1, 5))
        for server in rng.choice(len(units), int(rng.integers(1, 13)), replace=False).tolist():
            if free[server] >= each:
                free[server] -= each
                sizes.append(each)
                job.append(jobs)
                home.append(server)
        jobs = max(job, default=-1) + 1
    return np.array(sizes), np.array(job), np.array(home)


def timed(cluster: Cluster, seconds: float) -> tuple[Outcome, float]:
    """Search once: what was found, and when the first of it was told."""
    told: list[float] = []
    began = time.perf_counter()
    found = improve(
        cluster,
        WEIGHTS,
        clock=time.perf_counter,
        limit_s=seconds,
        migration=MIGRATION,
        watch=lambda _: told.append(time.perf_counter() - began),
    )
    return found, told[0] if told else found.seconds


def main() -> None:
    """Print a line for each size and time."""
    parser = argparse.ArgumentParser(description="Better places for what runs.")
    parser.add_argument("--servers", type=int, nargs="+", default=[600, 3000])
    parser.add_argument("--seconds", type=float, nargs="+", default=[2.0, 20.0])
    parser.add_argument("--load", type=float, default=0.65)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    before = calibrate()
    for servers in options.servers:
        clusters = [drawn(servers, options.load, seed) for seed in range(options.seeds)]
        for seconds in options.seconds:
            sys.stdout.write(_line(clusters, seconds) + "\n")
    sys.stdout.write(calibration_line(before, calibrate()) + "\n")


def _line(clusters: list[Cluster], seconds: float) -> str:
    runs = [timed(cluster, seconds) for cluster in clusters]
    pairs = list(zip(clusters, runs, strict=True))
    beta = WEIGHTS["D"]

    def median(values: list[float]) -> float:
        return statistics.median(values)

    watts = median(
        [measure(c, o.home).watts / measure(c, c.home).watts - 1.0 for c, (o, _) in pairs]
    )
    was = median([float(exposed_jobs(c, c.home).sum()) for c in clusters])
    now = median([float(exposed_jobs(c, o.home).sum()) for c, (o, _) in pairs])
    value = median([(o.after + beta) / (o.before + beta) - 1.0 for o, _ in runs])
    settled = sum(o.is_settled for o, _ in runs)
    return (
        f"{clusters[0].units.size:>5} servers, {clusters[0].job.size:>6,} containers, "
        f"{seconds:>4.0f} s: first told {median([t for _, t in runs]):.2f} s, "
        f"ended {median([o.seconds for o, _ in runs]):.1f} s ({settled} of {len(runs)} settled), "
        f"moves {median([float(o.moves) for o, _ in runs]):.0f}, watts {watts:+.1%}, "
        f"exposed jobs {was:.0f} to {now:.0f}, F + beta {value:+.1%}"
    )


if __name__ == "__main__":
    main()
