"""Fitted figures of the worlds next to the measurements, stored for docs/emulation.md.

    python -m benchmarks.world_report --data DIR [--seed 1]

The report of `./dev manage world_report`. DIR holds one folder for each set. Stores the result
(`benchmarks._results`) and exits with 1 if a figure of the measured world is outside its interval.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from apps.testbed.core.world_fit.report import HEAD, WorldReport, as_json, as_text, report, table
from apps.testbed.infrastructure.measurements import checksums, measurements_folder, read_groups
from benchmarks._results import RESULTS, Table, store


def main(argv: Sequence[str] | None = None, folder: Path = RESULTS) -> int:
    """Compare, print and store."""
    parser = argparse.ArgumentParser(prog="benchmarks.world_report")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    root = measurements_folder(options.data)
    found = report(read_groups(root), options.seed)
    sys.stdout.write(as_text(found))
    store(
        "world-report",
        arguments={"seed": options.seed},
        figures=as_json(found, checksums(root)),
        tables={"figures": rows(found)},
        folder=folder,
    )
    return 1 if found.outside() else 0


def rows(found: WorldReport) -> Table:
    """All figures, with the name of their group in front."""
    body = [[group.group.title, *line] for group in found.groups for line in table(group.figures)]
    return [["group", *HEAD], *body]


if __name__ == "__main__":
    sys.exit(main())
