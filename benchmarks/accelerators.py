"""Policies for accelerators of three types: completion times and shares of training jobs.

Jobs are drawn from the throughputs that Gavel's authors measured on V100, P100 and K80 (OSDI
2020), the same for every policy; they run to the end. Intervals are 90 % over the seeds;
differences are paired by seed, and their intervals hold all together within a load.

    ./dev bench accelerators --data DIR      DIR has `gavel/isolated.csv.gz`
"""

import argparse
import csv
import gzip
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from apps.testbed.core.accelerators.registry import ROUND_POLICIES, make_rounds
from apps.testbed.core.accelerators.run import RoundSettings, RoundsResult, run_rounds
from apps.testbed.core.accelerators.trace import Throughputs, poisson_trace, read_throughputs
from apps.testbed.core.comparison import (
    Better,
    Comparison,
    Measure,
    RunTable,
    compare,
)
from benchmarks._intervals import difference_text, mean_text
from benchmarks._results import RESULTS, Table, markdown, store
from benchmarks.policies import numbers

FILE: Final = Path("gavel") / "isolated.csv.gz"
TYPES: Final = ("v100", "p100", "k80")
BASELINE: Final = "fair_share_blind"
MEASURES: Final = (
    Measure("mean_h", "mean completion, h", "h", Better.LOWER),
    Measure("p95_h", "p95 completion, h", "h", Better.LOWER),
    Measure("worst_share", "worst share", "", Better.HIGHER),
    Measure("restarts", "restarts per job", "", Better.LOWER),
)


def values_of(result: RoundsResult) -> list[float]:
    """List the values of `MEASURES` over all jobs of a run."""
    hours = result.completion_s / 3600.0
    return [
        float(hours.mean()),
        float(np.quantile(hours, 0.95)),
        float(result.share.min()),
        float(result.restarts.mean()),
    ]


def measured(throughputs: Throughputs, load: float, options: argparse.Namespace) -> RunTable:
    """Run every policy with every seed at one load."""
    available = np.full(len(TYPES), options.accelerators)
    columns = []
    for seed in options.seeds:
        rng = np.random.default_rng(seed)
        jobs = poisson_trace(throughputs, available, options.jobs, load, rng)
        column = []
        for name in ROUND_POLICIES:
            result = run_rounds(jobs, available, make_rounds(name), RoundSettings())
            column.append(values_of(result))
            _say(f"load {load:g}  seed {seed}  {name:<18} {_line(column[-1])}")
        columns.append(column)
    values = np.array(columns).transpose(1, 0, 2)
    return RunTable(tuple(ROUND_POLICIES), tuple(options.seeds), MEASURES, values)


def _line(values: list[float]) -> str:
    each = zip(MEASURES, values, strict=True)
    return "  ".join(f"{measure.label} {value:.2f}" for measure, value in each)


def means(results: Mapping[float, Comparison]) -> Table:
    """Return the means with their intervals."""
    table = [["load", "policy", *(measure.label for measure in MEASURES)]]
    for load, result in results.items():
        for name in result.settings:
            cells = [mean_text(result.means[name, measure.key]) for measure in MEASURES]
            table.append([f"{load:g}", f"`{name}`", *cells])
    return table


def differences(results: Mapping[float, Comparison]) -> Table:
    """Return the differences to the blind fair share; bold: the interval excludes 0."""
    table = [["load", "policy", *(measure.label for measure in MEASURES[:3])]]
    for load, result in results.items():
        for name in result.settings:
            if name != BASELINE:
                cells = [difference_text(result.difference(name, m.key), 2) for m in MEASURES[:3]]
                table.append([f"{load:g}", f"`{name}`", *cells])
    return table


def rows(folder: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of the measurements."""
    with gzip.open(folder / FILE, "rt", newline="") as stream:
        yield from csv.DictReader(stream)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and store its tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help=f"folder with {FILE}")
    parser.add_argument("--jobs", type=int, default=150)
    parser.add_argument("--loads", default="0.7,0.9")
    parser.add_argument("--accelerators", type=int, default=16, help="of each type")
    parser.add_argument("--seeds", type=numbers, default=numbers("5"), help="5, 1-5 or 1,3")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result")
    options = parser.parse_args(argv)
    if not (options.data / FILE).exists():
        parser.error(f"--data has no {FILE}: {options.data}")
    throughputs = read_throughputs(rows(options.data), TYPES)
    tables = {load: measured(throughputs, load, options) for load in _loads(options.loads)}
    rng = np.random.default_rng(0)
    results = {load: compare(of, baseline=BASELINE, rng=rng) for load, of in tables.items()}
    shown = {"means": means(results), "differences": differences(results)}
    _say(markdown(shown["means"]) + "\n\n" + markdown(shown["differences"]))
    figures = {f"{load:g}": _values(of) for load, of in tables.items()}
    chosen = {name: getattr(options, name) for name in ("jobs", "loads", "accelerators", "seeds")}
    store("accelerators", arguments=chosen, figures=figures, tables=shown, folder=options.results)
    return 0


def _loads(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def _values(table: RunTable) -> dict[str, dict[str, list[float]]]:
    """Return the value of every seed, by policy and measure."""
    return {
        name: {
            measure.key: np.round(table.values[s, :, m], 4).tolist()
            for m, measure in enumerate(MEASURES)
        }
        for s, name in enumerate(table.settings)
    }


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
