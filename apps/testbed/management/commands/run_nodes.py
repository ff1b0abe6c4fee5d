"""``run_nodes``: replay a workload on emulated nodes with real connections."""

import asyncio
import json
from argparse import ArgumentParser
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from django.core.management.base import BaseCommand, CommandError

from apps.common.core.errors import ControlPlaneError
from apps.testbed.core.google_tasks import draw_constraints, subset_of_machines
from apps.testbed.core.live.cases import arrivals, at_most_full, at_speed, fixed, from_parallel
from apps.testbed.core.live.fidelity import fidelity
from apps.testbed.core.reservation.model import (
    SCHEDULERS,
    Machines,
    Scheduler,
    Workload,
    WorkloadError,
)
from apps.testbed.core.reservation.run import run_reservation
from apps.testbed.core.reservation.synthetic import synthetic
from apps.testbed.files import read_google_tasks, read_swf
from apps.testbed.infrastructure.emulator_process import LiveOutcome, run_with_emulator
from apps.testbed.infrastructure.live_nodes import LiveCase

MIN_HEARTBEAT_S, MAX_HEARTBEAT_S = 0.1, 500.0


class Command(BaseCommand):
    """Run a scheduler over live emulated nodes, and the same scenario offline."""

    help = "Replay a workload on emulated nodes, each with its own connection (docs/testbed.md)."
    requires_system_checks = ()  # neither database nor web process

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        add = parser.add_argument
        source = parser.add_mutually_exclusive_group()
        source.add_argument("--google", type=Path, help="folder with tables of Google 2011")
        source.add_argument("--swf", type=Path, help="log in the Standard Workload Format")
        add("--tasks", type=int, default=5000, help="tasks of the synthetic workload, about")
        add("--load", type=float, default=0.8, help="load of the synthetic workload")
        add("--seconds", type=float, default=30.0, help="length of the synthetic workload")
        add("--nodes", type=int, default=1000, help="nodes, except with --swf")
        add("--empty", action="store_true", help="Google: without the load of the start")
        add("--speed", type=float, default=100.0, help="of a trace: its seconds in one second")
        add("--policy", choices=list(SCHEDULERS), default="ten_tries")
        add("--heartbeat", type=float, default=5.0, help="seconds, 0.1 to 500")
        add("--path-limit", type=int, default=100, help="jobs decided at once; 0 = no limit")
        add("--attempts", type=int, help="rejections after which a task is given up")
        add("--network", type=float, default=0.0, help="seconds that a message is held back")
        add("--spread", type=float, default=0.0, help="share by which that time varies, 0 to 1")
        add("--address", help="unix:PATH or tcp:HOST:PORT (default: a socket in a new folder)")
        add("--seed", type=int, default=1)
        add("--json", action="store_true", help="write one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run live, then offline, and report both."""
        try:
            case = _case(options)
            outcome = asyncio.run(
                run_with_emulator(case, address=options["address"], seed=options["seed"])
            )
            found = _report(case, outcome, options["policy"])
        except (ControlPlaneError, OSError, ValueError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(json.dumps(found) if options["json"] else _text(found))


def _case(options: dict[str, Any]) -> LiveCase:
    scheduler = _scheduler(options)
    workload, machines = _workload(options)
    last_s = float(workload.submit_s[-1]) if workload.jobs else 0.0
    finite = workload.seconds[np.isfinite(workload.seconds)]
    longest_s = float(finite.max()) if finite.size else 0.0
    until_s = last_s if options["google"] else last_s + longest_s + 60.0
    return LiveCase(workload, machines, scheduler, until_s, seed=options["seed"])


def _scheduler(options: dict[str, Any]) -> Scheduler:
    heartbeat_s = options["heartbeat"]
    if not MIN_HEARTBEAT_S <= heartbeat_s <= MAX_HEARTBEAT_S:
        raise WorkloadError(f"heartbeat_s is {heartbeat_s}; expected 0.1 to 500 seconds")
    chosen = SCHEDULERS[options["policy"]]
    return replace(
        chosen,
        heartbeat_s=heartbeat_s,
        path_limit=options["path_limit"],
        attempts=options["attempts"] or chosen.attempts,
        network_s=options["network"],
        network_spread=options["spread"],
        probe_s=0.0,
    )


def _workload(options: dict[str, Any]) -> tuple[Workload, Machines]:
    rng = np.random.default_rng(options["seed"])
    if options["google"]:
        trace = draw_constraints(read_google_tasks(options["google"]), rng)
        part = subset_of_machines(trace, options["nodes"], rng)
        machines = fixed(part.machines)
        kept = (
            arrivals(part.workload) if options["empty"] else at_most_full(part.workload, machines)
        )
        return at_speed(kept, options["speed"]), machines
    if options["swf"]:
        log = read_swf(options["swf"])
        workload, machines = from_parallel(log.jobs, log.processors)
        return at_speed(workload, options["speed"]), machines
    workload, machines = synthetic(options["tasks"], options["nodes"], options["load"], rng)
    return at_speed(workload, float(workload.submit_s[-1]) / options["seconds"]), machines


def _report(case: LiveCase, outcome: LiveOutcome, policy: str) -> dict[str, Any]:
    workload = case.workload
    offline = run_reservation(
        workload, case.machines, case.scheduler, seed=case.seed, until_s=case.until_s
    )
    delays = outcome.result.delay_s[~np.isnan(outcome.result.delay_s)]
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    return {
        "policy": policy,
        "nodes": len(case.machines),
        "jobs": workload.jobs,
        "tasks": workload.tasks,
        "wall_s": outcome.wall_s,
        "delay_ms": {
            name: 1e3 * float(np.quantile(delays, share)) if delays.size else None
            for name, share in shares.items()
        },
        "rejected": int(outcome.result.attempts.sum()),
        "node_process_core_share": outcome.node_share,
        "scheduler_core_share": outcome.scheduler_share,
        "fidelity": asdict(fidelity(workload, outcome.result, offline)),
        "node_process": outcome.totals,
    }


def _text(found: dict[str, Any]) -> str:
    delays, close = found["delay_ms"], found["fidelity"]
    shown = ", ".join(
        f"{name} {value:.1f} ms" for name, value in delays.items() if value is not None
    )
    return (
        f"{found['jobs']:,} jobs, {found['tasks']:,} tasks, {found['nodes']:,} nodes,"
        f" {found['policy']}: {found['wall_s']:.1f} s\n"
        f"Scheduling delay: {shown or 'no job was decided'}; {found['rejected']:,} rejections\n"
        f"Processor time: node process {100 * found['node_process_core_share']:.1f} % of a core,"
        f" scheduler {100 * found['scheduler_core_share']:.1f} %\n"
        f"{close['failed']:.2f} % of jobs failed live, {close['other_failed']:.2f} % offline."
        f" Distances: waiting {close['waiting']:.3f}, completion {close['completion']:.3f}"
    )
