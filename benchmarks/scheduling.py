"""Speed of scheduling: kernels, decisions, and the whole path of a job, by CPU time.

    ./dev bench scheduling [--only kernel,decision,greedy,conflicts,path,latency] [--seconds 60]

CPU time is that of the processes that do the work, so that other work on the machine matters
less than for wall times; a rate per core is its inverse. The path submits one-unit jobs of 20 s in
bulk to an instance of its own and waits until all have ended.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from benchmarks import _results, _scheduling_agents, _scheduling_decisions, _scheduling_path
from benchmarks._calibration import calibrate, calibration_line

Row = list[str]
PARTS: Final = ("kernel", "decision", "greedy", "conflicts", "path", "latency")
SIZES: Final = (1_000, 12_500, 100_000)
SERVERS: Final = 12_500
KERNEL_GOAL, DECISION_GOAL, PATH_GOAL = 1_000_000.0, 20_000.0, 3_750.0  # per second
GREEDY_GOAL, LATENCY_GOAL_MS = 15.0, 60.0
BATCHES: Final = (4, 16, 50)  # jobs of a request
LATENCY_S: Final = 20.0  # of a run
LATENCY_RUNS: Final = 3  # of each size, in turn


def kernel(_: argparse.Namespace) -> list[Row]:
    """Measure (a), the exact Tarcil kernel."""
    rates = _scheduling_decisions.tarcil_kernel(SERVERS, 1500)
    return [["exact Tarcil kernel, R = 8", str(rates), f"{KERNEL_GOAL:,.0f}/s"]]


def decision(options: argparse.Namespace) -> list[Row]:
    """Measure (b), whole decisions."""
    rows = []
    measured = _scheduling_decisions.whole_decisions(SIZES, options.turns)
    for servers, rates, record_bytes in measured:
        rows.append(
            [
                f"decision, record and commit in memory, {servers:,} servers",
                f"{rates}, record of {record_bytes:,.0f} B",
                f"{DECISION_GOAL:,.0f}/s" if servers == SERVERS else "",
            ]
        )
    return rows


def greedy(options: argparse.Namespace) -> list[Row]:
    """Measure (c), the search of Paragon."""
    found = _scheduling_decisions.greedy(SIZES[-1], options.turns)
    measured = (
        f"{found.later_us:,.0f} µs against {found.masks_us:,.0f} µs with masks: "
        f"{found.masks_us / found.later_us:.1f}x; "
        f"the first of an application {found.first_us:,.0f} µs"
    )
    return [[f"`paragon_greedy`, {SIZES[-1]:,} servers", measured, f"{GREEDY_GOAL:.0f}x"]]


def conflicts(_: argparse.Namespace) -> list[Row]:
    """Measure the lost commits of ten agents, and the memory of a copy."""
    rows = []
    for policy in ("expected", "tarcil", "least_loaded"):
        share = _scheduling_decisions.conflicts(policy, servers=SERVERS, agents=10, rounds=5)
        rows.append([f"placements lost by 10 agents, `{policy}`", f"{share:.1%}", ""])
    rows += _contention()
    sizes = _scheduling_decisions.bytes_per_server(SERVERS)
    units = sizes.pop("units of a server")
    parts = ", ".join(f"{size:,.0f} B {name}" for name, size in sizes.items())
    copy = f"{sum(sizes.values()):,.0f} B: {parts}; {units:.1f} units each"
    return [*rows, ["memory of a copy for each server", copy, "128 B (Tarcil)"]]


def _contention() -> list[Row]:
    """Measure ten agents with `expected` on an emulated cluster, and one agent instead of them."""
    servers = SIZES[0]
    ten = _scheduling_agents.contention("expected", servers=servers, agents=10)
    one = _scheduling_agents.contention("expected", servers=servers, agents=10, alone=True)
    measured = (
        f"{ten.lost:.1%} lost, predicted performance {ten.performance:.3f}; "
        f"one agent instead: {one.performance:.3f}"
    )
    return [[f"10 agents, `expected`, world `paper`, {servers:,} servers", measured, ""]]


def path(options: argparse.Namespace) -> list[Row]:
    """Measure (d), the whole path."""
    result = _scheduling_path.throughput(servers=SERVERS, seconds=options.seconds)
    used = [
        [f"CPU time of a job: {part}", f"{us:,.0f} µs", ""]
        for part, us in result.cpu_us.items()
        if us >= 1.0
    ]
    wal = result.wal_bytes / result.jobs
    measured = f"{result.per_s:,.0f}/s ({result.jobs:,} jobs), {wal:,.0f} B of WAL each"
    bound = f"{os.cpu_count() or 1} x {result.per_core_s:,.0f}/s"
    return [
        ["placed, committed and completed", measured, f"{PATH_GOAL:,.0f}/s"],
        ["the same by CPU time of all processes", bound, ""],
        *used,
    ]


def latency(options: argparse.Namespace) -> list[Row]:
    """Measure (e), from submission to placement, by the number of jobs in a request."""
    found = _scheduling_path.latency(
        servers=SERVERS, rate=options.rate, seconds=LATENCY_S, batches=BATCHES, runs=LATENCY_RUNS
    )
    rows = []
    for batch, runs in found.items():
        each = np.array([np.percentile(run.waits_ms, (50, 95, 99)) for run in runs])
        p50, p95, p99 = np.median(each, axis=0)
        all_p99 = ", ".join(f"{value:,.0f}" for value in sorted(each[:, 2]))
        rate = np.median([run.rate for run in runs])
        placed = f"p99 of each run {all_p99}; submitted at {rate:,.0f}/s"
        rows.append(
            [
                f"submit to placed at {options.rate:g}/s, requests of {batch}",
                f"p50 {p50:,.0f} ms, p95 {p95:,.0f} ms, p99 {p99:,.0f} ms ({placed})",
                f"p99 {LATENCY_GOAL_MS:.0f} ms",
            ]
        )
    return rows


_MEASURE: Final[dict[str, Callable[[argparse.Namespace], list[Row]]]] = {
    each.__name__: each for each in (kernel, decision, greedy, conflicts, path, latency)
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the parts, and store the table if all were measured."""
    options = _options(argv)
    parts = options.only.split(",")
    before_ms = calibrate()
    table: list[Row] = [["", "measured", "goal"]]
    for part in parts:
        rows = _MEASURE[part](options)
        table += rows
        sys.stdout.writelines(" | ".join(row) + "\n" for row in rows)
        sys.stdout.flush()
    line = calibration_line(before_ms, calibrate())
    sys.stdout.write(f"{line}\n")
    if set(parts) == set(PARTS):
        arguments = {"seconds": options.seconds, "rate": options.rate, "turns": options.turns}
        _results.store("scheduling", arguments=arguments, figures=[line], tables={"speed": table})
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--seconds", type=float, default=60.0, help="of bulk submission")
    parser.add_argument("--rate", type=float, default=500.0, help="jobs/s of the latency")
    parser.add_argument("--turns", type=int, default=48, help="batches of decisions")
    options = parser.parse_args(argv)
    if unknown := set(options.only.split(",")) - set(PARTS):
        parser.error(f"--only must name {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
    if options.turns < 1:
        parser.error(f"--turns must be 1 or more, got {options.turns}")
    return options


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.dev")
    import django

    django.setup()
    sys.exit(main())
