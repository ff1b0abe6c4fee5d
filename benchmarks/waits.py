"""Start estimates beside the measured waits of independent queues (Tarcil §4, T7).

`run_pool` measures; the estimator sees what Berth would: run times predicted with errors, progress
of nothing, and the past. Three queues: one-unit jobs with lognormal run times, first come first
served, at 85 % utilisation and in a flood (1.3 times what the units can do, from an idle cluster
on); and a log of parallel jobs with EASY backfill, stretched to 85 %. The
peer is a backfill simulation with the predicted run times and without later jobs (Smith et al.,
IPPS 1999), which gives one number.

    ./dev bench waits --swf NASA-iPSC-1993-3.1-cln.swf.gz
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.scheduling.core.sizing.run_time import RunTime
from apps.scheduling.core.sizing.run_time_fit import RunTimeFit, fit_recent
from apps.scheduling.core.starts.estimates import (
    FreeUnits,
    History,
    Queue,
    RunningJob,
    WaitingGroup,
    estimate_starts,
)
from apps.scheduling.core.starts.state import NOBODY
from apps.testbed.core.batch.jobs import ParallelJobs
from apps.testbed.core.batch.pool import Discipline, PoolResult, run_pool
from apps.testbed.core.swf import at_load
from apps.testbed.files import read_swf
from benchmarks._results import RESULTS, Table, markdown, store

LOAD: Final = 0.85
UNITS: Final = 100
JOBS: Final = 30_000
LONG: Final = 8  # times fewer estimates of the log
WARM_UP: Final = 2000  # jobs before the first estimate
FLOOD_LOAD: Final = 1.3
FLOOD_JOBS: Final = 2000
FLOODS: Final = 4  # of each seed: the estimates of one flood err together
MIN_ESTIMATES: Final = 4 * FLOODS  # estimates of a queue, of which each flood has at least one
FLOOD_WARM_UP: Final = 200
SPREAD: Final = 0.3  # standard deviation of the log of predicted over true run times
SPREAD_OF_JOBS: Final = 1.0  # of the log of run times
RECENT: Final = 400
HISTORY: Final = 2000
Z: Final = 1.6448536269514722
BIAS_GOAL: Final = 0.08
COVERAGE_GOAL: Final = (0.85, 0.95)
BLOCK: Final = 25  # consecutive estimates of a queue, which err together; one flood
RESAMPLES: Final = 2000
EVERYWHERE: Final = np.ones(1, dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """A queue with its measured starts and the predictions of its run times.

    Attributes
    ----------
    predicted_s : (n,) of each job
    is_easy : whether the first waiting job has a reservation
    warm_up : jobs before the first estimate
    """

    result: PoolResult
    processors: int
    predicted_s: Floats
    is_easy: bool
    warm_up: int = WARM_UP

    @property
    def ends_s(self) -> Floats:
        """(n,) true ends."""
        return self.result.started_s + self.result.jobs.seconds


MakeQueue = Callable[[np.random.Generator], Measured]


@dataclass(frozen=True, slots=True)
class Estimate:
    """One estimate at the submission of a job that waits; waits in seconds."""

    wait_s: float
    p5_s: float
    p50_s: float
    mean_s: float
    p90_s: float
    p95_s: float
    peer_s: float


def services(rng: np.random.Generator) -> Measured:
    """One-unit jobs on a pool of units, first come first served."""
    return _measured(_one_unit_jobs(JOBS, LOAD, rng), UNITS, Discipline.FCFS, rng)


def flood(rng: np.random.Generator) -> Measured:
    """One-unit jobs beyond the capacity, so that the queue grows."""
    jobs = _one_unit_jobs(FLOOD_JOBS, FLOOD_LOAD, rng)
    return replace(_measured(jobs, UNITS, Discipline.FCFS, rng), warm_up=FLOOD_WARM_UP)


def _one_unit_jobs(count: int, load: float, rng: np.random.Generator) -> ParallelJobs:
    seconds = rng.lognormal(math.log(600.0), SPREAD_OF_JOBS, count)
    gap_s = seconds.mean() / (load * UNITS)
    # submissions in groups, as users submit sweeps
    sizes = rng.geometric(1 / 10, count)
    submit_s = np.repeat(np.cumsum(rng.exponential(gap_s * 10, count)), sizes)[:count]
    return ParallelJobs(submit_s, np.ones(count, dtype=np.int64), seconds, seconds)


def parallel(path: Path, rng: np.random.Generator) -> Measured:
    """Parallel jobs of a log under EASY backfill."""
    trace = read_swf(path)
    return _measured(
        at_load(trace.jobs, trace.processors, LOAD), trace.processors, Discipline.EASY, rng
    )


def _measured(
    jobs: ParallelJobs, processors: int, kind: Discipline, rng: np.random.Generator
) -> Measured:
    predicted_s = np.maximum(jobs.seconds, 1.0) * rng.lognormal(0.0, SPREAD, len(jobs))
    # what the scheduler plans with must not be shorter than the run
    limit_s = np.maximum(jobs.seconds, predicted_s * math.exp(Z * SPREAD))
    result = run_pool(replace(jobs, estimate_s=limit_s), processors, kind)
    return Measured(result, processors, predicted_s, kind is Discipline.EASY)


def at_submission(of: Measured, job: int, *, is_peer: bool) -> Queue:
    """Return what is known when a job is submitted.

    Parameters
    ----------
    is_peer : without errors of predictions and without later jobs
    """
    jobs, started_s, ends_s = of.result.jobs, of.result.started_s, of.ends_s
    now_s = jobs.submit_s[job]
    past = np.arange(job + 1)
    waiting = past[started_s[: job + 1] > now_s]
    running = past[(started_s[: job + 1] <= now_s) & (ends_s[: job + 1] > now_s)]
    ended = past[ends_s[: job + 1] <= now_s][-HISTORY:]
    recent = past[max(0, job - RECENT) : job]
    free = of.processors - int(jobs.processors[running].sum())
    groups = [_group(of, each, -place, 1, is_peer) for place, each in enumerate(waiting)]
    later = () if is_peer else range(len(groups), len(groups) + recent.size)
    groups += [_group(of, each, -JOBS, 0, is_peer) for each in recent]
    span_s = now_s - jobs.submit_s[recent[0]]
    fit = _fit(of, ended, running, float(now_s))
    return Queue(
        pools=FreeUnits(
            np.array([free]), np.zeros(1, np.int64), np.array([NOBODY]), np.array([math.inf])
        ),
        groups=groups,
        running=[
            RunningJob(
                {0: int(jobs.processors[each])},
                "job",
                float(now_s - started_s[each]),
                _run(of.predicted_s[each], is_peer=is_peer),
            )
            for each in running
        ],
        arriving=later,
        gap_s=float(span_s) / recent.size,
        history=History() if is_peer or fit is None else History(fits={"job": fit}),
        max_reservations=1 if of.is_easy else 0,
        is_counted=of.is_easy,
    )


def _fit(of: Measured, ended: Ints, running: Ints, now_s: float) -> RunTimeFit | None:
    """Fit run times to predictions: of jobs that have ended, and of those that run."""
    seconds, ages_s = np.maximum(of.result.jobs.seconds, 1.0), now_s - of.result.started_s
    since_s = of.ends_s[ended[0]] if ended.size == HISTORY else 0.0
    done = np.column_stack([of.predicted_s[ended], seconds[ended], ages_s[ended]])
    late = np.column_stack([of.predicted_s[running], np.maximum(ages_s[running], 1.0)])
    return fit_recent(done.tolist(), late.tolist(), now_s - since_s)


def _group(of: Measured, job: int, priority: int, count: int, is_peer: bool) -> WaitingGroup:
    units = int(of.result.jobs.processors[job])
    return WaitingGroup(
        allowed=EVERYWHERE,
        units=units,
        fewest=units,
        jobs=count,
        kind="job",
        run=_run(of.predicted_s[job], is_peer=is_peer),
        priority=priority,
        reserve_s=0.0 if count else math.inf,
    )


def _run(predicted_s: float, *, is_peer: bool) -> RunTime:
    wide = 1.0 if is_peer else math.exp(Z * SPREAD)
    return RunTime(float(predicted_s), float(predicted_s) * wide)


def estimates(
    of: Measured, count: int, rng: np.random.Generator, draws: np.random.Generator
) -> list[Estimate]:
    """Estimate the starts of jobs that wait, at their submission.

    Parameters
    ----------
    rng : chooses the jobs
    draws : of the simulations
    """
    waits = np.flatnonzero(of.result.wait_s > 1.0)
    waits = waits[waits >= of.warm_up]
    chosen = np.sort(rng.choice(waits, min(count, waits.size), replace=False))
    found = []
    for job in chosen.tolist():
        ours = estimate_starts(at_submission(of, job, is_peer=False), draws)
        peer = estimate_starts(at_submission(of, job, is_peer=True), draws, draws=1)
        found.append(
            Estimate(
                wait_s=float(of.result.wait_s[job]),
                p5_s=float(ours.p5[-1]),
                p50_s=float(ours.p50[-1]),
                mean_s=float(ours.mean[-1]),
                p90_s=float(ours.p90[-1]),
                p95_s=float(ours.p95[-1]),
                peer_s=float(peer.p50[-1]),
            )
        )
    return found


def scores(found: Sequence[Estimate]) -> dict[str, float]:
    """Compare estimates with what happened."""
    columns = np.array(
        [(e.wait_s, e.p5_s, e.p50_s, e.mean_s, e.p90_s, e.p95_s, e.peer_s) for e in found]
    ).T
    wait, p5, p50, mean, p90, p95, peer = columns
    reached = np.isfinite(mean)
    is_inside = (p5 <= wait) & (wait <= p95)
    low, high = _interval(is_inside)
    return {
        "n": wait.size,
        "reached": float(reached.mean()),
        "measured_s": float(wait.mean()),
        "bias": float(mean[reached].sum() / wait[reached].sum() - 1.0),
        "peer_bias": float(peer.sum() / wait.sum() - 1.0),
        "coverage": float(is_inside.mean()),
        "coverage_low": low,
        "coverage_high": high,
        "by_p90": float((wait <= p90).mean()),
        "error": float(np.abs(p50 - wait)[reached].mean() / wait[reached].mean()),
        "peer_error": float(np.abs(peer - wait).mean() / wait.mean()),
    }


def _interval(is_inside: Bools) -> tuple[float, float]:
    """Return the 90 % interval of a share, by a bootstrap over blocks of estimates."""
    blocks = np.array_split(is_inside, max(1, is_inside.size // BLOCK))
    inside = np.array([block.sum() for block in blocks])
    size = np.array([block.size for block in blocks])
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, size.size, (RESAMPLES, size.size))
    low, high = np.quantile(inside[chosen].sum(axis=1) / size[chosen].sum(axis=1), [0.05, 0.95])
    return float(low), float(high)


def main() -> int:
    """Run the benchmark; return 0 if every goal is met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--estimates", type=int, default=400, help="of each queue and seed")
    parser.add_argument("--swf", type=Path, help="log in the Standard Workload Format")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result")
    options = parser.parse_args()
    if options.estimates < MIN_ESTIMATES:
        parser.error(f"--estimates must be {MIN_ESTIMATES} or more, got {options.estimates}")
    found: dict[str, list[Estimate]] = {}
    for seed in range(1, options.seeds + 1):
        for name, make, count in _queues(options):
            # the same jobs and the same estimates of them, whatever the estimator draws
            streams = np.random.SeedSequence([seed, *name.encode()]).spawn(3)
            jobs, chosen, draws = (np.random.default_rng(each) for each in streams)
            found.setdefault(name.partition(" #")[0], []).extend(
                estimates(make(jobs), count, chosen, draws)
            )
    measured = {name: scores(each) for name, each in found.items()}
    table = _table(measured)
    _say(markdown(table))
    store(
        "waits",
        arguments={"seeds": options.seeds, "estimates": options.estimates, "load": LOAD},
        figures=measured,
        tables={"waits": table},
        folder=options.results,
    )
    met = [_is_met(name, each) for name, each in measured.items()]
    return 0 if all(met) else 1


