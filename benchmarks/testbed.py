"""Speed of the reservation engine, beside a plain heap and SimPy on the same model.

An event is the submission or the end of a task. The synthetic workload resembles the Google trace:
skewed job sizes and run times, three kinds of machines, 5.5 % of jobs with a constraint; the
scheduler knows machines by heartbeats. Each engine runs in turn; processor time is compared. With
the data of the Google trace, its first hour is run at task level.

    ./dev bench testbed --tasks 400000 --machines 6000,12500 --rounds 3
"""

import argparse
import gzip
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from apps.testbed.core.google import read_task_events
from apps.testbed.core.google_tasks import (
    CONSTRAINED,
    KINDS,
    GoogleTasks,
    draw_constraints,
    google_tasks,
    read_machine_events,
    subset_of_machines,
)
from apps.testbed.core.reservation.model import (
    NOWHERE,
    SCALE,
    SCHEDULERS,
    Machines,
    Scheduler,
    Workload,
)
from apps.testbed.core.reservation.run import run_reservation
from benchmarks._calibration import calibrate, calibration_line
from benchmarks._replay_peers import PlainCluster, run_heapq, run_simpy

GOALS: Final = {"SimPy": 50.0, "heapq": 8.0}
CHECK_ALL_GOAL: Final = 3.0  # times the processor time of ten_tries
HOUR_GOAL_S: Final = 2.0
PEER_TASKS: Final = 100_000  # of the slow peers; the rate is compared


