"""Sensitivity of six real programs, measured by `berth profile`, with repeats.

    ./dev bench real_profiling [--repeats 3] [--minutes 2.5] [--parts DIR]

Each profile is a report of its own in the folder of parts; a call measures those that are missing
until its time is over, then the next call continues. The last one stores the tables. Needs two
cores without other programs, and the Debian packages that it names if they are missing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

from benchmarks._calibration import calibrate, calibration_line
from benchmarks._programs import PROGRAMS, require, version, write_inputs
from benchmarks._results import RESULTS, ROOT, Table, markdown, store

NAMES: Final = ("xz", "bzip2", "openssl", "gawk", "sort", "sqlite3")
SOURCES: Final = (
    "core", "l2", "tlb", "llc_capacity", "memory_bandwidth", "storage_bandwidth",
)  # fmt: skip
WINDOW_S: Final = 0.3
PARTS: Final = Path(tempfile.gettempdir()) / "berth-real-profiling"

Source = Mapping[str, Any]  # of a report of berth profile
Reports = Mapping[tuple[str, int], Mapping[str, Source]]  # by program and repeat, then by stressor


def main() -> int:
    """Measure what is missing; store the tables once nothing is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=2.5, help="begin no profile after them")
    parser.add_argument("--parts", type=Path, default=PARTS, help="folder of reports and inputs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result")
    options = parser.parse_args()
    require(NAMES)
    before_ms = calibrate()
    todo = list(missing_parts(options.parts, options.repeats))
    if todo:
        write_inputs(options.parts / "inputs")
    until_s = time.monotonic() + 60.0 * options.minutes
    while todo and time.monotonic() < until_s:
        name, repeat = todo.pop(0)
        _say(f"{name}, repeat {repeat}")
        measure(PROGRAMS[name].command(), options.parts, part(options.parts, name, repeat))
    if todo:
        _say(f"{len(todo)} profiles are missing: run it again")
        return 1
    _store(options, calibration_line(before_ms, calibrate()))
    return 0


def missing_parts(folder: Path, repeats: int) -> Iterator[tuple[str, int]]:
    """Yield programs and repeats without a report; every program once, then again."""
    for repeat, name in product(range(1, repeats + 1), NAMES):
        if not part(folder, name, repeat).exists():
            yield name, repeat


def part(folder: Path, name: str, repeat: int) -> Path:
    """Return the file of one report."""
    return folder / f"{name}-{repeat}.json"


