"""Khaneja's thesis (2015, chapter 4) on the first hour of Google 2011 at task level."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from apps.testbed.core.google_tasks import GoogleTasks, draw_constraints
from apps.testbed.core.reproduction.figures import DataSets, Figure, Paper, Quantity, Relation
from apps.testbed.core.reservation.model import SCHEDULERS, RunResult, Scheduler
from apps.testbed.core.reservation.run import run_reservation
from apps.testbed.core.traces import Floats

HOUR_S: Final = 3000.0  # of the trace after its start at 600 s
HEARTBEATS: Final = {0.1: 5.23, 5.0: 8.86, 50.0: 13.54, 500.0: 15.35}
ALGORITHMS: Final = {"random_blind": 18.60, "ten_tries": 5.23, "check_all": 11.14}
SHORT_S: Final = 0.03  # "a very small delay": a message each way and 10 ms
MACHINES: Final = (
    "The thesis has 6,000 machines and its own part of the trace; here all machines of the first "
    "hour run, with constraints drawn at random."
)
CONTENTION: Final = (
    "The thesis explains its order by contention between concurrent requests. Here a rejected "
    "task is decided again up to 1,000 times, so contention costs time but no job."
)
MESSAGE: Final = "A message takes 10 ms each way here, which is taken from figure 4.8."


def _hour(data: DataSets, seed: int) -> GoogleTasks:
    return draw_constraints(data.google_hour(), np.random.default_rng(seed))


def _run(trace: GoogleTasks, scheduler: Scheduler, seed: int) -> RunResult:
    return run_reservation(trace.workload, trace.machines, scheduler, seed=seed, until_s=HOUR_S)


def _failed(trace: GoogleTasks, scheduler: Scheduler, seed: int) -> float:
    """Percent of jobs of which a task was given up."""
    result = _run(trace, scheduler, seed)
    return 100.0 * result.failed_jobs(trace.workload) / trace.workload.jobs


def _delays(trace: GoogleTasks, path_limit: int, seed: int) -> Floats:
    result = _run(trace, Scheduler(path_limit=path_limit), seed)
    delay = result.delay_s[trace.jobs_at_start :]
    return delay[np.isfinite(delay)]


def _by_heartbeat(seed: int, data: DataSets) -> Mapping[str, float]:
    trace = _hour(data, seed)
    return {
        f"{interval:g}": _failed(trace, replace(Scheduler(), heartbeat_s=interval), seed)
        for interval in HEARTBEATS
    }


def _by_algorithm(seed: int, data: DataSets) -> Mapping[str, float]:
    trace = _hour(data, seed)
    return {name: _failed(trace, SCHEDULERS[name], seed) for name in ALGORITHMS}


def _by_path_limit(seed: int, data: DataSets) -> Mapping[str, float]:
    trace = _hour(data, seed)
    delay = {limit: _delays(trace, limit, seed) for limit in (1, 3, 100)}
    return {
        "short": 100.0 * float((delay[1] <= SHORT_S).mean()),
        **{f"p90-{limit}": 1e3 * float(np.quantile(delay[limit], 0.9)) for limit in delay},
    }


def _delay(seed: int, data: DataSets) -> Mapping[str, float]:
    delay = _delays(_hour(data, seed), 100, seed)
    return {"below": 100.0 * float((delay < 0.1).mean())}


THESIS: Final = Paper(
    "thesis",
    "Khaneja, thesis, University of Illinois, 2015",
    (
        Figure(
            "table-4.1",
            "Failed jobs by the interval of heartbeats",
            tuple(
                Quantity(f"{interval:g}", f"failed jobs, heartbeat {interval:g} s", "%", failed,
                         rounding=0.005, why=MACHINES)
                for interval, failed in HEARTBEATS.items()
            ),
            _by_heartbeat,
            data=("google_2011",),
        ),
        Figure(
            "table-4.2",
            "Failed jobs by scheduling algorithm",
            tuple(
                Quantity(name, f"failed jobs, {name}", "%", failed, rounding=0.005,
                         why=CONTENTION if name == "check_all" else MACHINES)
                for name, failed in ALGORITHMS.items()
            ),
            _by_algorithm,
            data=("google_2011",),
        ),
        Figure(
            "4.3",
            "Scheduling delay of jobs by path limit",
            (
                Quantity("short", f"jobs with a delay of at most {1e3 * SHORT_S:g} ms, limit 1",
                         "%", 45.0, rounding=5.0,
                         why="The thesis says 'about 45 %' and 'very small'; the limit in "
                         "milliseconds is ours."),
                *(
                    Quantity(f"p90-{limit}", f"delay, 90 % of jobs, path limit {limit}",
                             "ms", relation=Relation.NOT_STATED)
                    for limit in (1, 3, 100)
                ),
            ),
            _by_path_limit,
            data=("google_2011",),
        ),
        Figure(
            "4.7",
            "Scheduling delay of jobs",
            (
                Quantity("below", "jobs with a delay below 100 ms", "%", 90.0, rounding=0.5,
                         why=f"{MESSAGE} Nothing else delays a job unless it is rejected."),
            ),
            _delay,
            data=("google_2011",),
        ),
    ),
)  # fmt: skip