def main() -> int:
    """Run the benchmark; return 0 if every goal is met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=400_000)
    parser.add_argument("--machines", default="6000,12500")
    parser.add_argument("--load", type=float, default=0.8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--google", type=Path, help="folder with the tables of the Google trace")
    options = parser.parse_args()
    before_ms = calibrate()
    met = [
        _compare(int(machines), options.tasks, options.load, options.rounds)
        for machines in options.machines.split(",")
    ]
    if options.google:
        met.append(_google_hour(options.google, options.rounds))
    else:
        _say("Google 2011: not run (--google FOLDER)")
    _say(calibration_line(before_ms, calibrate()))
    return 0 if all(met) else 1


def synthetic(
    tasks: int, machines: int, load: float, rng: np.random.Generator
) -> tuple[Workload, Machines]:
    """Draw a workload that keeps a share ``load`` of the cores busy."""
    jobs = max(1, tasks // 4)
    sizes = rng.geometric(0.5, jobs) + np.where(
        rng.random(jobs) < 0.02, rng.integers(0, 200, jobs), 0
    )
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    cpu = np.repeat(rng.choice([0.0125, 0.025, 0.0625, 0.125], jobs), sizes)
    memory = np.repeat(rng.uniform(0.005, 0.1, jobs), sizes)
    seconds = rng.lognormal(5.0, 1.2, cpu.size)
    cores = rng.choice([0.25, 0.5, 1.0], machines, p=[0.01, 0.93, 0.06])
    kinds = np.where(rng.random(jobs) < CONSTRAINED, 1 << rng.integers(0, KINDS, jobs), 0)
    has = rng.random((machines, KINDS)) < 0.5
    span_s = float((cpu * seconds).sum() / (cores.sum() * load))
    workload = Workload(
        submit_s=np.sort(rng.uniform(0.0, span_s, jobs)),
        first_task=first,
        cpu=np.rint(cpu * SCALE).astype(np.int64),
        memory=np.rint(memory * SCALE).astype(np.int64),
        seconds=seconds,
        needs=np.repeat(kinds, sizes).astype(np.int64),
        machine=np.full(cpu.size, NOWHERE),
    )
    return workload, Machines(
        cpu=np.rint(cores * SCALE).astype(np.int64),
        memory=np.rint(rng.choice([0.25, 0.5, 0.75, 1.0], machines) * SCALE).astype(np.int64),
        attributes=(has.astype(np.int64) << np.arange(KINDS)).sum(axis=1),
    )


def _compare(machines: int, tasks: int, load: float, rounds: int) -> bool:
    """Print the rates of the three engines on one cluster; whether the goals are met."""
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

    rates = _in_turn(
        {
            "ten_tries": ours(scheduler),
            "check_all": ours(everything),
            "heapq": peer(run_heapq),
            "SimPy": peer(run_simpy),
        },
        rounds,
    )
    _say(f"{machines:,} machines, {workload.tasks:,} tasks, load {load:g}")
    for name, rate in rates.items():
        _say(f"  {name:<10} {rate / 1e6:8.3f} M events/s")
    met = True
    for name, goal in GOALS.items():
        ratio = rates["ten_tries"] / rates[name]
        met &= _goal(f"  ten_tries / {name}: {ratio:.1f}", is_met=ratio >= goal, goal=f"{goal:g}")
    ratio = rates["ten_tries"] / rates["check_all"]
    text = f"  time of check_all / ten_tries: {ratio:.2f}"
    return met & _goal(text, is_met=ratio <= CHECK_ALL_GOAL, goal=f"{CHECK_ALL_GOAL:g}")


def _in_turn(runs: dict[str, Callable[[], int]], rounds: int) -> dict[str, float]:
    """Median events per second of processor time of each, after a first run of our own."""
    measured: dict[str, list[float]] = {name: [] for name in runs}
    for name in ("ten_tries", "check_all"):
        runs[name]()
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.process_time()
            events = run()
            measured[name].append(events / (time.process_time() - began))
    return {name: median(rates) for name, rates in measured.items()}


def _google_hour(folder: Path, rounds: int) -> bool:
    """Print the first hour of the Google trace at several numbers of machines."""
    trace = draw_constraints(read_google(folder), np.random.default_rng(1))
    for note in trace.notes:
        _say(f"Google 2011: {note}")
    everywhere = int((trace.machines.cpu > 0).sum())
    met = True
    for count in (everywhere, 11_000, 9_000):
        part = subset_of_machines(trace, count, np.random.default_rng(2))
        for name, scheduler in SCHEDULERS.items():
            met &= _hour(name, scheduler, part, rounds)
    return met


def _hour(name: str, scheduler: Scheduler, part: GoogleTasks, rounds: int) -> bool:
    times = []
    for _ in range(rounds + 1):  # the first may compile
        began = time.process_time()
        result = run_reservation(part.workload, part.machines, scheduler, seed=1, until_s=3000.0)
        times.append(time.process_time() - began)
    failed = result.failed_jobs(part.workload) / part.workload.jobs
    line = (
        f"  {len(part.machines):,} machines {name:<12} {median(times[1:]):6.3f} s,"
        f" {100.0 * failed:5.2f} % of jobs failed, cores {100.0 * result.busy_cpu[-1]:.0f} % used"
    )
    if name != "ten_tries":
        _say(line)
        return True
    return _goal(line, is_met=median(times[1:]) <= HOUR_GOAL_S, goal=f"{HOUR_GOAL_S:g} s")


def read_google(folder: Path) -> GoogleTasks:
    """Read `task_events.csv.gz` and `machine_events.csv.gz` of a folder."""
    tasks, machines = folder / "task_events.csv.gz", folder / "machine_events.csv.gz"
    task_rows, machine_rows = _rows(tasks), _rows(machines)
    return google_tasks(
        read_task_events(next(task_rows), task_rows, str(tasks)),
        read_machine_events(next(machine_rows), machine_rows, str(machines)),
        str(tasks),
    )


def _rows(path: Path) -> Iterator[tuple[int, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            yield number, line.rstrip("\r\n")


def _goal(text: str, *, is_met: bool, goal: str) -> bool:
    _say(f"{text} (goal {goal}: {'met' if is_met else 'MISSED'})")
    return is_met


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