def measure(
    command: Sequence[str], folder: Path, report: Path, options: Sequence[str] = ()
) -> None:
    """Profile a command with `berth profile`, in the folder of its inputs."""
    chosen = options or ("--sources", ",".join(SOURCES), "--window", str(WINDOW_S))
    subprocess.run(  # noqa: S603 - our own program
        [
            *(sys.executable, "-m", "controlplane.cli.main", "profile", *chosen),
            *("--report", str(report), "--", *command),
        ],
        cwd=folder / "inputs",
        env={**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )


def by_stressor(report: Mapping[str, Any]) -> dict[str, Source]:
    """Return the sources of a report by stressor."""
    return {source["stressor"]: source for source in report["sources"]}


def _store(options: argparse.Namespace, calibration: str) -> None:
    reports = {
        (name, repeat): json.loads(part(options.parts, name, repeat).read_text())
        for name, repeat in product(NAMES, range(1, options.repeats + 1))
    }
    found = {key: by_stressor(report) for key, report in reports.items()}
    tables = {
        "speed": speed_table(found, options.repeats),
        "score": score_table(found, options.repeats),
        "repeatability": repeatability_table(found, options.repeats),
    }
    for table in tables.values():
        _say(markdown(table) + "\n")
    figures = [
        *(f"{name}: {PROGRAMS[name].package} {version(PROGRAMS[name].package)}" for name in NAMES),
        *(f"{name} {repeat}: {_pressure(report)}" for (name, repeat), report in reports.items()),
        calibration,
    ]
    store("real_profiling", arguments={"repeats": options.repeats, "window_s": WINDOW_S},
          figures=figures, tables=tables, folder=options.results)  # fmt: skip


def _pressure(report: Mapping[str, Any]) -> str:
    before = report["cpu_pressure"]["before"]
    said = "unknown" if before is None else f"{before:.0%}"
    return f"{report['scheduling']}, others waited {said} of the time before"


def speeds(found: Reports, name: str, source: str, repeats: int) -> list[float]:
    """Return the speed at full intensity in every repeat that has it."""
    points = [
        point
        for repeat in range(1, repeats + 1)
        for point in found[name, repeat][source]["points"]
        if point["intensity"] == 100
    ]
    return [point["speed"][0] for point in points]


def speed_table(found: Reports, repeats: int) -> Table:
    """Return the mean speed at full intensity with its range over the repeats."""
    table = [["program", *SOURCES]]
    for name in NAMES:
        rows = [speeds(found, name, source, repeats) for source in SOURCES]
        table.append([name, *(_range(values, "{:.2f}") for values in rows)])
    return table


def score_table(found: Reports, repeats: int) -> Table:
    """Return the states of the repeats, and the range of the scores that were measured."""
    table = [["program", *SOURCES]]
    for name in NAMES:
        cells = []
        for source in SOURCES:
            each = [found[name, repeat][source] for repeat in range(1, repeats + 1)]
            cells.append(_states(each))
        table.append([name, *cells])
    return table


def _states(each: Sequence[Source]) -> str:
    scores = [one["score"] for one in each if one["state"] == "measured"]
    parts = [_range(scores, "{:.0f}")] if scores else []
    for state, text in (
        ("not_reached", "over 100"), ("inconclusive", "inconclusive"), ("invalid", "invalid"),
    ):  # fmt: skip
        if count := sum(one["state"] == state for one in each):
            parts.append(f"{text}: {count}")
    return ", ".join(parts)


def repeatability_table(found: Reports, repeats: int) -> Table:
    """Return by source how far the repeats of a program agree."""
    table = [
        ["source", "programs with equal states", "SD of the speed", "max difference of the speed",
         "intervals that include the mean of the other repeats"],
    ]  # fmt: skip
    for source in SOURCES:
        states = [
            {found[name, repeat][source]["state"] for repeat in range(1, repeats + 1)}
            for name in NAMES
        ]
        equal = sum(len(each) == 1 for each in states)
        each = [speeds(found, name, source, repeats) for name in NAMES]
        full = [values for values in each if len(values) > 1]
        spread = fmean(stdev(values) ** 2 for values in full) ** 0.5 if full else float("nan")
        widest = max((max(values) - min(values) for values in full), default=float("nan"))
        inside = [hit for name in NAMES for hit in _includes(found, name, source, repeats=repeats)]
        table.append(
            [source, f"{equal} of {len(NAMES)}", f"{spread:.3f}", f"{widest:.3f}",
             f"{sum(inside)} of {len(inside)}"]
        )  # fmt: skip
    return table


def _includes(found: Reports, name: str, source: str, *, repeats: int) -> list[bool]:
    """Tell for each repeat whether its interval includes the mean of the others."""
    points = [
        point["speed"]
        for repeat in range(1, repeats + 1)
        for point in found[name, repeat][source]["points"]
        if point["intensity"] == 100
    ]
    hits = []
    for number, (_, low, high) in enumerate(points):
        others = [speed for other, (speed, _, _) in enumerate(points) if other != number]
        if others:
            hits.append(low <= fmean(others) <= high)
    return hits


def _range(values: Sequence[float], form: str) -> str:
    """Return a mean with the range of the values."""
    if not values:
        return "-"
    mean, low, high = (form.format(x) for x in (fmean(values), min(values), max(values)))
    return mean if low == high else f"{mean} ({low} to {high})"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
