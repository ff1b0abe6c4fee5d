"""Real programs placed by Berth after real profiling, against random and least loaded.

    ./dev bench realmix [--rounds 12] [--minutes 2.5] [--parts DIR]

The servers are two cores of this machine with three units each. First `berth profile` measures the
four programs. In each round they arrive in a random order, the same for all policies; every policy
places them one by one, and they really run on the cores that it chose, again and again for some
seconds. The order of the policies rotates. The slowdown of a program is its time per run, relative
to running alone in the same round. Seconds in which other programs used more than 5 % of their
cores are repeated.

A call measures what its time allows; the next one continues, and the last one stores the result.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any, Final

import numpy as np

from apps.common.core.interference import SOURCES
from apps.execution.backends.profiler.counters import core_times, thread_times
from apps.inventory.core.snapshot import Topology
from apps.profiling.core.report_scores import report_scores
from apps.scheduling.core.cluster.in_memory_store import MemoryCluster
from apps.scheduling.core.contract import cluster
from apps.scheduling.core.registry import make_plain
from apps.scheduling.core.types import Placed, Request
from apps.testbed.core.comparison import Better, Comparison, Measure, RunTable, compare
from benchmarks._calibration import calibrate, calibration_line
from benchmarks._intervals import difference_text, mean_text
from benchmarks._programs import PROGRAMS, require, version, write_inputs
from benchmarks._results import RESULTS, Table, markdown, store
from benchmarks.real_profiling import measure

NAMES: Final = ("xz", "bzip2", "rsync", "pv")
POLICIES: Final = ("expected", "random", "least_loaded")
BASELINE: Final = "random"
UNITS: Final = 3  # of each core: a third stays free, so that the last program has a choice
SEED: Final = 16
MAX_FOREIGN: Final = 0.05  # share of the cores that the programs use
MAX_TRIES: Final = 6
ALONE_S: Final = 2.0
TOGETHER_S: Final = 5.0
PROFILE: Final = (
    "--window", "0.3",
    "--sources", "shared_core,llc_capacity,memory_bandwidth",
)  # fmt: skip
PARTS: Final = Path(tempfile.gettempdir()) / "berth-realmix"

Cores = dict[str, int]  # core of each program
Slowdowns = dict[str, float]  # of each program


def main() -> int:
    """Measure what is missing; store the tables once nothing is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--minutes", type=float, default=2.5, help="begin nothing after them")
    parser.add_argument("--parts", type=Path, default=PARTS, help="folder of reports and inputs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result")
    options = parser.parse_args()
    require(NAMES)
    before_ms = calibrate()
    until_s = time.monotonic() + 60.0 * options.minutes
    folder = options.parts / "inputs"
    if not folder.exists():
        write_inputs(folder)
    todo = missing_parts(options.parts, options.rounds)
    while todo and time.monotonic() < until_s:
        path = todo.pop(0)
        _say(path.stem)
        if path.stem in NAMES:
            measure(PROGRAMS[path.stem].command(), options.parts, path, PROFILE)
        else:
            path.write_text(json.dumps(round_of(int(path.stem), options.parts)))
    if todo:
        _say(f"{len(todo)} parts are missing: run it again")
        return 1
    _store(options, calibration_line(before_ms, calibrate()))
    return 0


def missing_parts(folder: Path, rounds: int) -> list[Path]:
    """Return the files that are missing: profiles first, then rounds."""
    names = (*NAMES, *(f"{number:02d}" for number in range(rounds)))
    return [path for name in names if not (path := folder / f"{name}.json").exists()]


def requests(folder: Path) -> dict[str, Request]:
    """Return the request of each program from its report."""
    found = {}
    for name in NAMES:
        scores = report_scores(json.loads((folder / f"{name}.json").read_text()))
        found[name] = Request(
            job=name, units=1, caused=scores.caused, tolerated=scores.tolerated
        )  # fmt: skip
    return found


def topology() -> Topology:
    """Return two cores as servers of one platform."""
    cores = cluster((UNITS, UNITS), racks=1)
    return replace(cores, server_platform=np.zeros(2, dtype=np.int32))


