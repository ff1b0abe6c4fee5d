"""Live emulated nodes: their cost, scheduling delays, failures by heartbeat, and fidelity.

The nodes are a process of their own, each with its own connection over a Unix socket. Without
`--google` only the parts that need no trace run.

    ./dev bench nodes --google FOLDER
"""

import argparse
import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from apps.testbed.core.google_tasks import GoogleTasks, draw_constraints, subset_of_machines
from apps.testbed.core.live.cases import arrivals, at_most_full, at_speed, fixed, until
from apps.testbed.core.live.fidelity import Fidelity, fidelity
from apps.testbed.core.reservation.model import (
    NOWHERE,
    SCALE,
    SCHEDULERS,
    Machines,
    Scheduler,
    Workload,
)
from apps.testbed.core.reservation.run import run_reservation
from apps.testbed.core.reservation.synthetic import synthetic
from apps.testbed.files import read_google_tasks
from apps.testbed.infrastructure.emulator_process import LiveOutcome, run_with_emulator
from apps.testbed.infrastructure.live_nodes import LiveCase
from benchmarks._calibration import calibrate, calibration_line
from benchmarks._results import RESULTS, Table, markdown, store

NODES: Final = 6000
HOUR_S: Final = 3000.0  # of the trace after its start at 600 s
IDLE: Final = ((6000, 1.0), (6000, 5.0), (6000, 10.0), (15_000, 5.0), (15_000, 10.0))
IDLE_GOALS: Final = {6000: 0.10, 15_000: 0.25}
IDLE_GOAL_FROM_S: Final = 5.0
SPEEDS: Final = (100.0, 200.0, 400.0, 800.0)
DELAY_GOAL_MS: Final = 100.0
HEARTBEATS: Final = (0.5, 5.0, 50.0, 500.0)
HEARTBEAT_SPEED: Final = 200.0
VERIFIED: Final = (38, 1444)  # nodes of the thesis' verification
VERIFY_S: Final = 20.0
VERIFY_TASKS: Final = 12_000
NETWORK: Final = {"network_s": 0.02, "network_spread": 1.0}
DISTANCE_GOAL: Final = 0.1


