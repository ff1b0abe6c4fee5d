"""When waiting jobs are predicted to start: quantiles over simulations of the queue.

Each simulation (`kernel`) draws all run times: the rest of running jobs from their progress
or prediction, those of waiting jobs from their predictions, and jobs that will be submitted from
the recent ones. Jobs that must run on one server wait for a server with enough free units;
memory, other localities and spread are not simulated.

Sources: simulation of the queue with predicted run times (Smith, Taylor and Foster, IPPS 1999);
classes by free units with measured busy times (Tarcil §4, T7).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from apps.common.core.event_heap import empty_heap
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.scheduling.core.reservations.gangs import MARGIN
from apps.scheduling.core.sizing.run_time import RunTime
from apps.scheduling.core.sizing.run_time_fit import (
    ENOUGH,
    MIDDLES,
    NORMAL,
    QUANTILES,
    DrawnLines,
    RunTimeFit,
)
from apps.scheduling.core.starts.calibration import LEVELS
from apps.scheduling.core.starts.kernel import simulate
from apps.scheduling.core.starts.parts import Parts, sorted_parts
from apps.scheduling.core.starts.state import NOBODY, Arrivals, Groups, Pools, Reserving, Run

BUDGET: Final = 1_000_000  # events of all simulations together, with few groups
SCANNED: Final = 50  # groups that are tried in the time of the rest of an event
MIN_DRAWS, MAX_DRAWS = 24, 200
KNOWN_PROGRESS: Final = 0.05  # from this share of the work on, progress tells the rest
PROGRESS_SPREAD: Final = 0.1  # standard deviation of the log of the rest that progress tells
DRAWN: Final = 10  # uniform numbers of a simulation for each event
SPARE: Final = 4096  # and beyond
MAX_SPREAD: Final = 500_000  # units on several servers whose ends a simulation has room for
LATE: Final = 0.25  # of the elapsed time: the longest rest of a job that is later than predicted
NO_LINES: Final[Mapping[str, DrawnLines]] = MappingProxyType({})
_HIGH_Z: Final = NormalDist().inv_cdf(0.95)  # predicted intervals hold 90 %


@dataclass(frozen=True, slots=True)
class History:
    """What recently ended jobs of each class took.

    Attributes
    ----------
    fits : run times given their predictions, by class
    seconds : run times, by class
    """

    fits: Mapping[str, RunTimeFit] = field(default_factory=dict)
    seconds: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class WaitingGroup:
    """Waiting jobs with equal requests; the first was submitted first.

    Attributes
    ----------
    allowed : (P,) pools that they may use
    units, fewest : of each job, and those with which it may start
    jobs : number of them; 0 = of jobs that will be submitted
    run : predicted on all units; None = unknown
    on_one_server : whether the units of a job must be on one server; then ``fewest`` is ``units``
    refused : free units that would suffice by their number, and were refused; with
        ``on_one_server``, on servers with enough of them
    reserve_s : seconds until the first may keep freed units
    patience_s : seconds until each job takes any free unit, the refused ones too; empty: never
    """

    allowed: Bools
    units: int
    fewest: int
    jobs: int
    kind: str
    run: RunTime | None = None
    priority: int = 0
    on_one_server: bool = False
    refused: int = 0
    reserve_s: float = math.inf
    patience_s: Sequence[float] = ()

    def __post_init__(self) -> None:
        if self.on_one_server and self.fewest != self.units:
            raise ValueError(f"a job on one server starts with all {self.units} units")


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that holds units.

    Attributes
    ----------
    units : number of units in each part of a server
    elapsed_s : since its start
    run : predicted; None = unknown
    progress : share done of the work that it began with, when it was resumed or started
    """

    units: Mapping[int, int]
    kind: str
    elapsed_s: float
    run: RunTime | None = None
    progress: float = 0.0


class FreeUnits(NamedTuple):
    """Free units by part of a server: (N,) units and pools; (P,) as in `state.Pools`."""

    free: Ints
    pool: Ints
    holder: Ints
    until_s: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Queue:
    """A cluster and its queue at one moment.

    Attributes
    ----------
    groups : in the order in which agents try them
    arriving : groups of recently submitted jobs, by index
    gap_s : mean time between submissions
    max_reservations, is_counted : as in `state.Reserving`
    """

    pools: FreeUnits
    groups: Sequence[WaitingGroup]
    running: Sequence[RunningJob]
    arriving: Sequence[int] = ()
    gap_s: float = math.inf
    history: History = field(default_factory=History)
    max_reservations: int = 0
    is_counted: bool = False


class Starts(NamedTuple):
    """Quantiles of the starts, (n,) seconds from now; infinite: later than simulated.

    The jobs are those of the groups in order. `p5` to `p95` hold 90 %; `mean` is infinite if one
    simulation does not reach the start.
    """

    p5: Floats
    p50: Floats
    p90: Floats
    p95: Floats
    mean: Floats


