"""What the policies are worth: jobs on the emulated cluster, offline, at several loads.

    python -m benchmarks.policies [--servers 300] [--loads 0.5,0.7,0.85,0.95] [--seed 1]

One-unit jobs of sixty applications arrive over 40 minutes of cluster time; the same jobs at the
same times for every policy. For the jobs of the second half: how fast they ran relative to the
same platform without neighbours, and how fast from arrival to end relative to the highest-end
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
from apps.testbed.core.offline import Arrival, Offline, Report, Settings
from apps.testbed.core.worlds import World, demo_world, request_of

CLUSTER_SEED = 2015
APPLICATIONS = 60
MEAN_WORK_S = 300.0
MEAN_SPEED = (
    0.7  # of a placed job, platform and neighbours included: turns a load into an arrival rate
)
HORIZON_S = 2400.0


@dataclass(frozen=True, slots=True)
class Row:
    """One policy at one load; performances relative to isolation on the same platform."""

    load: float
    policy: str
    mean: float
    tenth: float
    hundredth: float
    kept: float
    overall: float

    def __str__(self) -> str:
        spread = f"mean {self.mean:.3f}  p10 {self.tenth:.3f}  p1 {self.hundredth:.3f}"
        ends = f"at least 0.95: {self.kept:4.0%}  overall {self.overall:.3f}"
        return f"load {self.load:4.2f}  {self.policy:<15} {spread}  {ends}"


def arrivals(world: World, load: float, rng: np.random.Generator) -> list[Arrival]:
    """Poisson arrivals of exponential work that would hold ``load`` of the units."""
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
        Arrival(float(at), request_of(library[i], str(n)), library[i], float(w))
        for n, (at, i, w) in enumerate(zip(times, chosen, work, strict=True))
    ]


def row(world: World, load: float, name: str, seed: int) -> Row:
    """Run one policy on the jobs of a seed."""
    jobs = arrivals(world, load, np.random.default_rng(seed))
    report = Offline(world, make(name), Settings(), seed).run(jobs)
    alone, overall = performances(world, jobs, report)
    return Row(
        load,
        name,
        float(alone.mean()),
        float(np.quantile(alone, 0.1)),
        float(np.quantile(alone, 0.01)),
        float((alone >= 0.95).mean()),
        float(overall.mean()),
    )


def performances(world: World, jobs: list[Arrival], report: Report) -> tuple[Floats, Floats]:
    """(n,) speed relative to isolation, (n,) speed from arrival to end; the second half's jobs."""
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
    """Seconds per unit of work, averaged over the phases."""
    shares = np.diff(np.append(truth.phases.starts, 1.0))
    return float((shares / truth.phases.rate).sum())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Policies compared on the emulated cluster.")
    parser.add_argument("--servers", type=int, default=300)
    parser.add_argument("--loads", default="0.5,0.7,0.85,0.95")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    world = demo_world(options.servers, CLUSTER_SEED)
    for load in map(float, options.loads.split(",")):
        for name in POLICIES:
            sys.stdout.write(f"{row(world, load, name, options.seed)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