def place(policy: str, arriving: Sequence[Request], rng: np.random.Generator) -> Cores:
    """Place programs one by one; return the core of each."""
    servers, chosen = MemoryCluster(topology()), {}
    for request in arriving:
        (outcome,) = make_plain(policy).place(servers.snapshot(), [request], rng)
        if not isinstance(outcome, Placed):
            raise SystemExit(f"{policy} refused {request.job}: {outcome.reason}")
        servers.commit(outcome, request)
        chosen[request.job] = int(servers.topology.unit_server[outcome.units[0]])
    return chosen


def round_of(number: int, folder: Path) -> dict[str, Any]:
    """Run one round; return the slowdowns by policy and program, and the pairs that shared."""
    rng = np.random.default_rng([SEED, number])
    known = requests(folder)
    arriving = [known[name] for name in rng.permutation(NAMES)]
    usable = sorted(os.sched_getaffinity(0))[-2:]
    if len(usable) < 2:
        raise SystemExit("needs two cores")
    alone = {
        name: run_undisturbed({name: usable[1]}, folder, ALONE_S)[name] for name in NAMES
    }  # fmt: skip
    turn = number % len(POLICIES)
    result: dict[str, Any] = {"slowdown": {}, "together": {}}
    for policy in (*POLICIES[turn:], *POLICIES[:turn]):
        cores = {
            name: usable[core] for name, core in place(policy, arriving, rng.spawn(1)[0]).items()
        }
        times = run_undisturbed(cores, folder, TOGETHER_S)
        result["slowdown"][policy] = {name: times[name] / alone[name] for name in NAMES}
        result["together"][policy] = partner_of(cores)
    return result


def partner_of(cores: Cores) -> str:
    """Return the programs that share a core with the first one: they name the placement."""
    return "+".join(name for name in NAMES if cores[name] == cores[NAMES[0]])


def run_undisturbed(cores: Cores, folder: Path, seconds: float) -> Slowdowns:
    """Run programs until other programs leave them the cores; return the seconds per run."""
    cpus = frozenset(cores.values())
    with fillers(cpus) as filling:
        for _ in range(MAX_TRIES):
            before, own_s, begun_s = core_times(cpus), _own_s(filling), time.monotonic()
            times = run_together(cores, folder, seconds)
            after, wall_s = core_times(cpus), time.monotonic() - begun_s
            foreign_s = after.busy_s - before.busy_s - (_own_s(filling) - own_s)
            foreign_s += after.steal_s - before.steal_s
            if foreign_s <= MAX_FOREIGN * wall_s * len(cpus):
                return times
            _say(f"repeated: others used {foreign_s / wall_s / len(cpus):.0%} of the cores")
    raise SystemExit("other programs use this machine: run it again later")


@contextmanager
def fillers(cpus: frozenset[int]) -> Iterator[list[int]]:
    """Use the idle time of cores in SCHED_IDLE, so that no other program does; yield the pids."""
    spin = (sys.executable, "-I", "-S", "-c", "while True: pass")
    processes = []
    for cpu in cpus:
        process = subprocess.Popen(spin)  # noqa: S603 - our own program
        processes.append(process)
        os.sched_setaffinity(process.pid, {cpu})
        os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
    try:
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _own_s(filling: Sequence[int]) -> float:
    """Return the CPU seconds of this process, of ended programs and of the fillers."""
    times = os.times()
    ended_s = times.user + times.system + times.children_user + times.children_system
    return ended_s + sum(thread_times(pid).ran_s for pid in filling)


def run_together(cores: Cores, folder: Path, seconds: float) -> Slowdowns:
    """Run programs on their cores again and again; return the seconds per run of each.

    All run until the time is over, so that no program is alone before the others end.
    """
    with ThreadPoolExecutor(len(cores)) as pool:
        until_s = time.monotonic() + seconds
        running = {
            name: pool.submit(_repeat, name, core, folder, until_s) for name, core in cores.items()
        }
        return {name: each.result() for name, each in running.items()}