def main() -> int:
    """Run the benchmark; return 0 if every goal is met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--google", type=Path, help="folder with the tables of the Google trace")
    parser.add_argument("--idle-s", type=float, default=10.0, help="seconds of a measurement")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result")
    options = parser.parse_args()
    before_ms = calibrate()
    tables: dict[str, Table] = {}
    met = _idle(options.idle_s, tables)
    met &= _verify(tables)
    if options.google:
        trace = draw_constraints(read_google_tasks(options.google), np.random.default_rng(1))
        part = subset_of_machines(trace, NODES, np.random.default_rng(2))
        met &= _speeds(part, tables)
        _heartbeats(part, tables)
    _say(calibration_line(before_ms, calibrate()))
    chosen = {"idle_s": options.idle_s, "google": bool(options.google)}
    store("nodes", arguments=chosen, figures=[], tables=tables, folder=options.results)
    return 0 if met else 1


def _live(case: LiveCase) -> LiveOutcome:
    return asyncio.run(run_with_emulator(case))


def _idle(seconds: float, tables: dict[str, Table]) -> bool:
    """Measure the share of a core that nodes need for heartbeats alone."""
    table = [["nodes", "heartbeat", "node process", "node server", "heartbeats/s"]]
    met = True
    for count, heartbeat_s in IDLE:
        size = np.full(count, SCALE)
        machines = Machines(size, size, np.zeros(count, dtype=np.int64))
        run = _live(
            LiveCase(_late_job(seconds), machines, Scheduler(heartbeat_s=heartbeat_s), seconds)
        )
        rate = count / heartbeat_s
        table.append(
            [
                f"{count:,}",
                f"{heartbeat_s:g} s",
                f"{100 * run.node_share:.1f} %",
                f"{100 * run.scheduler_share:.1f} %",
                f"{rate:,.0f}",
            ]
        )
        if heartbeat_s >= IDLE_GOAL_FROM_S:
            goal = IDLE_GOALS[count]
            text = f"{count:,} nodes, heartbeat {heartbeat_s:g} s: {100 * run.node_share:.1f} %"
            met &= _goal(text, is_met=run.node_share < goal, goal=f"{100 * goal:g} %")
    return _done("idle", table, tables, is_met=met)


def _late_job(seconds: float) -> Workload:
    """Return a job that arrives after the end, so that the run lasts until then."""
    one = np.ones(1, dtype=np.int64)
    return Workload(
        submit_s=np.array([2.0 * seconds]),
        first_task=np.array([0, 1]),
        cpu=one,
        memory=one,
        seconds=np.ones(1),
        needs=0 * one,
        machine=np.full(1, NOWHERE),
    )


def _verify(tables: dict[str, Table]) -> bool:
    """Compare live and offline runs of the same scenarios (K6)."""
    table = [
        [
            "nodes",
            "scheduler",
            "tasks",
            "waiting",
            "completion",
            "failed jobs, live",
            "failed jobs, offline",
        ]
    ]
    met = True
    for count in VERIFIED:
        workload, machines = _load(count)
        for name, scheduler in SCHEDULERS.items():
            chosen = replace(scheduler, heartbeat_s=5.0, probe_s=0.0, **NETWORK)  # type: ignore[arg-type]
            found = _compared(LiveCase(workload, machines, chosen, VERIFY_S))
            table.append(
                [
                    f"{count:,}",
                    f"`{name}`",
                    f"{workload.tasks:,}",
                    f"{found.waiting:.3f}",
                    f"{found.completion:.3f}",
                    f"{found.failed:.2f} %",
                    f"{found.other_failed:.2f} %",
                ]
            )
            worst = max(found.waiting, found.completion)
            text = f"{count:,} nodes, {name}: distance {worst:.3f}"
            met &= _goal(text, is_met=worst < DISTANCE_GOAL, goal=f"{DISTANCE_GOAL:g}")
    return _done("fidelity", table, tables, is_met=met)


def _load(nodes: int) -> tuple[Workload, Machines]:
    """Return a synthetic workload that keeps four fifths of the cores busy."""
    workload, machines = synthetic(VERIFY_TASKS, nodes, 0.8, np.random.default_rng(1))
    span_s = float(workload.submit_s[-1])
    return at_speed(workload, span_s / VERIFY_S), machines


def _compared(case: LiveCase) -> Fidelity:
    offline = run_reservation(
        case.workload, case.machines, case.scheduler, seed=case.seed, until_s=case.until_s
    )
    return fidelity(case.workload, _live(case).result, offline)


def _speeds(part: GoogleTasks, tables: dict[str, Table]) -> bool:
    """Measure scheduling delays of the jobs of the hour at several speeds."""
    table = [
        [
            "speed",
            "tasks/s",
            "50 % of jobs",
            "90 %",
            "99 %",
            "decided",
            "node process",
            "scheduler",
        ]
    ]
    workload, sustained = until(arrivals(part.workload), HOUR_S), 0.0
    for speed in SPEEDS:
        fast, until_s = at_speed(workload, speed), HOUR_S / speed
        run = _live(LiveCase(fast, fixed(part.machines), Scheduler(), until_s))
        delays = run.result.delay_s[~np.isnan(run.result.delay_s)]
        shown = np.quantile(delays, [0.5, 0.9, 0.99])
        decided = delays.size / workload.jobs
        table.append(
            [
                f"{speed:g}x",
                f"{workload.tasks / until_s:,.0f}",
                *(f"{1e3 * delay:,.1f} ms" for delay in shown),
                f"{100 * decided:.1f} %",
                f"{100 * run.node_share:.0f} %",
                f"{100 * run.scheduler_share:.0f} %",
            ]
        )
        # jobs of the last moments may be undecided: they count as late
        late = np.count_nonzero(delays > DELAY_GOAL_MS / 1e3) + workload.jobs - delays.size
        if late <= 0.1 * workload.jobs:
            sustained = speed
    text = f"{NODES:,} nodes: 90 % of jobs below {DELAY_GOAL_MS:g} ms up to {sustained:g}x"
    return _done("speeds", table, tables, is_met=_goal(text, is_met=sustained > 0.0, goal="any"))


def _heartbeats(part: GoogleTasks, tables: dict[str, Table]) -> None:
    """Measure failures by the interval of heartbeats, with the load of the start, also offline."""
    table = [["heartbeat", "failed jobs, live", "failed jobs, offline", "rejected tasks, live"]]
    machines, until_s = fixed(part.machines), HOUR_S / HEARTBEAT_SPEED
    hour = until(at_most_full(part.workload, machines), HOUR_S)
    workload = at_speed(hour, HEARTBEAT_SPEED)
    new = int(np.count_nonzero(workload.submit_s > 0.0))
    for heartbeat_s in HEARTBEATS:
        case = LiveCase(workload, machines, Scheduler(heartbeat_s=heartbeat_s), until_s)
        offline = run_reservation(workload, machines, case.scheduler, seed=1, until_s=until_s)
        live = _live(case).result
        table.append(
            [
                f"{heartbeat_s:g} s",
                f"{100 * live.failed_jobs(workload) / new:.2f} %",
                f"{100 * offline.failed_jobs(workload) / new:.2f} %",
                f"{int(live.attempts.sum()):,}",
            ]
        )
    _done("heartbeats", table, tables, is_met=True)


def _done(name: str, table: Table, tables: dict[str, Table], *, is_met: bool) -> bool:
    tables[name] = table
    _say(f"\n{markdown(table)}\n")
    return is_met


def _goal(text: str, *, is_met: bool, goal: str) -> bool:
    _say(f"{text} (goal {goal}: {'met' if is_met else 'MISSED'})")
    return is_met


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
