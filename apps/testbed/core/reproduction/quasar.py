"""Quasar's large scenario (Delimitrou and Kozyrakis, ASPLOS '14, §6.5, figure 11).

1,200 jobs at intervals of a second on 200 EC2 servers, sized for a completion time by Quasar, or
by the reservations of their users. The paper's jobs and targets are not published: here a job has
work for 1 to 8 units, and its target is one and a half times the time that these would need alone
on the highest-end platform. Reservations deviate from these units as those at Twitter do (the
paper's figure 1d): 70 % are up to 10 times too large, 20 % up to 5 times too small.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import numpy as np

from apps.emulation.core.draws import ANALYTICS, BATCH, SINGLE_NODE
from apps.inventory.core.snapshot import Ints
from apps.scheduling.core.types import MAX_UNITS
from apps.testbed.core.replay.clusters import synthetic_cluster
from apps.testbed.core.replay.workloads import Application, workload
from apps.testbed.core.reproduction.figures import DataSets, Figure, Paper, Quantity, Relation
from apps.testbed.core.reproduction.replays import Replayed, Scenario, replayed

JOBS: Final = 1_200
SERVERS: Final = 200
SMALL: Final = 4
POLICIES: Final = {
    "Q": "quasar",
    "RP": "reservation_paragon",
    "RL": "reservation_least_loaded",
}
KINDS: Final = (ANALYTICS, ANALYTICS, SINGLE_NODE, BATCH)
NEEDS: Final = (1, 2, 4, 8)  # units
WAVES: Final = 4  # of tasks on these units
SLACK: Final = 1.5  # of a target
# 3.75 units for 279 s on average, once a second: nine tenths of the cores, at their mean speed
SHORTEST_S: Final = 100.0
LONGEST_S: Final = 600.0
PER_KIND: Final = 10  # applications
OVER: Final = 0.7  # share of reservations that are too large, and the largest factor
MAX_OVER: Final = 10.0
UNDER: Final = 0.2
MAX_UNDER: Final = 5.0


def reservations(needs: Ints, rng: np.random.Generator) -> Ints:
    """(n,) units that users reserve, by the ratios of Quasar's figure 1d; log-uniform in each."""
    n = needs.size
    kind = rng.random(n)
    over = np.exp(rng.uniform(0.0, np.log(MAX_OVER), n))
    under = np.exp(-rng.uniform(0.0, np.log(MAX_UNDER), n))
    ratio = np.where(kind < OVER, over, np.where(kind < OVER + UNDER, under, 1.0))
    return np.clip(np.round(needs * ratio), 1, MAX_UNITS).astype(np.int64)


def scenario_of(seed: int, *, scale: int = 1) -> Scenario:
    """Return the cluster and its jobs; ``scale`` = how many times fewer of both."""
    rng = np.random.default_rng([seed, JOBS])
    n = JOBS // scale
    kind = rng.integers(len(KINDS), size=n)
    needs = rng.choice(np.array(NEEDS), size=n)
    seconds = np.exp(rng.uniform(np.log(SHORTEST_S), np.log(LONGEST_S), n))
    load = workload(
        f"Quasar, {n} jobs",
        [Application(f"q{k}-{i}", name) for k, name in enumerate(KINDS) for i in range(PER_KIND)],
        np.arange(n, dtype=np.float64) * scale,
        kind * PER_KIND + rng.integers(PER_KIND, size=n),
        seconds * needs,
        tasks=WAVES * needs,
        target_s=SLACK * seconds,
    )
    cluster = synthetic_cluster(SERVERS // scale, seed=seed)
    return Scenario(cluster, load, reserved=reservations(needs, rng))


def target_share(run: Replayed, *, with_wait: bool = True) -> float:
    """Percent of the target reached, mean over the jobs: target over time, at most 1; 0 = none.

    Parameters
    ----------
    with_wait : count the time from the arrival, not from the start
    """
    taken_s = run.result.ended_s - (run.result.arrived_s if with_wait else run.result.started_s)
    share = np.minimum(run.load.target_s / taken_s, 1.0)
    return 100.0 * float(np.nan_to_num(share).mean())


def _measure(scale: int, seed: int, _data: DataSets) -> Mapping[str, float]:
    scenario = scenario_of(seed, scale=scale)
    values = {}
    for label, policy in POLICIES.items():
        run = replayed(scenario, policy, seed)
        values[label] = target_share(run)
        values[f"{label}-run"] = target_share(run, with_wait=False)
        values[f"{label}-used"] = run.useful_share()
        values[f"{label}-held"] = 100.0 * run.result.run.utilisation_mean
    return values


def measure_of(scale: int) -> Callable[[int, DataSets], Mapping[str, float]]:
    """Return the measurement at a scale."""
    return partial(_measure, scale)


LABELS: Final = {
    "Q": "Quasar", "RP": "reservation + Paragon", "RL": "reservation + least-loaded",
}  # fmt: skip
OWN_JOBS: Final = (
    "Jobs, targets and times are ours: the paper publishes none. Services with a latency target "
    "are left out, as a replay has no queries. The share counted from the start shows how much is "
    "lost by waiting. Up to four times the units that a job needs speed it up, so a reservation "
    "that is too large costs the jobs that wait, not its own."
)
USED: Final = (
    "The paper measures the use of CPUs. Here it is the work requested over the capacity until "
    "the last job ends, in unit-seconds of the highest-end platform, so slower platforms and the "
    "end of the scenario count as unused."
)
RATIOS: Final = "The ratios of reservations are those of the paper's figure 1d."

QUASAR: Final = Paper(
    "quasar",
    "Delimitrou and Kozyrakis, ASPLOS 2014",
    (
        Figure(
            "11",
            "1,200 jobs on 200 servers: share of the target and utilisation",
            (
                *(
                    Quantity(label, f"share of the target, {LABELS[label]}", "%", paper,
                             rounding=0.5, why=OWN_JOBS)
                    for label, paper in (("Q", 98.0), ("RP", 83.0), ("RL", 62.0))
                ),
                *(
                    Quantity(f"{label}-run", f"share of the target since start, {LABELS[label]}",
                             "%", relation=Relation.NOT_STATED)
                    for label in POLICIES
                ),
                Quantity("Q-used", "utilisation, Quasar", "%", 62.0, rounding=0.5, why=USED),
                Quantity("RP-used", "utilisation, reservation + Paragon", "%",
                         relation=Relation.NOT_STATED),
                Quantity("RL-used", "utilisation, reservation + least-loaded", "%", 15.0,
                         rounding=0.5, why=USED),
                *(
                    Quantity(f"{label}-held", f"units allocated during arrivals, {LABELS[label]}",
                             "%", relation=Relation.NOT_STATED,
                             why="" if label == "Q" else RATIOS)
                    for label in POLICIES
                ),
            ),
            measure_of(1),
            small=measure_of(SMALL),
        ),
    ),
)  # fmt: skip