def _queues(options: argparse.Namespace) -> list[tuple[str, MakeQueue, int]]:
    """Return the queues of a seed by name, and how many starts of each are estimated."""
    queues: list[tuple[str, MakeQueue, int]] = [("one unit, FCFS", services, options.estimates)]
    if options.swf:
        # hundreds of jobs wait in the log, each with a request of its own
        queues.append(("log, EASY", partial(parallel, options.swf), options.estimates // LONG))
    each = options.estimates // (4 * FLOODS) if FLOODS else 0
    queues += [(f"one unit, flood #{number}", flood, each) for number in range(FLOODS)]
    return queues


def _table(measured: dict[str, dict[str, float]]) -> Table:
    head = ["queue", "estimates", "mean wait", "bias of the mean", "in the 90 % interval"]
    table = [[*head, "by its p90", "error of the median", "peer: bias", "peer: error"]]
    for name, of in measured.items():
        table.append(
            [
                name,
                f"{of['n']:,.0f}",
                f"{of['measured_s']:,.0f} s",
                f"{of['bias']:+.1%}",
                f"{of['coverage']:.1%} ({of['coverage_low']:.1%} to {of['coverage_high']:.1%})",
                f"{of['by_p90']:.1%}",
                f"{of['error']:.1%}",
                f"{of['peer_bias']:+.1%}",
                f"{of['peer_error']:.1%}",
            ]
        )
    return table


def _is_met(name: str, of: dict[str, float]) -> bool:
    low, high = COVERAGE_GOAL
    is_met = abs(of["bias"]) <= BIAS_GOAL and low <= of["coverage"] <= high
    _say(f"{name}: bias within 8 %, coverage 85-95 %: {'met' if is_met else 'MISSED'}")
    return is_met


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
