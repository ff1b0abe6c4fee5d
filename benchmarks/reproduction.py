"""The papers' figures beside ours: what `berth reproduce` measures, stored and published.

    ./dev bench reproduction [--papers paragon,quasar,tarcil] [--seeds 1-3] [--small]

With clusters and jobs as the papers state them, this takes about an hour; with ``--small`` they
are 4 to 10 times smaller at the same load, and take minutes. Policies run with the admission
controls and times of decisions that the papers state, and without. All of a figure get the same
seeds and inferred profiles. Stores the result; that of ``--small`` under a name of its own.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from apps.testbed.core.reproduction import PAPERS
from apps.testbed.core.reproduction.figures import measured, report
from apps.testbed.files import DataFolder
from benchmarks._results import RESULTS, Table, markdown, store
from benchmarks.policies import numbers

NAMES: Final = ("paragon", "quasar", "tarcil")  # clavismo and thesis need data sets
HEADINGS: Final = ("paper, figure", "quantity", "paper", "ours", "90 % interval", "outcome")


def table(documents: Sequence[dict[str, Any]]) -> Table:
    """Return one row for each quantity of these reports."""
    shown: Table = [list(HEADINGS)]
    for document in documents:
        for figure in document["figures"]:
            where = f"{document['paper']} {figure['figure']}"
            shown += [_row(where, quantity) for quantity in figure["quantities"]]
    return shown


def _row(where: str, quantity: dict[str, Any]) -> list[str]:
    unit = f" {quantity['unit']}" if quantity["unit"] else ""
    paper, interval = quantity["paper"], quantity["interval"]
    return [
        where,
        quantity["quantity"],
        "-" if paper is None else f"{paper:g}{unit}",
        f"{quantity['ours']:.3g}{unit}",
        "-" if interval is None else f"{interval[0]:.3g} to {interval[1]:.3g}",
        quantity["outcome"],
    ]


def documents_of(
    names: Sequence[str], seeds: Sequence[int], *, is_small: bool
) -> list[dict[str, Any]]:
    """Measure the quick figures of these papers, with the same seeds for all policies."""
    documents = []
    for name in names:
        paper = PAPERS[name].reduced() if is_small else PAPERS[name]
        rows = {}
        for figure in paper.chosen(None):
            sys.stdout.write(f"{name} {figure.number}: {figure.title}\n")
            sys.stdout.flush()
            rows[figure.number] = measured(figure, seeds, DataFolder(Path()))
        documents.append(report(paper, seeds, rows))
    return documents


def main(argv: Sequence[str] | None = None) -> int:
    """Print and store the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.reproduction", description=__doc__)
    parser.add_argument("--papers", default=",".join(NAMES), help=f"of {', '.join(NAMES)}")
    parser.add_argument("--seeds", type=numbers, default=numbers("1-3"), help="5, 1-5 or 1,3")
    parser.add_argument("--small", action="store_true", help="reduced clusters and jobs")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    names = options.papers.split(",")
    if unknown := set(names) - set(NAMES):
        parser.error(f"--papers must name {', '.join(NAMES)}, not {', '.join(sorted(unknown))}")
    documents = documents_of(names, options.seeds, is_small=options.small)
    tables = {"figures": table(documents)}
    chosen = {name: getattr(options, name) for name in ("papers", "seeds", "small")}
    stored = "reproduction-small" if options.small else "reproduction"
    store(stored, arguments=chosen, figures=documents, tables=tables, folder=options.results)
    sys.stdout.write(markdown(tables["figures"]) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
