"""Speed of the reservation engine, beside a plain heap and SimPy on the same model.

An event is the submission or the end of a task. The synthetic workload resembles the Google trace:
skewed job sizes and run times, three kinds of machines, 5.5 % of jobs with a constraint; the
scheduler knows machines by heartbeats. Each engine runs in turn; processor time is compared. With
the data of the Google trace, its first hour is run at task level; with a batch log, the queue
disciplines are compared at several loads.

    ./dev bench testbed --tasks 400000 --machines 6000,12500 --rounds 3
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from apps.testbed.core.batch.pool import Discipline, run_pool
from apps.testbed.core.google_tasks import (
    GoogleTasks,
    draw_constraints,
    subset_of_machines,
)
from apps.testbed.core.reservation.model import (
    SCHEDULERS,
    RunResult,
    Scheduler,
    Workload,
)
from apps.testbed.core.reservation.run import run_reservation
from apps.testbed.core.reservation.synthetic import synthetic
from apps.testbed.core.swf import at_load
from apps.testbed.files import read_google_tasks, read_swf
from benchmarks._calibration import calibrate, calibration_line
from benchmarks._interference import measure
from benchmarks._replay_peers import PlainCluster, run_heapq, run_simpy
from benchmarks._results import RESULTS, Table, markdown, store

TEN_TRIES: Final = "`ten_tries`"
CHECK_ALL: Final = "`check_all`"
HEAP: Final = "`ten_tries` on a plain heap"
SIMPY: Final = "`ten_tries` on SimPy"
GOALS: Final = {SIMPY: 50.0, HEAP: 8.0}
HOUR_S: Final = 3000.0  # of the trace after its start at 600 s
CHECK_ALL_GOAL: Final = 3.0  # times the processor time of ten_tries
HOUR_GOAL_S: Final = 2.0
THESIS_FAILED: Final = {0.1: 5.23, 5.0: 8.86, 50.0: 13.54, 500.0: 15.35}
PEER_TASKS: Final = 100_000  # of the slow peers; the rate is compared


def main() -> int:
    """Run the benchmark; return 0 if every goal is met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=400_000)
    parser.add_argument("--machines", default="6000,12500")
    parser.add_argument("--load", type=float, default=0.8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--google", type=Path, help="folder with the tables of the Google trace")
    parser.add_argument(
        "--interference", action="store_true", help="only the engine with interference"
    )
    parser.add_argument("--swim", type=Path, help="SWIM trace, replayed with --interference")
    parser.add_argument("--swf", type=Path, help="log in the Standard Workload Format")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result")
    options = parser.parse_args()
    before_ms = calibrate()
    if options.interference:
        return _interference(options)
    counts = [int(machines) for machines in options.machines.split(",")]
    met, tables = _compare(counts, options.tasks, options.load, options.rounds)
    if options.google:
        trace = draw_constraints(read_google_tasks(options.google), np.random.default_rng(1))
        met &= _google_hour(trace, options.rounds, tables)
        _heartbeats(trace, tables)
        _path_limits(trace, tables)
    if options.swf:
        _backfill(options.swf, tables)
    for table in tables.values():
        _say(f"\n{markdown(table)}")
    _say(calibration_line(before_ms, calibrate()))
    chosen = {"tasks": options.tasks, "machines": counts, "rounds": options.rounds}
    store("testbed", arguments=chosen, figures=[], tables=tables, folder=options.results)
    return 0 if met else 1


def _interference(options: argparse.Namespace) -> int:
    """Measure the engine with interference; stored apart from the other results."""
    before_ms = calibrate()
    tables, goals = measure(options.swim, options.rounds)
    for table in tables.values():
        _say(f"\n{markdown(table)}")
    for text, is_met in goals:
        _say(f"{text}: {'met' if is_met else 'MISSED'}")
    _say(calibration_line(before_ms, calibrate()))
    chosen = {"rounds": options.rounds, "swim": options.swim and options.swim.name}
    name = "testbed_interference"
    store(name, arguments=chosen, figures=[], tables=tables, folder=options.results)
    return 0 if all(is_met for _, is_met in goals) else 1


def _compare(
    counts: Sequence[int], tasks: int, load: float, rounds: int
) -> tuple[bool, dict[str, Table]]:
    """Compare the engines on clusters of several sizes; whether the goals are met."""
    rates = {machines: _rates(machines, tasks, load, rounds) for machines in counts}
    table = [["engine", *(f"{machines:,} machines" for machines in counts)]]
    table += [
        [name, *(f"{rates[machines][name] / 1e6:.3f} M" for machines in counts)]
        for name in next(iter(rates.values()))
    ]
    met = True
    for machines, rate in rates.items():
        for name, goal in GOALS.items():
            ratio = rate[TEN_TRIES] / rate[name]
            text = f"{machines:,} machines, {TEN_TRIES} / {name}: {ratio:.1f}"
            met &= _goal(text, is_met=ratio >= goal, goal=f"{goal:g}")
        ratio = rate[TEN_TRIES] / rate[CHECK_ALL]
        text = f"{machines:,} machines, time of {CHECK_ALL} / {TEN_TRIES}: {ratio:.2f}"
        met &= _goal(text, is_met=ratio <= CHECK_ALL_GOAL, goal=f"{CHECK_ALL_GOAL:g}")
    return met, {"speed": table}


def _rates(machines: int, tasks: int, load: float, rounds: int) -> dict[str, float]:
    """Events per second of processor time of each engine."""
    workload, cluster = synthetic(tasks, machines, load, np.random.default_rng(1))
    small, same = synthetic(PEER_TASKS, machines, load, np.random.default_rng(1))
    scheduler = Scheduler(path_limit=0)
    everything = Scheduler(SCHEDULERS["check_all"].algorithm, path_limit=0)

    def ours(chosen: Scheduler) -> Callable[[], int]:
        return lambda: run_reservation(workload, cluster, chosen, seed=1).events

    def peer(run: Callable[[PlainCluster], None]) -> Callable[[], int]:
        def act() -> int:
            plain = PlainCluster(small, same, scheduler)
            run(plain)
            return plain.events

        return act

    return _in_turn(
        {
            TEN_TRIES: ours(scheduler),
            CHECK_ALL: ours(everything),
            HEAP: peer(run_heapq),
            SIMPY: peer(run_simpy),
        },
        rounds,
    )


def _in_turn(runs: dict[str, Callable[[], int]], rounds: int) -> dict[str, float]:
    """Median events per second of processor time of each, after a first run of our own."""
    measured: dict[str, list[float]] = {name: [] for name in runs}
    for name in (TEN_TRIES, CHECK_ALL):
        runs[name]()
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.process_time()
            events = run()
            measured[name].append(events / (time.process_time() - began))
    return {name: median(rates) for name, rates in measured.items()}


def _google_hour(trace: GoogleTasks, rounds: int, tables: dict[str, Table]) -> bool:
    """Run the first hour of the Google trace on several numbers of machines."""
    for note in trace.notes:
        _say(f"Google 2011: {note}")
    everywhere = int((trace.machines.cpu > 0).sum())
    table = [["machines", *(f"`{name}`" for name in SCHEDULERS)]]
    met = True
    for count in (everywhere, 11_000, 9_000):
        part = subset_of_machines(trace, count, np.random.default_rng(2))
        row = [f"{count:,}"]
        for name, scheduler in SCHEDULERS.items():
            failed, seconds = _hour(scheduler, part, rounds)
            row.append(f"{failed:.2f} %, {seconds:.3f} s")
            if name == "ten_tries":
                text = f"{count:,} machines, {name}: {seconds:.3f} s"
                met &= _goal(text, is_met=seconds <= HOUR_GOAL_S, goal=f"{HOUR_GOAL_S:g} s")
        table.append(row)
    tables["google"] = table
    return met


def _hour(scheduler: Scheduler, part: GoogleTasks, rounds: int) -> tuple[float, float]:
    """Percentage of failed jobs, and median processor time."""
    times = []
    for _ in range(rounds + 1):  # the first may compile
        began = time.process_time()
        result = run_reservation(part.workload, part.machines, scheduler, seed=1, until_s=HOUR_S)
        times.append(time.process_time() - began)
    return _failed(result, part.workload), median(times[1:])


def _failed(result: RunResult, workload: Workload) -> float:
    return 100.0 * result.failed_jobs(workload) / workload.jobs


def _heartbeats(trace: GoogleTasks, tables: dict[str, Table]) -> None:
    """Measure failures by the interval of heartbeats (Khaneja 2015, table 4.1), five seeds."""
    table = [["heartbeat", "failed jobs", "thesis, 6,000 machines"]]
    for heartbeat_s, published in THESIS_FAILED.items():
        scheduler = Scheduler(heartbeat_s=heartbeat_s)
        runs = [
            run_reservation(trace.workload, trace.machines, scheduler, seed=seed, until_s=HOUR_S)
            for seed in range(1, 6)
        ]
        failed = [_failed(run, trace.workload) for run in runs]
        shown = f"{median(failed):.2f} % ({min(failed):.2f} to {max(failed):.2f})"
        table.append([f"{heartbeat_s:g} s", shown, f"{published:.2f} %"])
    tables["heartbeats"] = table


def _path_limits(trace: GoogleTasks, tables: dict[str, Table]) -> None:
    """Measure scheduling delays by the number of jobs decided at once (Khaneja 2015, fig. 4.3)."""
    table = [["path limit", "45 % of jobs", "90 %", "99 %"]]
    for limit in (1, 3, 100, 0):
        result = run_reservation(
            trace.workload, trace.machines, Scheduler(path_limit=limit), seed=1, until_s=HOUR_S
        )
        delays = np.nanquantile(result.delay_s[trace.jobs_at_start :], [0.45, 0.9, 0.99])
        table.append([str(limit or "none"), *(f"{1e3 * delay:,.0f} ms" for delay in delays)])
    tables["paths"] = table


def _backfill(path: Path, tables: dict[str, Table]) -> None:
    """Measure mean waits and bounded slowdowns of the queue disciplines at several loads."""
    trace = read_swf(path)
    for note in trace.notes:
        _say(f"{path.name}: {note}")
    table = [["load", *(kind.value for kind in Discipline)]]
    for load in (0.5, 0.6, 0.7, 0.8):
        jobs = at_load(trace.jobs, trace.processors, load)
        runs = [run_pool(jobs, trace.processors, kind) for kind in Discipline]
        cells = [f"{run.wait_s.mean():,.0f} s, {run.bounded_slowdown.mean():,.1f}" for run in runs]
        table.append([f"{load:g}", *cells])
    tables["backfill"] = table


def _goal(text: str, *, is_met: bool, goal: str) -> bool:
    _say(f"{text} (goal {goal}: {'met' if is_met else 'MISSED'})")
    return is_met


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
