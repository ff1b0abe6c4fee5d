"""Server time of every page, figure and list on a database of reference data.

    ./dev bench pages [--jobs 1000000] [--rounds 5] [--limit 300] [--match TEXT] [--json]

Loads the data with `load_reference` unless the database has jobs, then requests every read that
the URL configuration has (`benchmarks/_reads.py`), as an operator and as a member of one project,
in this process and without any cache. Printed for each read: median and p95 of the server time,
and its slowest statement. Returns 1 if a median is above the limit. Stores the result.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import django
import numpy as np

from benchmarks._calibration import calibrate, calibration_line
from benchmarks._results import Table, store

if TYPE_CHECKING:
    from benchmarks._page_times import Timing

SHOWN: Final = 25
PUBLISHED: Final = 15
STATEMENT_SHOWN: Final = 110


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 0 if every read is within the limit."""
    options = _options(argv)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.dev")
    os.environ["BERTH_RATE_READ"] = os.environ["BERTH_RATE_SOLVER"] = "100000000"
    django.setup()
    from benchmarks import _page_times  # noqa: PLC0415 - imports models

    _page_times.prepare(jobs=options.jobs, servers=options.servers)
    before_ms = calibrate()
    timings = list(_page_times.timings(match=options.match, rounds=options.rounds))
    after_ms = calibrate()
    if options.json:
        sys.stdout.write(json.dumps([asdict(timing) for timing in timings], indent=1) + "\n")
    else:
        _print(timings, options.limit)
        sys.stdout.write(calibration_line(before_ms, after_ms) + "\n")
    if not options.match:
        store(
            "pages",
            arguments={"jobs": options.jobs, "servers": options.servers, "rounds": options.rounds},
            figures=[asdict(timing) for timing in timings],
            tables={"summary": summary(timings, options.limit), "slowest": slowest_reads(timings)},
        )
    return int(any(timing.median_ms > options.limit for timing in timings))


def summary(timings: Sequence["Timing"], limit_ms: float) -> Table:
    """Return the number of reads, and quantiles of their medians, by caller."""
    head = ["caller", "reads", "p50, ms", "p95, ms", "slowest, ms", f"above {limit_ms:.0f} ms"]
    rows = []
    for caller in sorted({timing.caller for timing in timings}):
        medians = np.array([timing.median_ms for timing in timings if timing.caller == caller])
        quantiles = [f"{value:.0f}" for value in np.percentile(medians, (50.0, 95.0, 100.0))]
        above = int((medians > limit_ms).sum())
        rows.append([caller, f"{medians.size:,}", *quantiles, f"{above}"])
    return [head, *rows]


def slowest_reads(timings: Sequence["Timing"]) -> Table:
    """Return the slowest reads, and the time of the slowest statement of each."""
    head = ["read", "caller", "median, ms", "p95, ms", "statements", "slowest statement, ms"]
    shown = sorted(timings, key=lambda timing: -timing.median_ms)[:PUBLISHED]
    return [
        head,
        *(
            [
                f"`{timing.read}`",
                timing.caller,
                f"{timing.median_ms:.0f}",
                f"{timing.p95_ms:.0f}",
                f"{timing.statements}",
                f"{timing.worst_ms:.0f}",
            ]
            for timing in shown
        ),
    ]


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.pages")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--servers", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=300.0, help="milliseconds of server time")
    parser.add_argument("--match", default="", help="only reads whose name contains this")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(argv)


def _print(timings: Sequence["Timing"], limit_ms: float) -> None:
    slowest = sorted(timings, key=lambda timing: -timing.median_ms)
    over = [timing for timing in slowest if timing.median_ms > limit_ms]
    sys.stdout.write(
        f"{len(timings)} reads; {len(over)} above {limit_ms:.0f} ms; median of all"
        f" {np.median([timing.median_ms for timing in timings]):.0f} ms\n\n"
        "| read | caller | status | median, ms | p95, ms | statements | worst statement |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    for timing in slowest[: max(SHOWN, len(over))]:
        sys.stdout.write(
            f"| {timing.read} | {timing.caller} | {timing.status} | {timing.median_ms:.0f} |"
            f" {timing.p95_ms:.0f} | {timing.statements} | {timing.worst_ms:.0f} ms:"
            f" `{timing.worst[:STATEMENT_SHOWN]}` |\n"
        )


if __name__ == "__main__":
    sys.exit(main())
