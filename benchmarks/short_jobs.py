"""What it costs short jobs that nobody knows them: Paragon §3.5 (P9).

    ./dev bench short_jobs [--servers 300] [--loads 0.5,0.7,0.85] [--seed 1]

The jobs of `benchmarks.policies` fill the cluster; every fourth job is a short one of 10 to 30 s
(the paper's length), of an application of its own. The same short jobs are placed by the policy
for jobs that nobody knows, by the default policy as if they had been profiled, and at random; the
paper finds 15 % between the first two.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from apps.emulation.core.draws import ANALYTICS, application_truth
from apps.inventory.core.snapshot import Floats, Snapshot
from apps.scheduling.core.registry import DEFAULT, SHORT, make
from apps.scheduling.core.types import Placed, Policy, Refused, Request
from apps.testbed.core.offline import Arrival, Offline, Settings
from apps.testbed.core.worlds import World, demo_world, request_of
from benchmarks._calibration import calibrate, calibration_line
from benchmarks.policies import CLUSTER_SEED, arrivals

EVERY = 4
PREFIX = "short-"
SECONDS = (10.0, 30.0)
PLACED_BY = (SHORT, DEFAULT, "random")


class Mixed:
    """Short jobs by one policy, all others by the default."""

    def __init__(self, short: str) -> None:
        self._short, self._others = make(short), make(DEFAULT)
        self.name, self.version = f"short jobs by {short}", 1

    def place(
        self, snapshot: Snapshot, requests: Sequence[Request], rng: np.random.Generator
    ) -> list[Placed | Refused]:
        """Place requests one by one; the offline cluster asks for no more."""
        return [self._policy(request).place(snapshot, [request], rng)[0] for request in requests]

    def _policy(self, request: Request) -> Policy:
        return self._short if request.job.startswith(PREFIX) else self._others


def jobs(world: World, load: float, seed: int) -> list[Arrival]:
    """Make the jobs of `benchmarks.policies` at a load, and short ones between them."""
    rng = np.random.default_rng(seed)
    long = arrivals(world, load, rng)
    found = []
    for n, job in enumerate(long):
        found.append(job)
        if n % EVERY == 0:
            name = f"{PREFIX}{n}"
            truth = application_truth(CLUSTER_SEED, name, ANALYTICS, world.machines.platforms)
            work_s = float(rng.uniform(*SECONDS))
            found.append(Arrival(job.at_s, request_of(truth, name), truth, work_s))
    return found


def seconds(world: World, asked: Sequence[Arrival], short: str, seed: int) -> Floats:
    """(n,) seconds from arrival to end of the short jobs, over their work in unit-seconds."""
    if short == SHORT:  # nothing is known of them but what is typical
        typical = np.mean([job.request.tolerated for job in asked], axis=0)
        speed = np.mean([job.truth.platform_speed for job in asked], axis=0)
        asked = [_unknown(job, typical, speed) for job in asked]
    report = Offline(world, Mixed(short), Settings(), seed).run(asked)
    return np.array(
        [
            (record.ended_s - record.arrived_s) / job.work_s
            for record, job in zip(report.jobs, asked, strict=True)
            if record.job.startswith(PREFIX)
        ]
    )


def _unknown(job: Arrival, typical: Floats, speed: Floats) -> Arrival:
    if not job.request.job.startswith(PREFIX):
        return job
    asked = replace(job.request, tolerated=typical, caused=99.0 - typical, platform_speed=speed)
    return replace(job, request=asked)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Short jobs of unknown applications, offline.")
    parser.add_argument("--servers", type=int, default=300)
    parser.add_argument("--loads", default="0.5,0.7,0.85")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    before_ms = calibrate()
    world = demo_world(options.servers, CLUSTER_SEED)
    sys.stdout.write("load | short jobs by | time / work: mean, p90 | to the default\n")
    for load in map(float, options.loads.split(",")):
        asked = jobs(world, load, options.seed)
        found = {short: seconds(world, asked, short, options.seed) for short in PLACED_BY}
        for short, times in found.items():
            ratio = times.mean() / found[DEFAULT].mean()
            sys.stdout.write(
                f"{load:.2f} | {short} | {times.mean():.3f} {np.quantile(times, 0.9):.3f} | "
                f"{ratio - 1.0:+.1%}\n"
            )
            sys.stdout.flush()
    sys.stdout.write(calibration_line(before_ms, calibrate()) + "\n")


if __name__ == "__main__":
    main()
