"""Which value of its interval placement should assume for an inferred tolerance.

    ./dev bench caution [--world W] [--servers 30] [--loads 0.5,0.7,0.85] [--seeds 1-5]

One-unit jobs of sixty applications, each profiled by the live plan (some of the ten sources
measured, the others inferred), are placed with the estimated tolerance, with the value halfway to
the pessimistic end of its 90 % interval, with that end, and with the true profiles; the same jobs
at the same times. Measured for the jobs of the second half, as in `benchmarks.policies`: the speed
relative to the same platform without neighbours, and from arrival to end relative to the
highest-end platform. Means over the seeds with 90 % intervals. Stores the result.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.profile import Profile
from apps.emulation.core.worlds import WORLDS, world_named
from apps.inventory.core.snapshot import Floats
from apps.scheduling.core.registry import DEFAULT, make
from apps.testbed.core.demo_cluster import DemoCluster, demo_cluster
from apps.testbed.core.offline import AgentSettings, JobArrival, OfflineRun
from benchmarks._policy_measures import performances
from benchmarks._policy_tables import estimate
from benchmarks._requests import profiled, shapes_of, with_profile
from benchmarks._results import RESULTS, markdown, store
from benchmarks.feedback import offline_library
from benchmarks.policies import CLUSTER_SEED, HORIZON_S, arrivals, numbers

GOOD: Final = 0.95
TOLERANCES: Final[dict[str, Callable[[Profile], Floats]]] = {
    "estimated": lambda profile: profile.tolerated.value,
    "halfway (assumed)": lambda profile: profile.assumed_tolerance,
    "pessimistic end": lambda profile: profile.tolerated.low,
}
MEASURES: Final = ("near_full_speed", "mean", "tenth", "overall")
TRUE: Final = "true profiles"
HEADINGS: Final = ("world", "load", "tolerance", "jobs at 0.95 or more", "mean", "p10", "overall")


class Figures(NamedTuple):
    """One tolerance on the jobs of one seed; performance as in `benchmarks.policies`."""

    world: str
    load: float
    tolerance: str
    seed: int
    near_full_speed: float
    mean: float
    tenth: float
    overall: float


def figures_of(world_name: str, options: argparse.Namespace) -> Iterator[Figures]:
    """Place the jobs of every load and seed with every tolerance."""
    world = demo_cluster(options.servers, CLUSTER_SEED, world_named(world_name))
    library = offline_library(world)
    shapes = shapes_of(options.servers)
    for load, seed in product(map(float, options.loads.split(",")), options.seeds):
        jobs = arrivals(world, load, np.random.default_rng(seed))
        truths = {job.truth.name: job.truth for job in jobs}
        profiles = {n: profiled(t, library, shapes, seed) for n, t in truths.items()}
        for name, tolerance in TOLERANCES.items():
            placed = [with_profile(job, profiles[job.truth.name], tolerance) for job in jobs]
            yield Figures(world_name, load, name, seed, *_measures(world, placed, seed))
        yield Figures(world_name, load, TRUE, seed, *_measures(world, jobs, seed))


def _measures(
    world: DemoCluster, jobs: list[JobArrival], seed: int
) -> tuple[float, float, float, float]:
    report = OfflineRun(world, make(DEFAULT), AgentSettings(), seed).run(jobs)
    reached = performances(world, jobs, report, HORIZON_S / 2.0)
    alone, overall = reached.alone, reached.overall
    return (
        float((alone >= GOOD).mean()),
        float(alone.mean()),
        float(np.quantile(alone, 0.1)),
        float(overall.mean()),
    )


def table(figures: Sequence[Figures]) -> list[list[str]]:
    """Return the published table: one row per world, load and tolerance."""
    groups: dict[tuple[str, float, str], list[Figures]] = {}
    for each in figures:
        groups.setdefault((each.world, each.load, each.tolerance), []).append(each)
    shown = [list(HEADINGS)]
    for (world, load, tolerance), of_seeds in groups.items():
        cells = [estimate([getattr(each, name) for each in of_seeds]) for name in MEASURES]
        texts = [f"{mean:.3f} ± {half:.3f}" for mean, half in cells]
        shown.append([world, f"{load:.2f}", tolerance, *texts])
    return shown


def main(argv: Sequence[str] | None = None) -> int:
    """Print and store the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.caution", description=__doc__)
    parser.add_argument("--servers", type=int, default=30)
    parser.add_argument("--loads", default="0.5,0.7,0.85")
    parser.add_argument("--seeds", type=numbers, default=numbers("5"), help="5, 1-5 or 1,3")
    parser.add_argument("--world", choices=list(WORLDS), help="default: all of them")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    worlds = [options.world] if options.world else list(WORLDS)
    figures = []
    for each in (one for world in worlds for one in figures_of(world, options)):
        figures.append(each)
        sys.stdout.write(f"{each}\n")
        sys.stdout.flush()
    shown = table(figures)
    chosen = {name: getattr(options, name) for name in ("world", "servers", "loads", "seeds")}
    rows = [each._asdict() for each in figures]
    tables = {"caution": shown}
    store("caution", arguments=chosen, figures=rows, tables=tables, folder=options.results)
    sys.stdout.write(markdown(shown) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