def _repeat(name: str, core: int, folder: Path, until_s: float) -> float:
    """Run one program on a core until a time; return the mean seconds of the complete runs."""
    taskset = ("taskset", "--cpu-list", str(core), *PROGRAMS[name].command())
    began_s, ended_s, runs = time.monotonic(), 0.0, 0
    while True:
        process = subprocess.Popen(  # noqa: S603 - a program of this benchmark
            taskset, cwd=folder / "inputs", env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        # not wait(timeout), which polls every 50 ms
        end = Timer(max(0.0, until_s - time.monotonic()), process.kill)
        end.start()
        code = process.wait()
        end.cancel()
        if time.monotonic() >= until_s:
            break
        if code != 0:
            raise SystemExit(f"{name} ended with {code}")
        runs, ended_s = runs + 1, time.monotonic()
    if not runs:
        raise SystemExit(f"{name} finished no run")
    return (ended_s - began_s) / runs


def table_of_slowdowns(rounds: Sequence[Mapping[str, Any]]) -> Comparison:
    """Compare the policies; the rounds are the independent units."""
    measures = (
        Measure("mean", "mean of the four", "", Better.LOWER),
        Measure("worst", "slowest of the four", "", Better.LOWER),
        *(Measure(name, name, "", Better.LOWER) for name in NAMES),
    )
    values = np.array(
        [[_values(found["slowdown"][policy]) for found in rounds] for policy in POLICIES]
    )
    table = RunTable(POLICIES, tuple(range(len(rounds))), measures, values)
    return compare(table, baseline=BASELINE, rng=np.random.default_rng(SEED))


def _values(slowdown: Slowdowns) -> list[float]:
    each = [slowdown[name] for name in NAMES]
    return [float(np.mean(each)), max(each), *each]


def means(found: Comparison) -> Table:
    """Return the mean slowdowns with their 90 % intervals."""
    table = [["policy", *(each.label for each in found.measures)]]
    for policy in POLICIES:
        cells = [mean_text(found.means[policy, each.key]) for each in found.measures]
        table.append([f"`{policy}`", *cells])
    return table


def differences(found: Comparison) -> Table:
    """Return the differences to random placement; bold: the interval excludes 0."""
    table = [["policy", *(each.label for each in found.measures)]]
    for policy in POLICIES:
        if policy != BASELINE:
            cells = [
                difference_text(found.difference(policy, each.key), 2) for each in found.measures
            ]
            table.append([f"`{policy}`", *cells])
    return table


def placements(rounds: Sequence[Mapping[str, Any]]) -> Table:
    """Return how often each policy chose each placement."""
    counts = {
        policy: Counter(found["together"][policy] for found in rounds) for policy in POLICIES
    }
    chosen = sorted({each for count in counts.values() for each in count})
    table = [["on one core", *(f"`{policy}`" for policy in POLICIES)]]
    return table + [[each, *(str(counts[policy][each]) for policy in POLICIES)] for each in chosen]


def profiles(folder: Path) -> Table:
    """Return what each program tolerates and causes, for the sources that were pressed."""
    names = ("core", "llc_capacity", "memory_bandwidth")
    table = [["program", *(f"{name}: tolerates / causes" for name in names)]]
    for program in NAMES:
        scores = report_scores(json.loads((folder / f"{program}.json").read_text()))
        cells = []
        for name in names:
            place_of = SOURCES.index(name)
            tolerated = "?" if name in scores.unknown else f"{scores.tolerated[place_of]:.0f}"
            cells.append(f"{tolerated} / {scores.caused[place_of]:.0f}")
        table.append([program, *cells])
    return table


def _store(options: argparse.Namespace, calibration: str) -> None:
    rounds = [
        json.loads((options.parts / f"{number:02d}.json").read_text())
        for number in range(options.rounds)
    ]
    found = table_of_slowdowns(rounds)
    tables = {
        "profiles": profiles(options.parts),
        "slowdowns": means(found),
        "differences": differences(found),
        "placements": placements(rounds),
    }
    for table in tables.values():
        _say(markdown(table) + "\n")
    versions = [f"{name}: {version(PROGRAMS[name].package)}" for name in NAMES]
    store("realmix", arguments={"rounds": options.rounds, "alone_s": ALONE_S,
                                "together_s": TOGETHER_S},
          figures=[*versions, calibration], tables=tables, folder=options.results)  # fmt: skip


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