def estimate_starts(queue: Queue, rng: np.random.Generator, *, draws: int = 0) -> Starts:
    """Estimate the start of each waiting job.

    Costs at most about ``BUDGET`` events, or ``MIN_DRAWS`` simulations of the whole queue.

    Parameters
    ----------
    draws : simulations; 0 = by the budget
    """
    groups, jobs = _groups(queue), sum(group.jobs for group in queue.groups)
    ends_of_patience = sum(len(group.patience_s) for group in queue.groups)
    events = jobs + len(queue.running) + len(queue.arriving) + 1 + ends_of_patience
    cost = events * (SCANNED + len(queue.groups)) // SCANNED
    draws = draws or min(MAX_DRAWS, max(MIN_DRAWS, BUDGET // cost))
    lines = {kind: fit.drawn(rng, draws) for kind, fit in queue.history.fits.items()}
    rests = remaining(queue.running, queue.history, rng, draws, lines)
    run_s = groups.run_s * _factors(queue.groups, lines, draws)
    pools = Pools(queue.pools.holder, queue.pools.until_s)
    reserving = Reserving(queue.max_reservations, queue.is_counted)
    parts = _parts(queue)
    arrivals = Arrivals(np.array(queue.arriving, dtype=np.int64), queue.gap_s)
    starts = np.full((draws, jobs), np.inf)
    for row, rest, own_s in zip(starts, rests, run_s, strict=True):
        run = _run(queue, groups, parts.copy(), rest, rng.random(DRAWN * events + SPARE), jobs)
        simulate(pools, groups._replace(run_s=own_s), arrivals, run, reserving, row)
    starts.sort(axis=0)
    at = [min(draws - 1, math.ceil(level * draws) - 1) for level in LEVELS]
    p5, p50, p90, p95 = (starts[i] for i in at)
    return Starts(p5, p50, p90, p95, starts.mean(axis=0))


def _factors(
    jobs: Sequence[WaitingGroup | RunningJob], lines: Mapping[str, DrawnLines], draws: int
) -> Floats:
    """(draws, n) by which the drawn lines change the run times of jobs."""
    factors = np.ones((draws, len(jobs)))
    for kind, drawn in lines.items():
        own = [i for i, job in enumerate(jobs) if job.kind == kind and job.run is not None]
        predicted_s = [job.run.value for job in jobs if job.kind == kind and job.run is not None]
        factors[:, own] = drawn.factors(np.array(predicted_s))
    return factors


def remaining(
    running: Sequence[RunningJob],
    history: History,
    rng: np.random.Generator,
    draws: int,
    lines: Mapping[str, DrawnLines] = NO_LINES,
) -> Floats:
    """(draws, n) seconds until running jobs end; infinite if unknown.

    Parameters
    ----------
    lines : drawn for the history's fits, by class
    """
    rest = np.full((draws, len(running)), np.inf)
    factors = _factors(running, lines, draws)
    for i, job in enumerate(running):
        rest[:, i] = _rest(job, history, rng, factors[:, i])
    return rest


def _rest(
    job: RunningJob, history: History, rng: np.random.Generator, factors: Floats
) -> Floats | float:
    """(draws,) seconds until a job ends; `factors` are those of its run time."""
    draws = factors.size
    if job.progress >= KNOWN_PROGRESS and job.elapsed_s > 0.0:
        rest_s = job.elapsed_s * (1.0 - job.progress) / job.progress
        known: Floats = rest_s * np.exp(PROGRESS_SPREAD * rng.standard_normal(draws))
        return known
    total = _distribution(job.kind, job.run, history)
    if total is None:
        return math.inf
    first = np.searchsorted(total, job.elapsed_s / factors, side="right")
    late = rng.random(draws) * LATE * job.elapsed_s
    longer = np.minimum(rng.integers(first, np.maximum(first + 1, total.size)), total.size - 1)
    rest: Floats = np.where(first < total.size, factors * total[longer] - job.elapsed_s, late)
    return rest


def _planned(running: Sequence[RunningJob]) -> Floats:
    """(n,) seconds until agents plan that running jobs end, as `services.reservations` reads."""
    planned = np.full(len(running), np.inf)
    for i, job in enumerate(running):
        by_progress = math.inf
        if job.progress > 0.0:
            by_progress = MARGIN * job.elapsed_s * (1.0 - job.progress) / job.progress
        rest_s = -math.inf if job.run is None else job.run.high - job.elapsed_s
        planned[i] = rest_s if rest_s > 0.0 else by_progress
    return planned


def _distribution(kind: str, run: RunTime | None, history: History) -> Floats | None:
    """Return sorted run times of equal probability; None if unknown."""
    fit = history.fits.get(kind)
    if run is not None and fit is not None:
        fitted: Floats = np.exp(fit.offset + fit.slope * math.log(run.value) + fit.errors)
        return fitted
    if run is not None:
        spread = math.log(run.high / run.value) / _HIGH_Z
        predicted: Floats = run.value * np.exp(spread * NORMAL)
        return predicted
    known = history.seconds.get(kind)
    if known is None or known.size < ENOUGH:
        return None
    quantiles: Floats = np.quantile(known, MIDDLES)
    return quantiles


def _groups(queue: Queue) -> Groups:
    count, pools = len(queue.groups), queue.pools.holder.size
    run_s, longest_s = np.full(count, np.inf), np.full(count, np.inf)
    ratios = np.ones((count, QUANTILES))
    for i, group in enumerate(queue.groups):
        total = _distribution(group.kind, group.run, queue.history)
        if total is not None:
            run_s[i] = total[QUANTILES // 2]
            ratios[i] = total / run_s[i]
        if group.run is not None:
            longest_s[i] = group.run.high
    jobs = _column([group.jobs for group in queue.groups])
    return Groups(
        allowed=np.array([g.allowed for g in queue.groups], dtype=np.bool_).reshape(count, pools),
        units=_column([group.units for group in queue.groups]),
        fewest=_column([group.fewest for group in queue.groups]),
        on_one_server=np.array([group.on_one_server for group in queue.groups], dtype=np.bool_),
        jobs=jobs,
        first=np.cumsum(jobs) - jobs,
        priority=_column([group.priority for group in queue.groups]),
        run_s=run_s,
        longest_s=longest_s,
        ratios=ratios,
        refused=_column([group.refused for group in queue.groups]),
        reserve_s=np.array([group.reserve_s for group in queue.groups], dtype=np.float64),
        patience_s=_patience(queue.groups),
    )


def _patience(groups: Sequence[WaitingGroup]) -> Floats:
    """(J,) of all jobs in order; empty if no job has any."""
    if not any(group.patience_s for group in groups):
        return np.empty(0)
    by_job = [group.patience_s or [math.inf] * group.jobs for group in groups]
    if [*map(len, by_job)] != [group.jobs for group in groups]:
        raise ValueError("a group needs one patience for each of its jobs")
    return np.array([seconds for own in by_job for seconds in own], dtype=np.float64)


def _column(values: Collection[int]) -> Ints:
    return np.array(list(values), dtype=np.int64)


def _parts(queue: Queue) -> Parts:
    """Return the free units of all parts of servers, with room for those that jobs hold."""
    units = queue.pools.free.copy()
    for job in queue.running:
        for part, held in job.units.items():
            units[part] += held
    most = int(units.max(initial=0))
    return sorted_parts(queue.pools.pool, queue.pools.free, queue.pools.holder.size, most)


def _run(
    queue: Queue, groups: Groups, parts: Parts, rest: Floats, draws: Floats, jobs: int
) -> Run:
    """Return the state at the beginning of one simulation, which may change the parts."""
    count, pools = groups.jobs.size, queue.pools.holder.size
    free = np.bincount(parts.pool, parts.free, minlength=pools).astype(np.int64)
    holds = np.array(
        [(i, *held) for i, job in enumerate(queue.running) for held in job.units.items()],
        dtype=np.int64,
    ).reshape(-1, 3)
    at = rest[holds[:, 0]]
    order = np.argsort(at, kind="stable")[: int(np.isfinite(at).sum())]
    room = order.size + draws.size + _spread_units(groups)
    ends = empty_heap(room)
    part, units, planned_s = np.zeros(room, np.int64), np.zeros(room, np.int64), np.zeros(room)
    part[: order.size], units[: order.size] = holds[order, 1], holds[order, 2]
    planned_s[: order.size] = _planned(queue.running)[holds[order, 0]]
    ends.at[: order.size], ends.what[: order.size] = at[order], np.arange(order.size)
    ends.size[0] = order.size  # sorted entries are a heap
    return Run(
        parts=parts,
        free=free,
        aside=np.full(parts.free.size, NOBODY),
        kept_part=np.full(count, NOBODY),
        kept=np.zeros(pools, dtype=np.int64),
        shadow_s=np.full(count, np.inf),
        kept_until=np.full(1, np.inf),
        left=groups.jobs.copy(),
        begun=np.zeros(count, dtype=np.int64),
        refused=groups.refused.copy(),
        reserve_s=groups.reserve_s.copy(),
        order=np.arange(count),
        moves=np.zeros(count, dtype=np.bool_),
        scratch=np.zeros(count, dtype=np.int64),
        ends=ends,
        part=part,
        units=units,
        planned_s=planned_s,
        draws=draws,
        tally=np.array([order.size, 0, jobs, 0]),
    )


def _spread_units(groups: Groups) -> int:
    """Return the units of waiting jobs that may be on several servers, at most `MAX_SPREAD`."""
    units = groups.jobs * groups.units
    return min(MAX_SPREAD, int(units[~groups.on_one_server & (groups.units > 1)].sum()))
