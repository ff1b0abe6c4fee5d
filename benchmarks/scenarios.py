"""The paper's placement scenarios: run time and energy of each job under five policies.

    python -m benchmarks.scenarios [--stage parapluie india facebook600 facebook3000]
        [--seeds 3] [--hours 24] [--weights 0.22,1,0.36] [--data DIR]

The offline engine computes run times and energy from the programs' true behaviour; policies see
noisy readings only. The Facebook days need the traces in DIR/swim_facebook (SWIM project); without
them they are skipped with a message. `--hours` limits them to their first hours.
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
from apps.testbed.core.container_replay import KWH, ContainerResult
from apps.testbed.core.formats import parse_trace
from apps.testbed.core.scenarios import (
    BASELINES,
    POLICIES,
    SCENARIOS,
    PlacementScenario,
    run_scenario,
)
from apps.testbed.core.traces import SwimTrace
from benchmarks._calibration import calibrate, calibration_line

HOUR_S: Final = 3600.0
DATA: Final = Path(__file__).parents[2] / "shared" / "data"
MAX_LISTED: Final = 20  # print run times by job up to this number of jobs
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
OVERALL: Final = "paper, overall: up to 60 % faster, 20 % on average; up to 46 % less energy, 18 %"


class PolicyResult(NamedTuple):
    """Run times and energy of one policy in one scenario, a row for each seed.

    Attributes
    ----------
    run_s, joules : (seeds, jobs)
    total : (seeds,) joules of all nodes
    idle : (seeds,) joules that powered-off nodes would have used idling
    moves : mean number of migrations per seed
    seconds : wall time per seed
    """

    run_s: Floats
    joules: Floats
    total: Floats
    idle: Floats
    moves: float
    seconds: float


def measure(
    scenario: PlacementScenario, placer: str, seeds: Sequence[int], trace: SwimTrace | None
) -> PolicyResult:
    """Run a policy with each seed; only the last day of each run counts."""
    began = time.perf_counter()
    results: list[ContainerResult] = [
        run_scenario(scenario, placer, seed=seed, trace=trace)[-1] for seed in seeds
    ]
    return PolicyResult(
        run_s=np.array([result.run_s() for result in results]),
        joules=np.array([result.job_joules() for result in results]),
        total=np.array([result.joules for result in results]),
        idle=np.array([result.idle_joules for result in results]),
        moves=float(np.mean([sum(job.moves for job in result.jobs) for result in results])),
        seconds=(time.perf_counter() - began) / len(seeds),
    )


def saving(value: Floats, base: Floats) -> str:
    """Return the mean reduction relative to a baseline, over jobs and seeds, as text."""
    return f"{100.0 * (1.0 - np.mean(value / base)):+6.1f} %"


def line(name: str, result: PolicyResult, base: PolicyResult) -> str:
    """Return one policy's line against a baseline; plus means faster or less energy."""
    by_job = 1.0 - (result.run_s / base.run_s).mean(axis=0)
    energy = 1.0 - (result.joules / base.joules).mean(axis=0)
    return (
        f"  {name:<12} run time {saving(result.run_s, base.run_s)} "
        f"(best {100 * by_job.max():+.0f} %, worst {100 * by_job.min():+.0f} %)   "
        f"energy per job {saving(result.joules, base.joules)} "
        f"(best {100 * energy.max():+.0f} %)   "
        f"cluster energy {saving(result.total, base.total)}, "
        f"with empty nodes left on {saving(result.total + result.idle, base.total + base.idle)}\n"
    )


def report(
    scenario: PlacementScenario, results: dict[str, PolicyResult], jobs: Sequence[str]
) -> str:
    """Return the report of one scenario."""
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
    for name, result in results.items():
        text += (
            f"  {name:<12} {result.total.mean() / KWH:9.1f} kWh, with empty nodes left on "
            f"{(result.total + result.idle).mean() / KWH:9.1f} kWh   "
            f"{result.moves:7.0f} migrations   {result.seconds:7.1f} s to simulate\n"
        )
    if len(jobs) <= MAX_LISTED:
        text += " run time, hours      " + "".join(f"{job:>7}" for job in jobs) + "\n"
        for name, result in results.items():
            hours = result.run_s.mean(axis=0) / HOUR_S
            text += f"  {name:<20}" + "".join(f"{value:7.2f}" for value in hours) + "\n"
    return text


def trace_of(scenario: PlacementScenario, data: Path, hours: float) -> SwimTrace | None:
    """Return the first hours of a scenario's trace; None if it has none or the file is missing."""
    if scenario.trace is None:
        return None
    path = data.joinpath(*scenario.trace)
    if not path.exists():
        return None
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        trace = parse_trace(lines, path=str(path), name=path.name)
    if not isinstance(trace, SwimTrace):
        raise SystemExit(f"{path} is not a SWIM trace")
    count = int(np.searchsorted(trace.submit_s, hours * HOUR_S))
    return dataclasses.replace(
        trace,
        submit_s=trace.submit_s[:count],
        input_bytes=trace.input_bytes[:count],
        shuffle_bytes=trace.shuffle_bytes[:count],
        output_bytes=trace.output_bytes[:count],
    )


def run(scenario: PlacementScenario, options: argparse.Namespace) -> None:
    """Run one scenario and print its report."""
    sys.stdout.write(f"\n{scenario.label}\n")
    trace = trace_of(scenario, options.data, options.hours)
    if scenario.trace is not None and trace is None:
        missing = options.data.joinpath(*scenario.trace)
        sys.stdout.write(f" skipped: {missing} does not exist (--data)\n")
        return
    weights = options.weights or scenario.weights
    scenario = dataclasses.replace(scenario, weights=weights)
    seeds = range(1, options.seeds + 1)
    results: dict[str, PolicyResult] = {}
    for name in POLICIES:
        results[name] = measure(scenario, name, seeds, trace)
        sys.stderr.write(f" {name}: {results[name].seconds:.0f} s per seed\n")
    jobs = [job.key for job in scenario.day(trace, 1)]
    shown = ", ".join(f"{name} {value:g}" for name, value in weights.items())
    sys.stdout.write(f" {len(jobs)} jobs, {options.seeds} seeds, weights {shown}\n")
    sys.stdout.write(report(scenario, results, jobs) + f" {PAPER[scenario.name]}\n")
    sys.stdout.flush()


def weights_in(text: str) -> dict[str, float]:
    """Parse the weights of P, D and C."""
    values = [float(part) for part in text.split(",")]
    if len(values) != 3:
        raise argparse.ArgumentTypeError(
            "must be three weights, for P, D and C, such as 0.22,1,0.36"
        )
    return dict(zip("PDC", values, strict=True))


def main() -> None:
    """Run the selected scenarios."""
    parser = argparse.ArgumentParser(description="ClavisMO's scenarios on the offline engine.")
    parser.add_argument("--stage", nargs="+", choices=[*SCENARIOS, "facebook"], default=[""])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--hours", type=float, default=24.0, help="length of the Facebook days")
    parser.add_argument(
        "--weights", type=weights_in, help="weights of P, D and C for every scenario"
    )
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
