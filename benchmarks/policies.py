"""Performance of jobs by policy, on the emulated cluster, offline, at several loads.

    python -m benchmarks.policies [--world W] [--servers N] [--loads 0.5,0.7,0.85,0.95] [--seeds 5]

One-unit jobs of sixty applications arrive over 40 minutes of cluster time, the same jobs at the
same times for every policy. Each policy gets the profiles that the live plan infers, tolerances at
the pessimistic end of their intervals as in the running system; and, as a bound, the hidden truth.
Measured for the jobs of the second half: the speed relative to the same platform without
neighbours, and the speed from arrival to end relative to the highest-end platform. Means over the
seeds, with 90 % intervals of the mean. Stores the result (`benchmarks._results`).
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy import stats

from apps.emulation.core.draws import ANALYTICS, BATCH, SINGLE_NODE
from apps.emulation.core.truth import Truth
from apps.emulation.core.worlds import MEASURED, WORLDS, world_named
from apps.inventory.core.snapshot import Floats
from apps.scheduling.core.registry import POLICIES, make
from apps.testbed.core.demo_cluster import DemoCluster, demo_cluster, exact_request
from apps.testbed.core.offline import AgentSettings, JobArrival, OfflineReport, OfflineRun
from benchmarks._requests import profiled, shapes_of, with_profile
from benchmarks._results import RESULTS, markdown, store
from benchmarks.feedback import offline_library

if TYPE_CHECKING:
    from apps.classification.core.profile import Profile

CLUSTER_SEED = 2015
APPLICATIONS = 60
MEAN_WORK_S = 300.0
MEAN_SPEED = (
    0.7  # of a placed job, platform and neighbours included: turns a load into an arrival rate
)
HORIZON_S = 2400.0
MEASURES: Final = {
    "mean": "mean",
    "tenth": "p10",
    "hundredth": "p1",
    "near_full_speed": "jobs at 0.95 or more",
    "overall": "overall",
}


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
        world.world.application_truth(
            CLUSTER_SEED, f"app{i}", kinds[i % 3], world.machines.platforms
        )
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


def row(
    world: DemoCluster, jobs: list[JobArrival], load: float, name: str, seed: int
) -> PolicyRow:
    """Run one policy on some jobs."""
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


class Profiler:
    """Profiles of applications as the live plan infers them; each is made once per seed."""

    def __init__(self, world: DemoCluster, servers: int) -> None:
        self._library = offline_library(world)
        self._shapes = shapes_of(servers)
        self._known: dict[tuple[str, int], Profile] = {}

    def request(self, job: JobArrival, seed: int) -> JobArrival:
        """Return a job as the running system requests it, with its inferred profile."""
        key = (job.truth.name, seed)
        if key not in self._known:
            self._known[key] = profiled(job.truth, self._library, self._shapes, seed)
        return with_profile(job, self._known[key], lambda profile: profile.tolerated.low)


def estimate(values: list[float]) -> tuple[float, float]:
    """Return the mean of one value per seed, and half of the 90 % interval of the mean."""
    n = len(values)
    if n < 2:
        return float(np.mean(values)), float("nan")
    width = float(stats.t.ppf(0.95, n - 1)) * float(np.std(values, ddof=1)) / n**0.5
    return float(np.mean(values)), width


def table(rows: list[tuple[str, PolicyRow]]) -> list[list[str]]:
    """Return the published table: one row per load, profiles and policy."""
    groups: dict[tuple[str, float, str], list[PolicyRow]] = {}
    for profiles, one in rows:
        groups.setdefault((profiles, one.load, one.policy), []).append(one)
    shown = [["profiles", "load", "policy", *MEASURES.values()]]
    for (profiles, load, policy), of_seeds in groups.items():
        cells = [estimate([getattr(one, name) for one in of_seeds]) for name in MEASURES]
        texts = [f"{mean:.3f} ± {half:.3f}" for mean, half in cells]
        shown.append([profiles, f"{load:.2f}", f"`{policy}`", *texts])
    return shown


def main(argv: Sequence[str] | None = None) -> int:
    """Print and store the table."""
    parser = argparse.ArgumentParser(description="Policies compared on the emulated cluster.")
    parser.add_argument("--servers", type=int, default=300)
    parser.add_argument("--loads", default="0.5,0.7,0.85,0.95")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--world", choices=list(WORLDS), default=MEASURED.name)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    world = demo_cluster(options.servers, CLUSTER_SEED, world_named(options.world))
    profiler = Profiler(world, options.servers)
    rows: list[tuple[str, PolicyRow]] = []
    for load in map(float, options.loads.split(",")):
        for seed in range(1, options.seeds + 1):
            exact = arrivals(world, load, np.random.default_rng(seed))
            jobs = {
                "inferred": [profiler.request(job, seed) for job in exact],
                "true (bound)": exact,
            }
            for profiles, name in product(jobs, POLICIES):
                rows.append((profiles, row(world, jobs[profiles], load, name, seed)))
                sys.stdout.write(f"{profiles:<13} seed {seed}  {rows[-1][1]}\n")
                sys.stdout.flush()
    rows.sort(key=lambda pair: (pair[0] != "inferred", pair[1].load))
    figures = [{"profiles": profiles, **asdict(one)} for profiles, one in rows]
    chosen = {name: getattr(options, name) for name in ("world", "servers", "loads", "seeds")}
    stored = {"policies": table(rows)}
    store("policies", arguments=chosen, figures=figures, tables=stored, folder=options.results)
    sys.stdout.write(markdown(stored["policies"]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
