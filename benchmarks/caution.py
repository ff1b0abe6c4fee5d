"""Which value of its interval placement should use for an inferred tolerance.

    ./dev bench caution [--servers 200] [--loads 0.5,0.7,0.85] [--seed 1]

One-unit jobs of sixty applications, each profiled by the live plan (some of the ten sources
measured, the others inferred), are placed with the expected tolerance, with the pessimistic end of
its 90 % interval, and with the true tolerance; the same jobs at the same times. Measured for the
jobs of the second half: the speed relative to the same platform without neighbours.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

import numpy as np

from apps.classification.core.profile import Profile
from apps.emulation.core.worlds import MEASURED, WORLDS, world_named
from apps.inventory.core.snapshot import Floats
from apps.scheduling.core.registry import DEFAULT, make
from apps.testbed.core.demo_cluster import DemoCluster, demo_cluster
from apps.testbed.core.offline import AgentSettings, JobArrival, OfflineRun
from benchmarks._calibration import calibrate, calibration_line
from benchmarks._requests import profiled, shapes_of, with_profile
from benchmarks.feedback import offline_library
from benchmarks.policies import CLUSTER_SEED, arrivals

GOOD = 0.95
TOLERANCES: dict[str, Callable[[Profile], Floats]] = {
    "expected": lambda profile: profile.tolerated.value,
    "pessimistic": lambda profile: profile.tolerated.low,
}


def main() -> int:
    """Place the same jobs in three ways and print their performance."""
    parser = argparse.ArgumentParser(prog="benchmarks.caution", description=__doc__)
    parser.add_argument("--servers", type=int, default=200)
    parser.add_argument("--loads", default="0.5,0.7,0.85")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--world", choices=list(WORLDS), default=MEASURED.name)
    options = parser.parse_args()
    before_ms = calibrate()
    world = demo_cluster(options.servers, CLUSTER_SEED, world_named(options.world))
    library = offline_library(world)
    shapes = shapes_of(options.servers)
    for load in map(float, options.loads.split(",")):
        jobs = arrivals(world, load, np.random.default_rng(options.seed))
        truths = {job.truth.name: job.truth for job in jobs}
        profiles = {n: profiled(t, library, shapes, options.seed) for n, t in truths.items()}
        for name, tolerance in TOLERANCES.items():
            placed = [with_profile(job, profiles[job.truth.name], tolerance) for job in jobs]
            _print_row(load, name, _speeds(world, placed, options.seed))
        _print_row(load, "truth", _speeds(world, jobs, options.seed))
    sys.stdout.write(f"{calibration_line(before_ms, calibrate())}\n")
    return 0


def _speeds(world: DemoCluster, jobs: Sequence[JobArrival], seed: int) -> Floats:
    """(n,) speed of the later half of the jobs relative to isolation on the same platform."""
    report = OfflineRun(world, make(DEFAULT), AgentSettings(), seed).run(jobs)
    where = {d.placed.job: d.placed.units[0] for d in report.decisions if d.is_committed}
    platform = world.topology.server_platform[world.topology.unit_server]
    alone = [
        job.work_s / job.truth.platform_speed[platform[where[job.request.job]]] for job in jobs
    ]
    ran = [record.ended_s - record.started_s for record in report.jobs]
    return (np.array(alone) / np.array(ran))[len(jobs) // 2 :]


def _print_row(load: float, name: str, speeds: Floats) -> None:
    shares = f"at least 0.95: {(speeds >= GOOD).mean():4.0%}  mean {speeds.mean():.3f}"
    ends = f"p10 {np.quantile(speeds, 0.1):.3f}  p1 {np.quantile(speeds, 0.01):.3f}"
    sys.stdout.write(f"load {load:.2f}  tolerance {name:<12} {shares}  {ends}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
