"""Performance of jobs by policy, on the emulated cluster, offline, at several loads.

    ./dev bench policies [--world W] [--profiles P] [--servers N] [--loads 0.5,0.7] [--seeds 1-5]
                         [--policies expected,tarcil] [--units one|many] [--patience-s S] [--json]
                         [--name N] [--update] [--processes K]

Jobs of sixty applications arrive over 40 minutes of cluster time, the same jobs at the same times
for every policy: jobs of one unit, or of 1, 2, 4 and 8 units that start together. Each policy gets
the profiles that the live plan infers, with the tolerances that the running system assumes; and,
as a bound, the hidden truth. Waiting jobs are decided by production's rule: none blocks another,
and a policy may let a job of one unit wait for better units while others are free, as long as it
would run on the highest-end platform, and at most S cluster seconds (300, production's default);
only `expected` does. R of Tarcil's policies grows with the load, as agents set it (T4). Measured
for the jobs of the second half: the speed relative to the same platforms without neighbours; the
speed from arrival to end relative to the highest-end platform (many units: to the fastest units of
the cluster); the share of jobs whose time from arrival to end is that of 0.95 of their speed alone
on units of median speed, or shorter; the speed that the neighbours of a job lose when it starts,
in jobs; and the wait from arrival to start. Means over the seeds with 90 % intervals, and the lead
of the default over each policy, seed by seed.

Stores the result unless it prints JSON: under the name N, or else as `policies`, with many units
as `policies-many`, with parameters (`expected:kept=0.5:width=0.05`) as `policies-parameters`, with
chosen policies as `policies-some`. `--update` replaces the runs of the chosen policies in the
stored result `policies`, or N, and computes its tables again; each run has the commit at which it
was measured. Loads and seeds run side by side, by default one process for each core and at most
eight; results do not depend on their number.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from apps.emulation.core.draws import ANALYTICS, BATCH, SINGLE_NODE
from apps.emulation.core.worlds import WORLDS, world_named
from apps.scheduling.core.patience import MAX_PATIENCE_S
from apps.scheduling.core.registry import (
    DEFAULT,
    POLICIES,
    PolicyParameterError,
    UnknownPolicyError,
    make,
)
from apps.scheduling.core.types import MAX_SAMPLE, Policy
from apps.testbed.core.demo_cluster import DemoCluster, demo_cluster, exact_request
from apps.testbed.core.offline import AgentSettings, JobArrival, OfflineRun
from apps.testbed.core.replay.model import Admission
from benchmarks._policy_measures import performances
from benchmarks._policy_tables import (
    PROFILES,
    PolicyRow,
    Run,
    as_json,
    nearest,
    runs_in,
    table,
)
from benchmarks._requests import profiled, shapes_of, with_profile
from benchmarks._results import RESULTS, Table, commit, load, markdown, store
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
MAX_PROCESSES: Final = 8  # unless options ask for more
# arguments that vary between the runs of a result, and their names in a run
KEYS: Final = {"world": "world", "profiles": "profiles", "policies": "policy"}
VARIED: Final = tuple(KEYS)
SETTINGS: Final = ("servers", "loads", "seeds", "units", "patience_s")  # the same for all of them
MANY: Final = ((1, 0.5), (2, 0.25), (4, 0.125), (8, 0.125))  # units of a job, and their chance

Figure = Mapping[str, Any]  # a run as it is stored


def arrivals(
    world: DemoCluster, load: float, rng: np.random.Generator, units: str = "one"
) -> list[JobArrival]:
    """Return Poisson arrivals of exponential work that would use ``load`` of the units.

    With many units, applications that run on one server only have one unit all the same.
    """
    kinds = (ANALYTICS, SINGLE_NODE, BATCH)
    library = [
        world.world.application_truth(
            CLUSTER_SEED, f"app{i}", kinds[i % 3], world.machines.platforms
        )
        for i in range(APPLICATIONS)
    ]
    mean_units = 1.0 if units == "one" else (1.0 + 2.0 * sum(k * p for k, p in MANY)) / 3.0
    busy = load * float(world.topology.server_units.sum()) / mean_units
    rate = busy * MEAN_SPEED / MEAN_WORK_S
    times = np.cumsum(rng.exponential(1.0 / rate, int(rate * HORIZON_S)))
    chosen = rng.integers(APPLICATIONS, size=times.size)
    work = rng.exponential(MEAN_WORK_S, times.size) + 5.0
    size = np.ones(times.size, dtype=np.int64)
    if units == "many":
        size = rng.choice([k for k, _ in MANY], times.size, p=[p for _, p in MANY])
        size[chosen % 3 == kinds.index(SINGLE_NODE)] = 1
    return [
        JobArrival(
            float(at),
            replace(exact_request(library[i], str(n), units=int(k)), gang=units == "many"),
            library[i],
            float(w * k),
        )
        for n, (at, i, w, k) in enumerate(zip(times, chosen, work, size, strict=True))
    ]


def row(world: DemoCluster, jobs: list[JobArrival], cell: "Cell", name: str) -> PolicyRow:
    """Run one policy on some jobs."""
    settings = AgentSettings(
        admission=Admission.SHAPES, patience_s=cell.patience_s, max_sample=MAX_SAMPLE
    )
    report = OfflineRun(world, policy_of(name), settings, cell.seed).run(jobs)
    reached = performances(world, jobs, report, HORIZON_S / 2.0)
    return PolicyRow(
        cell.load,
        name,
        float(reached.alone.mean()),
        float(np.quantile(reached.alone, 0.1)),
        float(np.quantile(reached.alone, 0.01)),
        float((reached.alone >= 0.95).mean()),
        float(reached.overall.mean()),
        float(reached.met.mean()),
        float(reached.lost.mean()),
        float(reached.waited_s.mean()),
        float(reached.waited_s.max()),
    )


class Profiler:
    """Profiles of applications as the live plan infers them; each is made once per seed."""

    def __init__(self, world: DemoCluster, servers: int) -> None:
        self.world = world
        self._library = offline_library(world)
        self._shapes = shapes_of(servers)
        self._known: dict[tuple[str, int], Profile] = {}

    def request(self, job: JobArrival, seed: int) -> JobArrival:
        """Return a job as the running system requests it, with its inferred profile."""
        key = (job.truth.name, seed)
        if key not in self._known:
            self._known[key] = profiled(job.truth, self._library, self._shapes, seed)
        return with_profile(job, self._known[key], lambda profile: profile.assumed_tolerance)


class Cell(NamedTuple):
    """Runs with the same jobs; loads and seeds of a world can run side by side."""

    world: str
    servers: int
    load: float
    seed: int
    units: str
    patience_s: float
    profiles: tuple[str, ...]
    policies: tuple[str, ...]

    def runs(self) -> list[Run]:
        """Run every policy, with every kind of profiles."""
        profiler = _profiler(self.world, self.servers)
        rng = np.random.default_rng(self.seed)
        exact = arrivals(profiler.world, self.load, rng, self.units)
        found = []
        for profiles in self.profiles:
            jobs = exact
            if profiles == "inferred":
                jobs = [profiler.request(job, self.seed) for job in exact]
            for name in self.policies:
                result = row(profiler.world, jobs, self, name)
                found.append(Run(self.world, profiles, self.seed, result))
        return found


@cache
def _profiler(world: str, servers: int) -> Profiler:
    return Profiler(demo_cluster(servers, CLUSTER_SEED, world_named(world)), servers)


def cells_of(options: argparse.Namespace) -> list[Cell]:
    """Return all cells in the order of their rows."""
    loads = map(float, options.loads.split(","))
    rest = options.units, options.patience_s, tuple(options.profiles), tuple(options.policies)
    return [
        Cell(world, options.servers, load, seed, *rest)
        for world, load, seed in product(options.world, loads, options.seeds)
    ]


def runs_of(options: argparse.Namespace) -> Iterator[Run]:
    """Run all cells, in at most the given number of processes."""
    cells = cells_of(options)
    processes = min(options.processes, len(cells))
    if processes == 1:
        for cell in cells:
            yield from cell.runs()
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for runs in pool.map(Cell.runs, cells):
            yield from runs


def numbers(text: str) -> list[int]:
    """Read seeds: ``5`` (1 to 5), ``2-4`` or ``1,3``.

    Raises
    ------
    ArgumentTypeError : not of these forms.
    """
    try:
        if "," in text:
            return [int(part) for part in text.split(",")]
        first, _, last = text.rpartition("-")
        return list(range(int(first or 1), int(last) + 1))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"seeds must be a number, a range as 1-5 or a list as 1,3, got {text!r}"
        ) from None


def names(text: str) -> list[str]:
    """Read policies, separated by commas; each a name, or `expected:kept=0.5:width=0.05`.

    Raises
    ------
    ArgumentTypeError : a policy or parameter does not exist, or a value is not accepted.
    """
    found = text.split(",")
    for each in found:
        try:
            policy_of(each)
        except (UnknownPolicyError, PolicyParameterError, ValueError) as error:
            raise argparse.ArgumentTypeError(f"{each!r}: {error}") from None
    return found


def policy_of(text: str) -> Policy:
    """Return a new instance of a policy with the parameters that follow its name.

    Raises
    ------
    UnknownPolicyError, PolicyParameterError : as `registry.make`.
    ValueError : a parameter has no number.
    """
    name, *parameters = text.split(":")
    pairs = [parameter.partition("=") for parameter in parameters]
    return make(name, {key: float(value) for key, _, value in pairs})


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Policies compared on the emulated cluster.")
    parser.add_argument("--servers", type=int, default=100)
    parser.add_argument("--loads", default="0.5,0.7,0.85,0.95")
    parser.add_argument("--seeds", type=numbers, default=numbers("5"), help="5, 1-5 or 1,3")
    parser.add_argument("--world", choices=list(WORLDS), help="default: all of them")
    parser.add_argument("--profiles", choices=list(PROFILES), help="default: all of them")
    parser.add_argument("--policies", type=names, default=list(POLICIES), help="default: all")
    parser.add_argument("--units", choices=("one", "many"), default="one", help="of a job")
    parser.add_argument(
        "--patience-s", type=float, default=MAX_PATIENCE_S, help="longest wait for better units"
    )
    cores = min(len(os.sched_getaffinity(0)), MAX_PROCESSES)
    parser.add_argument(
        "--processes", type=int, default=cores, help=f"side by side, 1.3 GB each; default: {cores}"
    )
    parser.add_argument("--json", action="store_true", help="print means; store nothing")
    parser.add_argument("--name", help="of the stored result; default: by the options")
    parser.add_argument(
        "--update", action="store_true", help="replace runs in the stored result `policies`"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    if options.processes < 1:
        parser.error(f"--processes must be 1 or more, got {options.processes}")
    if not options.patience_s >= 0.0:
        parser.error(f"--patience-s must be 0 or more, got {options.patience_s:g}")
    options.world = [options.world] if options.world else list(WORLDS)
    options.profiles = [options.profiles] if options.profiles else list(PROFILES)
    if options.update:
        if options.json:
            parser.error("--update and --json exclude each other: --json stores nothing")
        options.name = options.name or "policies"
        if problem := _update_problem(options):
            parser.error(f"--update: {problem}")
    return options


def _update_problem(options: argparse.Namespace) -> str:
    """Return why the stored result cannot be updated; empty if it can."""
    if not (options.results / f"{options.name}.json").exists():
        return f"there is no stored result {options.name}"
    stored = load(options.name, options.results)["arguments"]
    return ", ".join(
        f"{name} of the stored result is {stored.get(name)}, got {getattr(options, name)}"
        for name in SETTINGS
        if stored.get(name) != getattr(options, name)
    )


def result_name(policies: Sequence[str], units: str) -> str:
    """Return the name under which a comparison is stored."""
    if units == "many":
        return "policies-many"
    if any(":" in policy for policy in policies):
        return "policies-parameters"
    return "policies" if list(policies) == list(POLICIES) else "policies-some"


def main(argv: Sequence[str] | None = None) -> int:
    """Print and store the table."""
    options, measured = _options(argv), commit()
    runs: list[Run] = []
    for run in runs_of(options):
        runs.append(run)
        line = f"{run.world:<9} {run.profiles:<9} seed {run.seed}  {run.result}\n"
        (sys.stderr if options.json else sys.stdout).write(line)
    if options.json:
        sys.stdout.write(json.dumps(as_json(runs), indent=1, allow_nan=False) + "\n")
        return 0
    figures: list[Figure] = [
        {
            "world": run.world,
            "profiles": run.profiles,
            "seed": run.seed,
            **asdict(run.result),
            "commit": measured,
        }
        for run in runs
    ]
    chosen = {name: getattr(options, name) for name in (*VARIED, *SETTINGS)}
    name = options.name or result_name(options.policies, options.units)
    if options.update:
        figures, chosen = updated(load(name, options.results), figures, chosen)
    tables = tables_of(figures)
    store(name, arguments=chosen, figures=figures, tables=tables, folder=options.results)
    sys.stdout.write("\n\n".join(map(markdown, tables.values())) + "\n")
    return 0


def tables_of(figures: Sequence[Figure]) -> dict[str, Table]:
    """Return the tables of some runs: of all, and of those nearest to the default."""
    runs, policies = runs_in(figures), {figure["policy"] for figure in figures}
    tables = {"policies": table(runs)}
    if DEFAULT in policies and len(policies) > 1:
        tables["nearest"] = nearest(runs)
    return tables


def updated(
    stored: Mapping[str, Any], figures: Sequence[Figure], arguments: Mapping[str, Any]
) -> tuple[list[Figure], dict[str, Any]]:
    """Return the runs and arguments of a stored result in which some runs are replaced.

    They are in the order of cells. Each run has the commit at which it was measured.
    """
    known = stored["arguments"]
    joined = {name: list(dict.fromkeys([*known[name], *arguments[name]])) for name in VARIED}

    def place(figure: Figure) -> tuple[Any, ...]:
        world, profiles, policy = (joined[name].index(figure[KEYS[name]]) for name in VARIED)
        return world, figure["load"], figure["seed"], profiles, policy

    old = [{"commit": stored["commit"], **figure} for figure in stored["figures"]]
    found = {place(figure): figure for figure in (*old, *figures)}
    return [found[key] for key in sorted(found)], {**known, **joined}


if __name__ == "__main__":
    sys.exit(main())
