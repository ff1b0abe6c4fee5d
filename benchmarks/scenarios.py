"""The paper's placement scenarios: run time and energy of each job under five policies.

    python -m benchmarks.scenarios [--stage parapluie india facebook600 facebook3000]
        [--seeds 3] [--hours 24] [--weights 0.22,1,0.36] [--data DIR]

Run times and energy are those of the offline engine, by the truths of the programs; every policy
sees noisy readings only. Facebook days need the traces of DIR/swim_facebook (SWIM project), and
are left out with a word where they are absent; `--hours` takes their first hours only.
"""

import argparse
import dataclasses
import gzip
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Floats
from apps.testbed.core.containers import KWH, Outcome
from apps.testbed.core.formats import parse_trace
from apps.testbed.core.scenarios import BASELINES, PLACERS, SCENARIOS, Scenario, play
from apps.testbed.core.traces import SwimTrace
from benchmarks._calibration import calibrate, calibration_line

HOUR_S: Final = 3600.0
DATA: Final = Path(__file__).parents[2] / "shared" / "data"
MOST_LISTED: Final = 20  # jobs of a scenario whose run times are printed one by one
PAPER: Final = {
    "parapluie": (
        "paper, figure 9 against NodeRR: up to 60 % faster in stages 1 and 2 (Expert, ClavisMO); "
        "Expert slows J by more than 60 % in stage 4, ClavisMO does not; 6 kWh less, and almost "
        "2 kWh less than Expert in stage 3"
    ),
    "india": (
        "paper, figure 13 against SlotRR: T and W over 40 % faster (Expert, ClavisMO), X 62 % "
        "(ClavisMO); Y and Z inside a rack (ClavisMO); 46 % less energy in stage 2"
    ),
    "facebook600": (
        "paper, figure 14 against NodeRR: little room to be faster, Dot-Product slower, both save "
        "energy (bars without figures in the text)"
    ),
    "facebook3000": (
        "paper, figure 15 against SlotRR: ClavisMO avoids the slow-downs of Dot-Product (bars "
        "without figures in the text)"
    ),
}
OVERALL: Final = (
    "paper, over all: up to 60 % faster, 20 % on average; up to 46 % less energy, 18 %"
)


class Result(NamedTuple):
    """What one policy made of one scenario, a row for each seed.

    Attributes
    ----------
    run_s, joules : (seeds, jobs)
    total, idle : (seeds,) joules of all nodes, and what those that were off would have drawn
    """

    run_s: Floats
    joules: Floats
    total: Floats
    idle: Floats
    moves: float
    seconds: float


def measure(
    scenario: Scenario, placer: str, seeds: Sequence[int], trace: SwimTrace | None
) -> Result:
    """Run a policy with each seed; the last day of each counts."""
    began = time.perf_counter()
    made: list[Outcome] = [play(scenario, placer, seed=seed, trace=trace)[-1] for seed in seeds]
    return Result(
        run_s=np.array([one.run_s() for one in made]),
        joules=np.array([one.job_joules() for one in made]),
        total=np.array([one.joules for one in made]),
        idle=np.array([one.idle_joules for one in made]),
        moves=float(np.mean([sum(job.moves for job in one.jobs) for one in made])),
        seconds=(time.perf_counter() - began) / len(seeds),
    )


def less(value: Floats, base: Floats) -> str:
    """By how much less a value is than a base, on average over jobs and seeds."""
    return f"{100.0 * (1.0 - np.mean(value / base)):+6.1f} %"


def line(name: str, found: Result, base: Result) -> str:
    """Return one policy's line beside a baseline; plus is faster, or less energy."""
    by_job = 1.0 - (found.run_s / base.run_s).mean(axis=0)
    energy = 1.0 - (found.joules / base.joules).mean(axis=0)
    return (
        f"  {name:<12} run time {less(found.run_s, base.run_s)} "
        f"(best {100 * by_job.max():+.0f} %, worst {100 * by_job.min():+.0f} %)   "
        f"energy a job {less(found.joules, base.joules)} (best {100 * energy.max():+.0f} %)   "
        f"of the cluster {less(found.total, base.total)}, "
        f"were empty nodes idle {less(found.total + found.idle, base.total + base.idle)}\n"
    )


