"""Arrival processes fitted to traces, beside each other, with held-out windows (docs/traces.md).

    python -m benchmarks.arrivals --data DIR

DIR holds one folder for each set, as for `world_report`. Prints the rows that `berth workload fit`
prints for each trace, and stores them.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from apps.testbed.core.arrival_comparison import HEAD, process_distances, table
from apps.testbed.files import read_trace
from apps.testbed.infrastructure.measurements import VARIABLE
from benchmarks._results import RESULTS, Table, markdown, store

TRACES: Final = {
    "Google 2011, first hour": "google_2011/task_events.csv.gz",
    "Alibaba GPU 2023": "alibaba_gpu_2023/pods.csv.gz",
    "Facebook 2010, a day": "swim_facebook/fb2010_day0.tsv.gz",
    "Facebook 2009, a day": "swim_facebook/fb2009_day0.tsv.gz",
    "NASA iPSC, three months": "parallel_workloads/NASA-iPSC-1993-3.1-cln.swf.gz",
}


def main(argv: Sequence[str] | None = None, folder: Path = RESULTS) -> int:
    """Fit, print and store."""
    parser = argparse.ArgumentParser(prog="benchmarks.arrivals")
    parser.add_argument("--data", type=Path, required=True, help=f"as {VARIABLE}")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    figures, rows = [], []
    for name, path in TRACES.items():
        trace = read_trace(options.data / path)
        found = process_distances(trace.jobs.submit_s, options.seed)
        label = f"{name}, {len(trace):,} jobs"
        figures.append({"trace": label, "processes": [asdict(each) for each in found]})
        rows += [[label, *row] for row in table(found)]
    shown: Table = [["trace", *HEAD], *rows]
    sys.stdout.write(markdown(shown) + "\n")
    store(
        "arrivals",
        arguments={"seed": options.seed},
        figures=figures,
        tables={"processes": shown},
        folder=folder,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
