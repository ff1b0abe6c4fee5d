"""Effect of constants that were fitted to the emulator on targets met, in both worlds.

    ./dev bench sensitivity [--servers 60] [--applications 20] [--jobs 15] [--seeds 1-5]

Jobs with completion times share the emulated cluster, offline; production's sizing chooses their
units from inferred profiles, and feedback learns from those that ended (`_closed_loop`). The
sizing allowance is learned too, from its first value on, except in one row. One
constant at a time is multiplied; jobs, profiles and noise of a seed stay the same. Of a share of
the speed that remains (0.9), the loss is multiplied (0.1).
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Final

import numpy as np

from apps.classification.core import feedback
from apps.classification.core.inference import Library
from apps.emulation.core.worlds import WORLDS, World
from apps.scheduling.core.sizing import allowances
from apps.testbed.core.comparison import (
    Better,
    Comparison,
    Measure,
    RunTable,
    compare,
)
from apps.testbed.core.demo_cluster import DemoCluster, demo_cluster
from benchmarks._calibration import calibrate, calibration_line
from benchmarks._closed_loop import ClosedLoop, LoopFigures, TrackedApplication
from benchmarks._intervals import difference_text
from benchmarks._results import Table, markdown, store
from benchmarks.feedback import (
    CLUSTER_SEED,
    ProfiledApplication,
    draw_applications,
    offline_library,
)

FACTORS: Final = (0.5, 0.75, 1.33, 2.0)
AS_IS: Final = "as it is"
FIXED: Final = "allowance not learned x 1"
MEASURES: Final = (
    Measure("met", "targets met", "%", Better.HIGHER),
    Measure("near", "at 0.95", "%", Better.HIGHER),
    Measure("performance", "performance", "%", Better.HIGHER),
    Measure("unit_seconds", "unit-seconds a job", "", Better.LOWER),
)


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of a module; ``is_share``: what remains of the speed, so its loss is varied."""

    module: ModuleType
    name: str
    label: str
    is_share: bool

    def times(self, factor: float) -> float:
        """Return its value, or its loss, times a factor."""
        value = float(getattr(self.module, self.name))
        return 1.0 - factor * (1.0 - value) if self.is_share else factor * value

    @contextmanager
    def set_to(self, value: float) -> Iterator[None]:
        """Give it another value for a while."""
        before = getattr(self.module, self.name)
        setattr(self.module, self.name, value)
        try:
            yield
        finally:
            setattr(self.module, self.name, before)


CONSTANTS: Final = (
    Constant(allowances, "INTERFERENCE_ALLOWANCE", "first allowance", is_share=True),
    Constant(feedback, "NEIGHBOURS", "neighbours in feedback", is_share=True),
    Constant(feedback, "POINT_COST", "cost of a point beyond tolerance", is_share=False),
)


def main() -> int:
    """Run the benchmark and store its tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--servers", type=int, default=60)
    parser.add_argument("--applications", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=15, help="mean number of jobs per application")
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    before_ms = calibrate()
    seeds = tuple(range(1, options.seeds + 1))
    tables: dict[str, Table] = {}
    for world in WORLDS.values():
        found = measured(world, seeds, options)
        result = compare(found, baseline=AS_IS, rng=np.random.default_rng(1))
        tables[world.name] = table_of(result)
        sys.stdout.write(f"{world.name}\n\n{markdown(tables[world.name])}\n\n")
        sys.stdout.flush()
    sys.stdout.write(calibration_line(before_ms, calibrate()) + "\n")
    store("sensitivity", arguments=vars(options), figures=[], tables=tables)
    return 0


def measured(world: World, seeds: Sequence[int], options: argparse.Namespace) -> RunTable:
    """Run every variant of every constant with every seed."""
    cluster = demo_cluster(options.servers, CLUSTER_SEED, world)
    library = offline_library(cluster)
    columns = []
    for seed in seeds:
        applications = draw_applications(
            cluster, options.applications, np.random.default_rng(seed)
        )
        chosen = argparse.Namespace(**{**vars(options), "seed": seed})

        figures = [
            run(cluster, library, applications, chosen),
            run(cluster, library, applications, chosen, learns_allowance=False),
        ]
        for constant in CONSTANTS:
            for factor in FACTORS:
                with constant.set_to(constant.times(factor)):
                    figures.append(run(cluster, library, applications, chosen))
        columns.append([values_of(each) for each in figures])
    names = (AS_IS, FIXED, *(f"{c.label} x {f:g}" for c in CONSTANTS for f in FACTORS))
    return RunTable(names, tuple(seeds), MEASURES, np.array(columns).transpose(1, 0, 2))


def run(
    cluster: DemoCluster,
    library: Library,
    applications: Sequence[ProfiledApplication],
    options: argparse.Namespace,
    *,
    learns_allowance: bool = True,
) -> LoopFigures:
    """Run the jobs of one seed; the applications are as profiled at first."""
    tracked = [TrackedApplication.of(each.truth, each.cells, library) for each in applications]
    loop = ClosedLoop(cluster, tracked, options, learns_allowance=learns_allowance)
    return loop.run(learns=True)


def values_of(figures: LoopFigures) -> list[float]:
    """List the values of `MEASURES`; jobs that no size serves miss their target."""
    share = 100.0 * figures.jobs / (figures.jobs + figures.infeasible)
    return [
        share * figures.met,
        share * figures.near,
        share * figures.performance,
        figures.unit_seconds,
    ]


def table_of(result: Comparison) -> Table:
    """Return means of the baseline, and differences to it with corrected intervals."""
    table = [["constant", "value x", *(each.label for each in result.measures)]]
    base = [result.means[AS_IS, each.key] for each in result.measures]
    table.append([AS_IS, "1", *("-" if x is None else f"{x.estimate:,.1f}" for x in base)])
    for name in result.settings:
        if name != AS_IS:
            label, factor = name.rsplit(" x ", 1)
            row = [
                difference_text(result.difference(name, each.key), 1) for each in result.measures
            ]
            table.append([label, factor, *row])
    return table


if __name__ == "__main__":
    sys.exit(main())
