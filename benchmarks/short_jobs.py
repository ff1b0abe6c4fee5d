"""Slowdown of short jobs placed without a profile: Paragon §3.5 (P9).

    ./dev bench short_jobs [--servers 300] [--loads 0.5,0.7,0.85] [--seed 1]

The jobs of `benchmarks.policies` fill the cluster; every fourth job is a short one of 10 to 30 s
(as in the paper), of its own application. The same short jobs are placed by the policy for jobs
without a profile, by the default policy as if they were profiled, and at random. The paper reports
a difference of 15 % between the first two.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from apps.emulation.core.draws import ANALYTICS
from apps.emulation.core.worlds import MEASURED, WORLDS, world_named
from apps.inventory.core.snapshot import Floats, Snapshot
from apps.scheduling.core.registry import DEFAULT, SHORT, make
from apps.scheduling.core.types import Placed, Policy, Refused, Request
from apps.testbed.core.demo_cluster import DemoCluster, demo_cluster, exact_request
from apps.testbed.core.offline import AgentSettings, JobArrival, OfflineRun
from benchmarks._calibration import calibrate, calibration_line
from benchmarks.policies import CLUSTER_SEED, arrivals

EVERY = 4
PREFIX = "short-"
WORK_S = (10.0, 30.0)
PLACED_BY = (SHORT, DEFAULT, "random")


class ShortJobPolicy:
    """Place short jobs with one policy, all others with the default."""

    def __init__(self, short: str) -> None:
        self._short, self._others = make(short), make(DEFAULT)
        self.name, self.version, self.draws_sample = f"short jobs by {short}", 1, False

    def place(
        self, snapshot: Snapshot, requests: Sequence[Request], rng: np.random.Generator
    ) -> list[Placed | Refused]:
        """Place requests one by one, as the offline cluster sends them."""
        return [self._policy(request).place(snapshot, [request], rng)[0] for request in requests]

    def _policy(self, request: Request) -> Policy:
        return self._short if request.job.startswith(PREFIX) else self._others


def jobs(world: DemoCluster, load: float, seed: int) -> list[JobArrival]:
    """Return the jobs of `benchmarks.policies` at a load, with short jobs between them."""
    rng = np.random.default_rng(seed)
    long = arrivals(world, load, rng)
    mixed = []
    for n, job in enumerate(long):
        mixed.append(job)
        if n % EVERY == 0:
            name = f"{PREFIX}{n}"
            truth = world.world.application_truth(
                CLUSTER_SEED, name, ANALYTICS, world.machines.platforms
            )
            work_s = float(rng.uniform(*WORK_S))
            mixed.append(JobArrival(job.at_s, exact_request(truth, name), truth, work_s))
    return mixed


def seconds(
    world: DemoCluster, job_arrivals: Sequence[JobArrival], short: str, seed: int
) -> Floats:
    """(n,) time from arrival to end of the short jobs, relative to their work in seconds."""
    if short == SHORT:  # placed with typical values only
        typical = np.mean([job.request.tolerated for job in job_arrivals], axis=0)
        speed = np.mean([job.truth.platform_speed for job in job_arrivals], axis=0)
        job_arrivals = [_unprofiled(job, typical, speed) for job in job_arrivals]
    report = OfflineRun(world, ShortJobPolicy(short), AgentSettings(), seed).run(job_arrivals)
    return np.array(
        [
            (record.ended_s - record.arrived_s) / job.work_s
            for record, job in zip(report.jobs, job_arrivals, strict=True)
            if record.job.startswith(PREFIX)
        ]
    )


def _unprofiled(job: JobArrival, typical: Floats, speed: Floats) -> JobArrival:
    if not job.request.job.startswith(PREFIX):
        return job
    request = replace(job.request, tolerated=typical, caused=99.0 - typical, platform_speed=speed)
    return replace(job, request=request)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Short jobs of unknown applications, offline.")
    parser.add_argument("--servers", type=int, default=300)
    parser.add_argument("--loads", default="0.5,0.7,0.85")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--world", choices=list(WORLDS), default=MEASURED.name)
    options = parser.parse_args()
    before_ms = calibrate()
    world = demo_cluster(options.servers, CLUSTER_SEED, world_named(options.world))
    sys.stdout.write("load | short jobs by | time / work: mean, p90 | relative to the default\n")
    for load in map(float, options.loads.split(",")):
        job_arrivals = jobs(world, load, options.seed)
        times_by = {
            short: seconds(world, job_arrivals, short, options.seed) for short in PLACED_BY
        }
        for short, times in times_by.items():
            ratio = times.mean() / times_by[DEFAULT].mean()
            sys.stdout.write(
                f"{load:.2f} | {short} | {times.mean():.3f} {np.quantile(times, 0.9):.3f} | "
                f"{ratio - 1.0:+.1%}\n"
            )
            sys.stdout.flush()
    sys.stdout.write(calibration_line(before_ms, calibrate()) + "\n")


if __name__ == "__main__":
    main()
