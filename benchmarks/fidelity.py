"""Fidelity of the emulator (K6): one scenario on real agents and on emulated nodes.

Starts two instances: three agents on this machine that run real programs, and emulated servers of
the shapes that these agents registered. Both get the same jobs at the same times, seed by seed in
turns. A program sleeps, or computes for a number of CPU seconds, so its run time is known; the
emulated job has this run time as its duration. Compares the distributions of each delay.

    ./dev bench fidelity --seeds 5 --jobs 40
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats
from apps.testbed.management.replay.api_client import ApiClient
from benchmarks._calibration import calibrate, calibration_line
from benchmarks._distributions import QUANTILES, Distance, Interval, distance, quantiles
from benchmarks._fidelity_sites import AGENTS, EMULATED, Sites, Stamps, running_sites
from benchmarks._results import RESULTS, Table, markdown, store

RATE_PER_S: Final = 1.5  # arrivals
MEAN_RUN_S: Final = 2.0
SIGMA: Final = 0.6  # of the logarithm of run times
COMPUTING: Final = 0.25  # share of the jobs that compute; the others sleep
COMPUTE: Final = "import time\nwhile time.process_time() < {seconds}: pass"
ROUND_TIMEOUT_S: Final = 120.0
WARM: Final = 5
BOOTSTRAP_SEED: Final = 6
COMPARED: Final[dict[str, str]] = {
    "submission to units": "placing",
    "units to process": "starting",
    "run time beyond the known one, sleeping": "overrun_sleeping",
    "run time beyond the known one, computing": "overrun_computing",
    "end of the process to its report": "reporting",
    "turnaround": "turnaround",
}


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job of the scenario: seconds after its begin, known run time, and kind."""

    at_s: float
    run_s: float
    computes: bool

    def command(self) -> list[str]:
        """Return the program."""
        if self.computes:
            return [sys.executable, "-c", COMPUTE.format(seconds=self.run_s)]
        return ["sleep", str(self.run_s)]


@dataclass(frozen=True, slots=True)
class Delays:
    """Delays of the jobs of one round, in seconds, in the order of the scenario."""

    placing: Floats
    starting: Floats
    overrun_sleeping: Floats
    overrun_computing: Floats
    reporting: Floats
    turnaround: Floats


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="rounds on each backend")
    parser.add_argument("--jobs", type=int, default=40, help="of each round")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result")
    options = parser.parse_args()
    before_ms = calibrate()
    with running_sites() as sites:
        _rounds(sites, seeds=1, jobs=WARM)
        found = _rounds(sites, seeds=options.seeds, jobs=options.jobs)
        launched = np.concatenate([sites.order_to_process_s(one) for one in found[AGENTS].stamps])
    calibration = calibration_line(before_ms, calibrate())
    tables = tables_of(
        {name: rounds.delays for name, rounds in found.items()},
        rng=np.random.default_rng(BOOTSTRAP_SEED),
    )
    starting = np.concatenate([one.starting for one in found[AGENTS].delays])
    figures = [
        log_normal_line("units to process", starting),
        log_normal_line("order to process", launched),
        calibration,
    ]
    for text in (*map(markdown, tables.values()), *figures):
        sys.stdout.write(f"{text}\n\n")
    chosen = {"seeds": options.seeds, "jobs": options.jobs}
    store("fidelity", arguments=chosen, figures=figures, tables=tables, folder=options.results)
    return 0


@dataclass(slots=True)
class Rounds:
    """The rounds of one backend."""

    delays: list[Delays]
    stamps: list[dict[str, Stamps]]


def _rounds(sites: Sites, *, seeds: int, jobs: int) -> dict[str, Rounds]:
    """Run the scenario of each seed on both backends, the first one by turns."""
    found = {AGENTS: Rounds([], []), EMULATED: Rounds([], [])}
    for seed in range(seeds):
        arrivals = scenario(np.random.default_rng(seed), jobs=jobs)
        for name in (AGENTS, EMULATED) if seed % 2 == 0 else (EMULATED, AGENTS):
            with closing(sites.client(name)) as api:
                ids = _submit(api, arrivals, is_real=name == AGENTS)
                _await_ends(api, ids)
            stamps = sites.stamps(name, ids)
            found[name].stamps.append(stamps)
            found[name].delays.append(delays_of(arrivals, [stamps[job] for job in ids]))
            sys.stderr.write(f"{time.strftime('%H:%M:%S')} seed {seed}: {name}\n")
    return found


