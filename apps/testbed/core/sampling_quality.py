"""Measure whether the quality of sampled units follows x^R. Source: Tarcil §3.3, figure 4, T3.

Short and long one-unit jobs keep a heterogeneous cluster at a given load. For every decision of
the policy, the rank D of its unit is measured among the eligible units of its agent's snapshot.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from apps.emulation.core.draws import ANALYTICS, BATCH, SINGLE_NODE, application_truth
from apps.emulation.core.truth import Truth
from apps.inventory.core.snapshot import Floats, Ints
from apps.scheduling.core.types import Policy
from apps.testbed.core.demo_cluster import DemoCluster, demo_cluster, exact_request
from apps.testbed.core.offline import AgentSettings, JobArrival, OfflineRun, RecordedDecision
from apps.testbed.core.sampling_sizes import DECISIONS

APPLICATIONS: Final = 40
SHORT_SHARE: Final = 0.5
SHORT_S: Final = 5.0  # mean of an exponential
LONG_S: Final = (60.0, 600.0)  # uniform: Tarcil's Hadoop jobs of 1-10 minutes
MEAN_WORK_S: Final = SHORT_SHARE * SHORT_S + (1.0 - SHORT_SHARE) * sum(LONG_S) / 2.0
WARM_UP_S: Final = 1_200.0  # the longest jobs at the speed of an average platform
ESTIMATED_SPEED: Final = 0.5
GAIN: Final = 20.0
RATE_RANGE: Final = (0.2, 3.0)


@dataclass(frozen=True, slots=True)
class SamplingExperiment:
    """Settings of one measurement.

    Attributes
    ----------
    servers : number of servers, of the fourteen demo platforms
    size : R, candidates per decision
    decisions : number of decisions to measure
    load : share of the units in use, 0-1
    sync_s : interval at which the agents read the change log, cluster seconds
    agents : number of scheduler agents
    """

    servers: int = 600
    size: int = 8
    decisions: int = DECISIONS
    load: float = 0.725
    sync_s: float = 5.0
    agents: int = 2
    seed: int = 2015


@dataclass(frozen=True, slots=True, eq=False)
class SamplingQuality:
    """Measured ranks, and the distance of their distribution to the analytic one.

    Attributes
    ----------
    check : settings of the measurement
    ranks : (n,) D of each decision, ascending
    eligible : (n,) N, eligible units of each decision, in the order of `ranks`
    load : mean share of the units in use at the decisions
    conflict_share : share of the decisions with a commit conflict
    ks_distance : maximum distance to x^R at the ranks possible for each decision
    ks_discrete : the same, to the exact CDF of R draws without replacement
    ks_between : maximum distance to x^R anywhere, including between possible ranks
    """

    check: SamplingExperiment
    ranks: Floats
    eligible: Ints
    load: float
    conflict_share: float
    ks_distance: float
    ks_discrete: float
    ks_between: float


def _ignore(measured: int) -> None:
    """Report nothing."""


def measure(
    check: SamplingExperiment, policy: Policy, report: Callable[[int], None] = _ignore
) -> SamplingQuality:
    """Run the experiment.

    Parameters
    ----------
    report : called with the number of measured decisions at every arrival, also during the
        warm-up; an exception that it raises ends the experiment

    Raises
    ------
    ValueError : load is outside (0, 1), or decisions is below 1.
    """
    if not 0.0 < check.load < 1.0 or check.decisions < 1:
        raise ValueError(f"load must lie between 0 and 1 and decisions be at least 1, got {check}")
    world = demo_cluster(check.servers, check.seed)
    run_seed, draw_seed = np.random.SeedSequence([check.seed, check.size]).spawn(2)
    settings = AgentSettings(agents=check.agents, sync_s=check.sync_s)
    offline = OfflineRun(world, policy, settings, seed=int(run_seed.generate_state(1)[0]))
    arrivals = _arrivals(world, check, offline, np.random.default_rng(draw_seed), report)
    ran = offline.run(arrivals, drain=False)
    return _quality(check, [d for d in ran.decisions if d.placed.ranks.size > 0])


def distances(ranks: Floats, eligible: Ints, size: int) -> tuple[float, float, float]:
    """Kolmogorov-Smirnov distances of measured ranks to the analytic distributions.

    Parameters
    ----------
    ranks : (n,) D = i / (N - 1), ascending
    eligible : (n,) N of each
    size : R

    Returns
    -------
    to x^R at the possible ranks, to R draws without replacement, to x^R anywhere.

    D takes only N values, so its CDF is a staircase: with N = 200 and R = 32 the last step is
    0.15 high, and x^R, which passes through the ends of the steps, differs by up to that in
    between. Tarcil's Eq. 6 "holds for the discretized version" (its footnote 1), which the first
    two distances test: a decision with N units is compared at its own N ranks. The CDF at x is
    the mean over the decisions at their last rank up to x.
    """
    n = len(ranks)
    # for equal ranks, the CDF after the last of them
    ends = np.searchsorted(ranks, ranks, side="right") / n
    before = np.searchsorted(ranks, ranks, side="left") / n
    sizes, counts = np.unique(eligible, return_counts=True)
    last = np.floor(ranks[:, None] * (sizes - 1) + 1e-9)
    lattice = (last / np.maximum(sizes - 1, 1)) ** size @ counts / n
    exact = without_replacement(last, sizes, size) @ counts / n
    anywhere = max(np.abs(ends - ranks**size).max(), np.abs(before - ranks**size).max())
    return float(np.abs(ends - lattice).max()), float(np.abs(ends - exact).max()), float(anywhere)


def without_replacement(rank: Floats, eligible: Ints, size: int) -> Floats:
    """Probability that the best of R distinct units out of N has a rank index of at most `rank`.

    C(rank + 1, R) / C(N, R), as a product; all units are candidates if N <= R.
    """
    drawn = np.minimum(size, eligible)
    result = np.ones(np.broadcast_shapes(rank.shape, eligible.shape))
    for k in range(size):
        factor = np.clip((rank + 1 - k) / np.maximum(eligible - k, 1), 0.0, 1.0)
        result *= np.where(k < drawn, factor, 1.0)
    return result


def _quality(check: SamplingExperiment, decisions: list[RecordedDecision]) -> SamplingQuality:
    ranks = np.array([d.placed.ranks[0] for d in decisions])
    eligible = np.array([d.placed.eligible for d in decisions], dtype=np.int64)
    order = np.argsort(ranks, kind="stable")
    ks_distance, ks_discrete, ks_between = distances(ranks[order], eligible[order], check.size)
    return SamplingQuality(
        check=check,
        ranks=ranks[order],
        eligible=eligible[order],
        load=float(np.mean([d.used_share for d in decisions])),
        conflict_share=float(np.mean([not d.is_committed for d in decisions])),
        ks_distance=ks_distance,
        ks_discrete=ks_discrete,
        ks_between=ks_between,
    )


def _arrivals(
    world: DemoCluster,
    check: SamplingExperiment,
    offline: OfflineRun,
    rng: np.random.Generator,
    report: Callable[[int], None],
) -> Iterator[JobArrival]:
    """Draw arrivals: a warm-up, then one job per decision to measure.

    Run times depend on the policy, so the arrival rate is controlled by the load: Poisson with the
    rate that would hold the load at an estimated run time, increased below and decreased above it.
    """
    library = _applications(world)
    units = int(world.topology.server_units.sum())
    base = check.load * units * ESTIMATED_SPEED / MEAN_WORK_S
    now, measured = 0.0, 0
    while measured < check.decisions:
        error = (check.load - offline.used_share) / check.load
        now += rng.exponential(1.0 / (base * np.clip(1.0 + GAIN * error, *RATE_RANGE)))
        is_measured = now > WARM_UP_S
        measured += is_measured
        report(measured)
        truth = library[rng.integers(len(library))]
        is_short = rng.random() < SHORT_SHARE
        work = rng.exponential(SHORT_S) if is_short else rng.uniform(*LONG_S)
        request = exact_request(truth, f"job-{now:.9f}", measure_rank=is_measured)
        sampled = replace(request, sample_size=check.size)
        yield JobArrival(now, sampled, truth, work_s=max(work, 1e-3))


def _applications(world: DemoCluster) -> list[Truth]:
    """Draw analytics, batch and single-node applications in turn."""
    kinds = (ANALYTICS, BATCH, SINGLE_NODE)
    platforms = world.machines.platforms
    return [
        application_truth(world.seed, f"sampled-{i}", kinds[i % 3], platforms)
        for i in range(APPLICATIONS)
    ]
