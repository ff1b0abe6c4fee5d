"""Performance of jobs by policy, on the emulated cluster, offline, at several loads.

    python -m benchmarks.policies [--servers 300] [--loads 0.5,0.7,0.85,0.95] [--seed 1]

One-unit jobs of sixty applications arrive over 40 minutes of cluster time, the same jobs at the
same times for every policy. Measured for the jobs of the second half: the speed relative to the
same platform without neighbours, and the speed from arrival to end relative to the highest-end
platform.
"""

import argparse
import sys
from dataclasses import dataclass

import numpy as np

from apps.emulation.core.draws import ANALYTICS, BATCH, SINGLE_NODE, application_truth
from apps.emulation.core.truth import Truth
from apps.inventory.core.snapshot import Floats
from apps.scheduling.core.registry import POLICIES, make
from apps.testbed.core.demo_cluster import DemoCluster, demo_cluster, exact_request
from apps.testbed.core.offline import AgentSettings, JobArrival, OfflineReport, OfflineRun

CLUSTER_SEED = 2015
APPLICATIONS = 60
MEAN_WORK_S = 300.0
MEAN_SPEED = (
    0.7  # of a placed job, platform and neighbours included: turns a load into an arrival rate
)
HORIZON_S = 2400.0


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One policy at one load; performance relative to isolation on the same platform.

    ``near_full_speed`` is the share of jobs with at least 0.95 of it.
    """

    load: float
    policy: str
    mean: float
    tenth: float
    hundredth: float
    near_full_speed: float
    overall: float

    def __str__(self) -> str:
        spread = f"mean {self.mean:.3f}  p10 {self.tenth:.3f}  p1 {self.hundredth:.3f}"
        ends = f"at least 0.95: {self.near_full_speed:4.0%}  overall {self.overall:.3f}"
        return f"load {self.load:4.2f}  {self.policy:<15} {spread}  {ends}"


def arrivals(world: DemoCluster, load: float, rng: np.random.Generator) -> list[JobArrival]:
    """Return Poisson arrivals of exponential work that would use ``load`` of the units."""
    kinds = (ANALYTICS, SINGLE_NODE, BATCH)
    library = [
        application_truth(CLUSTER_SEED, f"app{i}", kinds[i % 3], world.machines.platforms)
        for i in range(APPLICATIONS)
    ]
    rate = load * float(world.topology.server_units.sum()) * MEAN_SPEED / MEAN_WORK_S
    times = np.cumsum(rng.exponential(1.0 / rate, int(rate * HORIZON_S)))
    chosen = rng.integers(APPLICATIONS, size=times.size)
    work = rng.exponential(MEAN_WORK_S, times.size) + 5.0
    return [
        JobArrival(float(at), exact_request(library[i], str(n)), library[i], float(w))
        for n, (at, i, w) in enumerate(zip(times, chosen, work, strict=True))
    ]


def row(world: DemoCluster, load: float, name: str, seed: int) -> PolicyRow:
    """Run one policy on the jobs of a seed."""
    jobs = arrivals(world, load, np.random.default_rng(seed))
    report = OfflineRun(world, make(name), AgentSettings(), seed).run(jobs)
    alone, overall = performances(world, jobs, report)
    return PolicyRow(
        load,
        name,
        float(alone.mean()),
        float(np.quantile(alone, 0.1)),
        float(np.quantile(alone, 0.01)),
        float((alone >= 0.95).mean()),
        float(overall.mean()),
    )


def performances(
    world: DemoCluster, jobs: list[JobArrival], report: OfflineReport
) -> tuple[Floats, Floats]:
    """(n,) speed relative to isolation and (n,) speed from arrival to end of the second half."""
    owner = world.topology.unit_server
    server = {d.placed.job: owner[d.placed.units[0]] for d in report.decisions if d.is_committed}
    alone, overall = [], []
    for job, record in zip(jobs, report.jobs, strict=True):
        if job.at_s < HORIZON_S / 2.0:
            continue
        ideal = job.work_s * _phases(job.truth)
        platform = world.topology.server_platform[server[record.job]]
        speed = job.truth.platform_speed[platform]
        alone.append(ideal / speed / (record.ended_s - record.started_s))
        overall.append(ideal / (record.ended_s - record.arrived_s))
    return np.array(alone), np.array(overall)


def _phases(truth: Truth) -> float:
    """Return the seconds per unit of work, averaged over the phases."""
    shares = np.diff(np.append(truth.phases.starts, 1.0))
    return float((shares / truth.phases.rate).sum())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Policies compared on the emulated cluster.")
    parser.add_argument("--servers", type=int, default=300)
    parser.add_argument("--loads", default="0.5,0.7,0.85,0.95")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    world = demo_cluster(options.servers, CLUSTER_SEED)
    for load in map(float, options.loads.split(",")):
        for name in POLICIES:
            sys.stdout.write(f"{row(world, load, name, options.seed)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