def scenario(rng: np.random.Generator, *, jobs: int) -> list[Arrival]:
    """Draw Poisson arrivals with log-normal run times, rounded to milliseconds."""
    at = np.cumsum(rng.exponential(1.0 / RATE_PER_S, jobs))
    run = np.round(rng.lognormal(np.log(MEAN_RUN_S) - SIGMA**2 / 2.0, SIGMA, jobs), 3)
    computes = rng.random(jobs) < COMPUTING
    return [
        Arrival(*row) for row in zip(at.tolist(), run.tolist(), computes.tolist(), strict=True)
    ]


def _submit(api: ApiClient, arrivals: Sequence[Arrival], *, is_real: bool) -> list[str]:
    """Submit each job at its time; return their ids."""
    begin, ids = time.monotonic(), []
    for number, arrival in enumerate(arrivals):
        time.sleep(max(0.0, begin + arrival.at_s - time.monotonic()))
        body = body_of(arrival, is_real=is_real)
        reply = api.post("/api/v1/jobs/", body, key=f"fidelity-{begin}-{number}")
        if not reply.is_good:
            raise SystemExit(f"the job was refused: {reply.problem}")
        ids.append(reply.body["metadata"]["id"])
    return ids


def body_of(arrival: Arrival, *, is_real: bool) -> dict[str, object]:
    """Return the request: a program, or an emulated job that takes as long."""
    name = "computing" if arrival.computes else "sleeping"
    common: dict[str, object] = {"application": name, "units": 1}
    if is_real:
        return {**common, "command": arrival.command()}
    return {**common, "target": {"kind": "best_effort"}, "duration_seconds": arrival.run_s}


def _await_ends(api: ApiClient, ids: Sequence[str]) -> None:
    """Wait until all jobs have succeeded."""
    until = time.monotonic() + ROUND_TIMEOUT_S
    for job in ids:
        while (state := api.get(f"/api/v1/jobs/{job}/").body["status"]["state"]) != "succeeded":
            if state in {"failed", "cancelled"} or time.monotonic() > until:
                raise SystemExit(f"job {job} is {state}")
            time.sleep(0.5)


def delays_of(arrivals: Sequence[Arrival], stamps: Sequence[Stamps]) -> Delays:
    """Return the delays of one round.

    Parameters
    ----------
    stamps : of the same jobs in the same order
    """
    submitted, placed, started, ended, reported = np.array(stamps, dtype=np.float64).T
    computes = np.array([arrival.computes for arrival in arrivals], dtype=np.bool_)
    overrun = ended - started - np.array([arrival.run_s for arrival in arrivals])
    return Delays(
        placing=placed - submitted,
        starting=started - placed,
        overrun_sleeping=overrun[~computes],
        overrun_computing=overrun[computes],
        reporting=reported - ended,
        turnaround=reported - submitted,
    )


def tables_of(
    found: Mapping[str, Sequence[Delays]], *, rng: np.random.Generator
) -> dict[str, Table]:
    """Return the quantiles of each delay on both backends, and their distances."""
    spread = [["ms", *(f"{name}: p{100 * q:.0f}" for name in found for q in QUANTILES)]]
    apart = [["", "KS distance", "limit at 5 %", "mean of emulated minus agents", "verdict"]]
    for label, field in COMPARED.items():
        groups = [[getattr(one, field) for one in rounds] for rounds in found.values()]
        cells = [_cell(each) for group in groups for each in quantiles(group, rng=rng)]
        spread.append([label, *cells])
        apart.append([label, *_distance_cells(distance(*groups))])
    return {"delays": spread, "distances": apart}


def _cell(interval: Interval) -> str:
    whole = (round(1e3 * each) for each in (interval.value, interval.low, interval.high))
    return "{} [{}, {}]".format(*whole)


def _distance_cells(found: Distance) -> list[str]:
    verdict = "differ" if found.is_distinguishable else "not distinguishable"
    return [f"{found.ks:.2f}", f"{found.limit:.2f}", f"{_cell(found.mean)} ms", verdict]


def log_normal_line(name: str, seconds: Floats) -> str:
    """Describe a delay on agents as the emulator can draw it."""
    median, sigma = log_normal(seconds)
    return (
        f"{name} on agents: log-normal with median {1e3 * median:.1f} ms and"
        f" sigma {sigma:.2f}, from {seconds.size} launches"
    )


def log_normal(seconds: Floats) -> tuple[float, float]:
    """Fit a log-normal distribution: median in seconds, and standard deviation of the logarithm.

    The deviation is half the distance of the quantiles 16 % and 84 %: a late launch out of many
    does not widen it.
    """
    low, high = np.quantile(np.log(seconds), (0.1587, 0.8413))
    return float(np.median(seconds)), float((high - low) / 2.0)


if __name__ == "__main__":
    sys.exit(main())