def report(scenario: Scenario, results: dict[str, Result], jobs: Sequence[str]) -> str:
    """Return what is printed of one scenario."""
    text = ""
    for baseline in BASELINES:
        text += (
            f" against {baseline} (the paper's)\n"
            if baseline == scenario.baseline
            else (f" against {baseline}\n")
        )
        others = [name for name in results if name != baseline]
        text += "".join(line(name, results[name], results[baseline]) for name in others)
    text += " totals\n"
    for name, found in results.items():
        text += (
            f"  {name:<12} {found.total.mean() / KWH:9.1f} kWh, were empty nodes idle "
            f"{(found.total + found.idle).mean() / KWH:9.1f} kWh   "
            f"{found.moves:7.0f} moves   {found.seconds:7.1f} s to simulate\n"
        )
    if len(jobs) <= MOST_LISTED:
        text += " run time, hours      " + "".join(f"{job:>7}" for job in jobs) + "\n"
        for name, found in results.items():
            hours = found.run_s.mean(axis=0) / HOUR_S
            text += f"  {name:<20}" + "".join(f"{value:7.2f}" for value in hours) + "\n"
    return text


def trace_of(scenario: Scenario, data: Path, hours: float) -> SwimTrace | None:
    """Return the first hours of a scenario's trace; None where the data are absent."""
    if scenario.trace is None:
        return None
    path = data.joinpath(*scenario.trace)
    if not path.exists():
        return None
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        trace = parse_trace(lines, path=str(path), name=path.name)
    if not isinstance(trace, SwimTrace):
        raise SystemExit(f"{path} is no SWIM trace")
    count = int(np.searchsorted(trace.submit_s, hours * HOUR_S))
    return dataclasses.replace(
        trace,
        submit_s=trace.submit_s[:count],
        input_bytes=trace.input_bytes[:count],
        shuffle_bytes=trace.shuffle_bytes[:count],
        output_bytes=trace.output_bytes[:count],
    )


def run(scenario: Scenario, options: argparse.Namespace) -> None:
    """Print one scenario."""
    sys.stdout.write(f"\n{scenario.label}\n")
    trace = trace_of(scenario, options.data, options.hours)
    if scenario.trace is not None and trace is None:
        missing = options.data.joinpath(*scenario.trace)
        sys.stdout.write(f" left out: there is no {missing.name} below --data\n")
        return
    weights = options.weights or scenario.weights
    scenario = dataclasses.replace(scenario, weights=weights)
    seeds = range(1, options.seeds + 1)
    results: dict[str, Result] = {}
    for name in PLACERS:
        results[name] = measure(scenario, name, seeds, trace)
        sys.stderr.write(f" {name}: {results[name].seconds:.0f} s a seed\n")
    jobs = [job.key for job in scenario.day(trace, 1)]
    shown = ", ".join(f"{name} {value:g}" for name, value in weights.items())
    sys.stdout.write(f" {len(jobs)} jobs, {options.seeds} seeds, weights {shown}\n")
    sys.stdout.write(report(scenario, results, jobs) + f" {PAPER[scenario.name]}\n")
    sys.stdout.flush()


def weights_in(text: str) -> dict[str, float]:
    """Read weights of P, D and C."""
    values = [float(part) for part in text.split(",")]
    if len(values) != 3:
        raise argparse.ArgumentTypeError("three weights, of P, D and C: 0.22,1,0.36")
    return dict(zip("PDC", values, strict=True))


def main() -> None:
    """Print all scenarios asked for."""
    parser = argparse.ArgumentParser(description="ClavisMO's scenarios on the offline engine.")
    parser.add_argument("--stage", nargs="+", choices=[*SCENARIOS, "facebook"], default=[""])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--hours", type=float, default=24.0, help="of the Facebook days")
    parser.add_argument("--weights", type=weights_in, help="of P, D and C, for every scenario")
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    before = calibrate()
    for name, scenario in SCENARIOS.items():
        if name.startswith(tuple(options.stage)):
            run(scenario, options)
    sys.stdout.write(f"\n{OVERALL}\n")
    sys.stdout.write(f"{platform.machine()}, {os.cpu_count()} cores; ")
    sys.stdout.write(calibration_line(before, calibrate()) + "\n")


if __name__ == "__main__":
    main()
