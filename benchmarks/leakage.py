"""Leakage matrix: which of Berth's stressors presses which source, with stress-ng as reference.

    ./dev bench leakage [--repeats 3] [--minutes 2.5] [--parts DIR]

A victim is a method of stress-ng that lives on one source, pinned to one core. Its operations are
counted for a second next to each stressor at full intensity, and without any, by turns. The
stressors are Berth's, and methods of stress-ng. Speed is operations per CPU second relative to the
seconds without a stressor.

A call measures what its time allows, one victim after the other; the next one continues, and the
last one stores the table.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

import numpy as np
from scipy.special import stdtrit

from apps.execution.backends.profiler import scheduling
from apps.execution.backends.profiler.machine import other_core
from apps.execution.backends.profiler.stressor import StressProcess
from apps.profiling.core.stressors import STRESSORS, Side
from apps.profiling.core.windows import MIN_PRESSED
from benchmarks._calibration import calibrate, calibration_line
from benchmarks._programs import version
from benchmarks._results import RESULTS, Table, markdown, store

WINDOW_S: Final = 1
BASIS: Final = "bogo-ops-per-second-usr-sys-time"
SETTLE_S: Final = 0.05
MAX_TRIES: Final = 4
BETWEEN: Final = 6  # windows with a stressor between two without any
QOS: Final = 0.95
LEVEL: Final = 0.90
PARTS: Final = Path(tempfile.gettempdir()) / "berth-leakage"

# Turns a stressor on or off; tells whether it pressed while it was on.
Switch = Callable[[bool], bool]


@dataclass(frozen=True, slots=True)
class Method:
    """A method of stress-ng: a victim, and on its side also a stressor."""

    name: str
    options: tuple[str, ...]
    side: Side


METHODS: Final = {
    method.name: method
    for method in (
        Method("matrix", ("--matrix", "1"), Side.SAME),
        Method("l1cache", ("--l1cache", "1"), Side.SAME),
        Method("cache", ("--cache", "1", "--cache-level", "2"), Side.SAME),
        Method("stream", ("--stream", "1", "--stream-l3-size", "4M"), Side.OTHER),
        Method("hdd", ("--hdd", "1", "--hdd-bytes", "16M", "--hdd-opts", "wr-seq,fdatasync"),
               Side.OTHER),
        Method("sock", ("--sock", "1"), Side.OTHER),
    )
}  # fmt: skip
# Two of sock need the same port, and the operations of hdd vary too much.
VICTIMS: Final = tuple(name for name in METHODS if name not in {"sock", "hdd"})
OURS: Final = tuple(name for name, each in STRESSORS.items() if each.is_default)


def main() -> int:
    """Measure what is missing; store the table once nothing is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=2.5, help="begin no victim after them")
    parser.add_argument("--parts", type=Path, default=PARTS, help="folder of parts")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result")
    options = parser.parse_args()
    if version("stress-ng") == "unknown":
        raise SystemExit("first: apt-get install stress-ng")
    options.parts.mkdir(parents=True, exist_ok=True)
    before_ms, until_s = calibrate(), time.monotonic() + 60.0 * options.minutes
    todo = [name for name in VICTIMS if not (options.parts / f"{name}.json").exists()]
    while todo and time.monotonic() < until_s:
        name = todo.pop(0)
        _say(name)
        found = speeds(METHODS[name], options.parts, options.repeats)
        (options.parts / f"{name}.json").write_text(json.dumps(found))
    if todo:
        _say(f"{len(todo)} victims are missing: run it again")
        return 1
    parts = {n: json.loads((options.parts / f"{n}.json").read_text()) for n in VICTIMS}
    table = table_of(parts)
    _say(markdown(table))
    store("leakage", arguments={"repeats": options.repeats, "window_s": WINDOW_S},
          figures=[f"stress-ng {version('stress-ng')}", calibration_line(before_ms, calibrate())],
          tables={"matrix": table}, folder=options.results)  # fmt: skip
    return 0


