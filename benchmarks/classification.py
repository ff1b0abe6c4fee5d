"""Speed of the default estimator, and errors of all estimators on unseen applications.

    python -m benchmarks.classification [--data DIR] [--sets a,b] [--entries 2,3,4,8]
        [--methods x,y] [--seed 1] [--repeat 7] [--json]
        [--probing | --papers | --strange]

First the speed, next to peers and a calibration loop (`benchmarks._classification_speed`);
``--repeat 0`` leaves it out. Then, when ``--data`` or ``--sets`` is given, the accuracy. DIR holds
one folder for each set (see `benchmarks._datasets`); the sets `emulated` and `generator` need
none. All rows of an application are hidden together, but for a few random cells each.
Printed for each set, number of entries and method: average, median and 90th percentile over rows
of the mean relative error of the hidden cells (scores: in points / 100); how often the best
column was found, and one within 5 % of it; rank agreement (Spearman); and the share of hidden
cells inside the 90 % intervals. Then the ratio of the default's average error to that of others,
with 90 % intervals from resampled applications. ``--probing`` measures instead what choosing the
measured cells buys (`benchmarks._probing`), ``--papers`` the papers' figures next to ours
(`benchmarks._papers`), ``--strange`` intervals and flags of applications that are unlike the
library (`benchmarks._strange`).
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from apps.classification.core.estimators import DEFAULT, ESTIMATORS
from apps.classification.core.inference import POOLS
from apps.emulation.core.worlds import WORLDS
from benchmarks._calibration import calibrate, calibration_line
from benchmarks._classification_speed import timings
from benchmarks._compare import Ratio, Sampled, against_best, overall, ratio
from benchmarks._datasets import READERS
from benchmarks._generated import EMULATED, SPARSE_CELLS, Size, emulated, roofline_case
from benchmarks._held_out import Case, Method, Scores, cases, method, scores
from benchmarks._papers import papers
from benchmarks._peers import peers
from benchmarks._probing import probing
from benchmarks._strange import strange

SINGLES = ("knn", "knn_plain", "sklearn_knn", "sklearn_knn_plain", "kde")
GENERATED = (
    Size(20, 0, 10),
    Size(20, 378, 10),
    Size(30, 0, 10),
    Size(400, 0, 10),
    Size(30, 0, 40),
    Size(30, 970, 40),
    Size(1000, 0, 40),
)
ALL_SETS = ",".join([*READERS, "emulated", "generator"])
GENERATED_SEEDS = 4
GENERATED_ROWS = 150


@dataclass(frozen=True, slots=True)
class Line:
    """One method on one part of a set; shares, not percent."""

    part: str
    entries: int
    method: str
    rows: int
    average: float
    p50: float
    p90: float
    best: float
    within_5: float
    rank: float
    covered: float

    def __str__(self) -> str:
        errors = f"avg {self.average:7.1%}  p50 {self.p50:6.1%}  p90 {self.p90:7.1%}"
        columns = f"best {self.best:4.0%}  within 5 % {self.within_5:4.0%}"
        ends = f"rank {self.rank:5.2f}  covered {self.covered:4.0%}"
        head = f"{self.part:<34} {self.entries} entries  {self.method:<17}"
        return f"{head} {errors}  {columns}  {ends}"


Results = dict[tuple[str, int, str], Scores]


def main(argv: Sequence[str] | None = None) -> int:
    """Run and print the figures."""
    options = _options().parse_args(argv)
    options.world = options.world or list(WORLDS)
    printed: dict[str, object] = {}
    if options.probing:
        sets = (options.sets or ALL_SETS).split(",")
        printed |= probing(sets, options.data, options.seed, quiet=options.json)
    if options.papers:
        printed |= papers(options.seed, quiet=options.json, worlds=options.world)
    if options.strange:
        printed |= strange(options.seed, quiet=options.json)
    is_other = options.probing or options.papers or options.strange
    if options.repeat and not is_other:
        printed |= _speed(options)
    if (options.data or options.sets) and not is_other:
        printed |= _accuracy(options)
    if options.json:
        sys.stdout.write(json.dumps(printed, indent=1) + "\n")
    return 0


def _speed(options: argparse.Namespace) -> dict[str, object]:
    before = calibrate()
    timed = timings(options.repeat, options.seed)
    after = calibrate()
    if not options.json:
        for timing in timed:
            sys.stdout.write(f"{timing}\n")
        sys.stdout.write(f"{calibration_line(before, after)}\n")
    return {"speed": [asdict(timing) for timing in timed], "calibration_ms": [before, after]}


def _accuracy(options: argparse.Namespace) -> dict[str, object]:
    options.sets = options.sets or ALL_SETS
    methods = _methods(options.methods.split(",") if options.methods else None, options.seed)
    entries = tuple(int(n) for n in options.entries.split(","))
    results: Results = {}
    lines: list[Line] = []
    for part, k, folds in _all_cases(options, entries):
        for name, answer in methods.items():
            scored = _joined([scores(case, answer(case)) for case in folds])
            results[part, k, name] = scored
            lines.append(_line(part, k, name, scored))
            if not options.json:
                sys.stdout.write(f"{lines[-1]}\n")
    ratios = [ratio for k in entries for ratio in _ratios(results, k, options.seed)]
    bayes = _generator(methods, entries[0], options.seed) if "generator" in options.sets else {}
    if not options.json:
        for ratio in ratios:
            sys.stdout.write(f"{ratio}\n")
        for size, by_method in bayes.items():
            shown = "  ".join(f"{name} {value:.2f}" for name, value in by_method.items())
            sys.stdout.write(f"error over exact Bayes, {size}: {shown}\n")
    return {
        "lines": [asdict(line) for line in lines],
        "ratios": [asdict(ratio) for ratio in ratios],
        "bayes": bayes,
    }


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.classification")
    parser.add_argument("--data", type=Path, help="folder with one folder for each real set")
    parser.add_argument("--sets", default="", help="all of them, when --data is given")
    parser.add_argument("--entries", default="2,3,4,8")
    parser.add_argument("--methods", default="", help="the default is always among them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=7, help="of every timing; 0 for none")
    parser.add_argument(
        "--world",
        action="append",
        choices=list(WORLDS),
        help="of --papers and of the set `emulated`, may be repeated; all of them",
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--probing", action="store_true", help="random, fixed, informative cells")
    parser.add_argument("--papers", action="store_true", help="the papers' figures next to ours")
    parser.add_argument("--strange", action="store_true", help="rows unlike the library")
    return parser


def _methods(names: Sequence[str] | None, seed: int) -> dict[str, Method]:
    known = {name: method(estimator, seed) for name, estimator in ESTIMATORS.items()} | peers()
    chosen = list(known) if names is None else list(dict.fromkeys([DEFAULT, *names]))
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise SystemExit(f"--methods must be among {', '.join(known)}, got {', '.join(unknown)}")
    return {name: known[name] for name in chosen}


def _all_cases(
    options: argparse.Namespace, entries: tuple[int, ...]
) -> Iterator[tuple[str, int, list[Case]]]:
    """Every part of every set with every number of entries that leaves cells to estimate."""
    for name in options.sets.split(","):
        if name == "emulated":
            for origin in options.world:
                yield from _emulated(entries, options.seed, origin)
        elif name in READERS:
            yield from _measured(name, options.data, entries, options.seed)
        elif name != "generator":
            raise SystemExit(f"--sets must be among {', '.join(READERS)}, emulated, generator")


def _emulated(
    entries: tuple[int, ...], seed: int, origin: str
) -> Iterator[tuple[str, int, list[Case]]]:
    pools = {name: pool for pool in POOLS if len(pool) > 1 for name in pool}
    parts = [(name, ()) for name in EMULATED] + [
        (name, tuple(other for other in pool if other != name)) for name, pool in pools.items()
    ]
    for name, other_matrices in parts:
        for k in entries:
            folds = list(emulated(name, k, seed, together_with=other_matrices, origin=origin))
            if (~np.isnan(folds[0].truth)).sum(axis=1).min() >= k + 2:
                yield f"emulated.{origin}.{'+'.join((name, *other_matrices))}", k, folds


def _measured(
    name: str, data: Path | None, entries: tuple[int, ...], seed: int
) -> Iterator[tuple[str, int, list[Case]]]:
    if data is None or not (data / name).is_dir():
        raise SystemExit(f"--data must hold a folder {name}")
    for block in READERS[name](data):
        for k in entries:
            folds = list(cases(block, k, np.random.default_rng([seed, k])))
            if folds:
                yield block.name, k, folds


def _joined(parts: Sequence[Scores]) -> Scores:
    return Scores(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _line(part: str, k: int, name: str, scored: Scores) -> Line:
    middle, high = np.quantile(scored.error, [0.5, 0.9])
    return Line(
        part,
        k,
        name,
        scored.error.size,
        float(scored.error.mean()),
        float(middle),
        float(high),
        float(scored.hit.mean()),
        float(scored.near.mean()),
        float(scored.rank.mean()),
        float(scored.covered.mean()),
    )


def _ratios(results: Results, k: int, seed: int) -> Iterator[Ratio]:
    """Compare the default with every other method, by set and over the real sets."""
    names = [name for name in dict.fromkeys(n for _, _, n in results) if name != DEFAULT]
    parts = [part for part, entries, name in results if entries == k and name == DEFAULT]
    sets = list(dict.fromkeys(part.split(".")[0] for part in parts))
    by_method: dict[str, list[Sampled]] = {}
    for name in names:
        summaries = {
            comparison_row: ratio(
                f"{comparison_row}, {k} entries",
                name,
                [
                    (results[part, k, DEFAULT], results[part, k, name])
                    for part in parts
                    if part.split(".")[0] == comparison_row
                ],
                np.random.default_rng(seed),
            )
            for comparison_row in sets
        }
        yield from (comparison_row.summary for comparison_row in summaries.values())
        by_method[name] = [
            comparison_row for label, comparison_row in summaries.items() if label != "emulated"
        ]
        if by_method[name]:
            yield overall(f"all real sets, {k} entries", name, by_method[name])
    singles = {
        name: summaries for name, summaries in by_method.items() if name in SINGLES and summaries
    }
    if singles:
        yield from against_best(k, singles)


def _generator(methods: Mapping[str, Method], k: int, seed: int) -> dict[str, dict[str, float]]:
    """Error over that of the exact posterior; methods retrained for every row are left out."""
    fast = {name: answer for name, answer in methods.items() if not name.startswith("pq")}
    table: dict[str, dict[str, float]] = {}
    for size in GENERATED:
        errors: dict[str, list[float]] = {name: [] for name in ["bayes", *fast]}
        for draw in range(GENERATED_SEEDS):
            case, bayes = roofline_case(size, GENERATED_ROWS, k, seed + draw)
            hidden = ~case.known
            errors["bayes"].append(float(np.abs(bayes / case.truth - 1.0)[hidden].mean()))
            for name, answer in fast.items():
                value = answer(case).value
                errors[name].append(float(np.abs(value / case.truth - 1.0)[hidden].mean()))
        exact = float(np.mean(errors.pop("bayes")))
        by_method = {name: float(np.mean(e)) / exact for name, e in errors.items()}
        rows = f"{size.dense} dense rows + {size.sparse} of {SPARSE_CELLS} cells"
        table[f"{rows} x {size.columns}, exact {exact:.1%}"] = by_method
    return table


if __name__ == "__main__":
    sys.exit(main())