def speeds(victim: Method, folder: Path, repeats: int) -> dict[str, list[float]]:
    """Measure one victim; return its relative speed next to each stressor in every repeat."""
    cpu = max(os.sched_getaffinity(0))
    other = other_core(cpu)
    if other is None:
        raise SystemExit("needs two cores")
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        switches = {
            name: stack.enter_context(each)
            for name, each in stressors(folder, {Side.SAME: cpu, Side.OTHER: other}).items()
        }
        for _ in range(repeats):
            names = list(switches)
            before = window(victim, cpu, folder)
            for first in range(0, len(names), BETWEEN):
                some = names[first : first + BETWEEN]
                on = [_next_to(switches[name], victim, cpu, folder) for name in some]
                after = window(victim, cpu, folder)
                for name, rate in zip(some, on, strict=True):
                    found.setdefault(name, []).append(2.0 * rate / (before + after))
                before = after
    return found


def _next_to(switch: Switch, victim: Method, cpu: int, folder: Path) -> float:
    for _ in range(MAX_TRIES):
        switch(True)
        time.sleep(SETTLE_S)
        rate = window(victim, cpu, folder)
        if switch(False):
            return rate
    raise SystemExit("a stressor did not press: run it again on a quieter machine")


def window(victim: Method, cpu: int, folder: Path) -> float:
    """Run a victim for a second; return its bogo operations per CPU second."""
    report = folder / "metrics.yaml"
    subprocess.run(  # noqa: S603 - stress-ng
        [*_pinned(victim, cpu, folder), "--timeout", f"{WINDOW_S}s",
         "--metrics", "--yaml", str(report)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    for line in report.read_text().splitlines():
        name, _, value = line.strip().partition(": ")
        if name == BASIS:
            return float(value)
    raise SystemExit(f"stress-ng did not report {BASIS} of {victim.name}")


def stressors(folder: Path, cpus: Mapping[Side, int]) -> dict[str, AbstractContextManager[Switch]]:
    """Return what presses: Berth's stressors, then methods of stress-ng."""
    ours = {f"`{name}`": _berth(name, folder, cpus) for name in OURS}
    theirs = {
        f"stress-ng {each.name}": _reference(each, folder, cpus[each.side])
        for each in METHODS.values()
    }
    return {**ours, **theirs}


@contextmanager
def _berth(name: str, folder: Path, cpus: Mapping[Side, int]) -> Iterator[Switch]:
    stressor = STRESSORS[name]
    # several stressors wait on a core: none of them may fill it while it is off
    priority = scheduling.request(tuple(cpus.values()), is_wanted=True)
    with StressProcess(stressor, cpus[stressor.side], str(folder), priority) as process:

        def switch(is_on: bool) -> bool:
            if is_on:
                process.on(100)
                return True
            pressed = process.off().pressed
            return process.is_timed_by_wall or pressed >= MIN_PRESSED * stressor.max_share

        try:
            yield switch
        finally:
            scheduling.restore()


@contextmanager
def _reference(method: Method, folder: Path, cpu: int) -> Iterator[Switch]:
    process = subprocess.Popen(  # noqa: S603 - stress-ng
        [*_pinned(method, cpu, folder), "--timeout", "0"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0,
    )  # fmt: skip
    time.sleep(0.5)  # until its workers run

    def switch(is_on: bool) -> bool:
        os.killpg(process.pid, signal.SIGCONT if is_on else signal.SIGSTOP)
        return process.poll() is None

    try:
        switch(False)
        yield switch
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _pinned(method: Method, cpu: int, folder: Path) -> list[str]:
    options = ["--taskset", str(cpu), "--temp-path", str(folder)]
    return ["/usr/bin/stress-ng", *method.options, *options]


def table_of(parts: Mapping[str, Mapping[str, Sequence[float]]]) -> Table:
    """Return the mean speed of every victim next to every stressor; bold: clearly below 0.95."""
    half = {name: half_width(found) for name, found in parts.items()}
    table = [["stressor", *(f"stress-ng {name}" for name in parts)]]
    for stressor in next(iter(parts.values())):
        cells = []
        for name, found in parts.items():
            mean = fmean(found[stressor])
            text = f"{mean:.2f}"
            cells.append(f"**{text}**" if mean + half[name] < QOS else text)
        table.append([stressor, *cells])
    table.append(["half of the 90 % interval", *(f"{half[name]:.2f}" for name in parts)])
    return table


def half_width(found: Mapping[str, Sequence[float]]) -> float:
    """Return half of the interval of a mean; the variance is pooled over the stressors."""
    values = np.array(list(found.values()))
    freedom = values.shape[0] * (values.shape[1] - 1)
    pooled = float(values.var(axis=1, ddof=1).mean())
    return float(stdtrit(freedom, 0.5 + LEVEL / 2.0)) * (pooled / values.shape[1]) ** 0.5


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
