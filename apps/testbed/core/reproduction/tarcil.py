"""Tarcil's evaluation (Delimitrou, Sanchez and Kozyrakis, SoCC '15): figures 10, 15 and 17.

7,200 jobs at intervals of a second on 400 servers of ten types with 4 to 32 cores, 4,178 in all.
The paper states neither the counts of the types nor the run times; both are ours. The generic
sampling scheduler examines two units for each requested one, and knows neither platforms nor
interference. The paper's Tarcil has an admission control, and its centralised scheduler, Quasar,
takes one to two seconds for a decision; both also run without.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Final

import numpy as np

from apps.emulation.core.draws import ANALYTICS, BATCH, SINGLE_NODE
from apps.testbed.core.replay.clusters import synthetic_cluster
from apps.testbed.core.replay.model import Admission, ReplayCluster, ReplayOptions, ReplayPlatform
from apps.testbed.core.replay.workloads import Application, workload
from apps.testbed.core.reproduction.figures import DataSets, Figure, Paper, Quantity, Relation
from apps.testbed.core.reproduction.replays import Replayed, Scenario, Variant, replayed

JOBS: Final = 7_200
SMALL: Final = 10  # times fewer servers and jobs
VARIANTS: Final = {
    "tarcil-lsh": Variant("Tarcil", "tarcil", Admission.TARCIL_LSH),
    "tarcil": Variant("Tarcil without admission control", "tarcil"),
    "sampling": Variant("sampling", "sampling"),
    "quasar-1s": Variant("Quasar, 1 s a decision", "quasar", decision_s=1.0),
    "quasar-2s": Variant("Quasar, 2 s a decision", "quasar", decision_s=2.0),
    "quasar": Variant("Quasar, no time for decisions", "quasar"),
    "expected": Variant("expected", "expected"),
}
TYPES: Final = (  # cores and servers
    (32, 15), (24, 18), (16, 40), (16, 30), (12, 30), (10, 45), (8, 40), (8, 45), (6, 54), (4, 83),
)  # fmt: skip
KINDS: Final = (ANALYTICS, SINGLE_NODE, BATCH)
UNITS: Final = (4, 1, 2)  # of a job of each kind
PER_KIND: Final = 10  # applications
SHORTEST_S: Final = 100.0
LONGEST_S: Final = 3600.0
GOOD: Final = 0.9  # quality of a unit

AGENTS: Final = (1, 3, 12, 20)
LOADS: Final = (0.1, 0.3, 0.5, 0.7, 0.9)
TASK_S: Final = 0.1
TASKS: Final = 20  # per job
DECISION_S: Final = 0.005
SPAN_S: Final = 5.0
MEAN_SPEED: Final = 0.7  # of a placed job: turns a load into an arrival rate


def cluster_of(scale: int = 1, *, seed: int = 1) -> ReplayCluster:
    """Return the cluster of figure 15; ``scale`` = how many times fewer servers of each type."""
    platforms = tuple(
        ReplayPlatform(
            f"type-{i}", cores, 4e9 * cores, 1e9, 4e10 * cores, 5.0 * cores, 12.0 * cores
        )
        for i, (cores, _) in enumerate(TYPES)
    )
    kinds = np.repeat(np.arange(len(TYPES)), [max(1, round(n / scale)) for _, n in TYPES])
    kinds = np.random.default_rng(seed).permutation(kinds)
    return ReplayCluster(f"{kinds.size} servers", platforms, kinds, np.arange(kinds.size) // 40)


def scenario_of(seed: int, *, scale: int = 1) -> Scenario:
    """Return the cluster and jobs of figure 15; ``scale`` = how many times fewer of both."""
    rng = np.random.default_rng([seed, JOBS])
    n = JOBS // scale
    kind = rng.integers(len(KINDS), size=n)
    units = np.array(UNITS)[kind]
    seconds = np.exp(rng.uniform(np.log(SHORTEST_S), np.log(LONGEST_S), n))
    load = workload(
        f"Tarcil, {n} jobs",
        [Application(f"t{k}-{i}", name) for k, name in enumerate(KINDS) for i in range(PER_KIND)],
        np.arange(n, dtype=np.float64) * scale,
        kind * PER_KIND + rng.integers(PER_KIND, size=n),
        seconds * units,
        units=units,
    )
    return Scenario(cluster_of(scale, seed=seed), load)


def _measured(scale: int, seed: int, _data: DataSets) -> Mapping[str, float]:
    return _run_all(scale, seed)


@lru_cache(maxsize=8)  # figures 15 and 17 show the same runs
def _run_all(scale: int, seed: int) -> Mapping[str, float]:
    scenario = scenario_of(seed, scale=scale)
    values = {}
    for label, variant in VARIANTS.items():
        run = variant.run(scenario, seed)
        speed = 100.0 * run.performance
        quality, is_enough = run.qualities(run.busiest_s())
        values[label] = float(speed.mean())
        values["near"] = run.near_best_share()
        values[f"{label}-peak"] = run.peak_share()
        values[f"{label}-wait"] = float(np.nanmean(run.result.started_s - run.result.arrived_s))
        values[f"{label}-worst"] = 100.0 - float(speed.min())
        values[f"{label}-p1"] = 100.0 - float(np.quantile(speed, 0.01))
        values[f"{label}-poor"] = 100.0 * float((quality < GOOD).mean())
        values[f"{label}-noisy"] = 100.0 * float((~is_enough).mean())
        values[f"{label}-bad"] = 100.0 * float((quality < 0.4).mean())
    return values


def agents_run(agents: int, load: float, seed: int, *, span_s: float = SPAN_S) -> Replayed:
    """Run short homogeneous tasks on 100 servers, with a modelled decision time (figure 10)."""
    cluster = synthetic_cluster(100, seed=seed)
    rate = load * MEAN_SPEED * float(cluster.units.sum()) / (TASKS * TASK_S)
    n = max(1, round(rate * span_s))
    rng = np.random.default_rng([seed, n])
    jobs = workload(
        f"{n} jobs of {TASKS} tasks",
        [Application("logistic", ANALYTICS)],
        np.sort(rng.uniform(0.0, span_s, n)),
        np.zeros(n, dtype=np.int64),
        np.full(n, TASK_S * TASKS),
        units=np.full(n, TASKS),
        tasks=np.full(n, TASKS),
        gang=np.zeros(n, dtype=np.bool_),
    )
    options = ReplayOptions(
        agents=agents,
        decision_s=DECISION_S,
        batch=1,
        admission=Admission.SHAPES,
        patience_s=0.0,
    )
    return replayed(Scenario(cluster, jobs, options), "tarcil", seed)


def latencies(span_s: float, seed: int, _data: DataSets) -> Mapping[str, float]:
    """Mean latency (ms) and commits lost per job, by agents and load, of jobs of a time span."""
    values = {}
    for agents in AGENTS:
        for load in LOADS:
            run = agents_run(agents, load, seed, span_s=span_s)
            waits = run.result.started_s - run.result.arrived_s
            values[f"{agents}-{load:g}"] = 1e3 * float(np.nanmean(waits))
            values[f"{agents}-{load:g}-lost"] = float(run.result.conflicts.mean())
    return values


def measure_of(scale: int) -> Callable[[int, DataSets], Mapping[str, float]]:
    """Return the measurement of figures 15 and 17."""
    return partial(_measured, scale)


PLATFORMS: Final = (
    "Tarcil compares platforms only to break ties (Eq. 5), and few cores here are on platforms "
    "within 5 % of the best, so policies that weigh the platform lead. Run times, applications "
    "and the counts of server types are ours. The admission control lets no job wait, as too few "
    "cores are in use."
)
QUIETER: Final = (
    "Q = 1 - (U - T) falls where a unit is quieter than its job needs, which most are here: the "
    "pressure on a unit is the mean over the other units of its server. The units that are too "
    "noisy have U < T."
)
CENTRAL: Final = (
    "The paper's centralised scheduler searches for at most 2 s, adds about 1 s to most jobs, and "
    "decides one job at a time. A second is at most 1 % of a run time here, of 100 s and more; "
    "the paper's jobs include Spark tasks of 100 ms."
)
DECISION: Final = (
    f"A decision takes {1e3 * DECISION_S:g} ms here, an input: with it, one agent decides 200 "
    "jobs/s, fewer than arrive at high load. The paper gives no numbers in the text."
)


def _each(
    suffix: str,
    what: str,
    unit: str,
    paper: Mapping[str, tuple[float, str]],
    relation: Relation = Relation.EQUAL,
) -> tuple[Quantity, ...]:
    """One quantity of each variant, with the paper's number and a reason where it states one.

    Parameters
    ----------
    relation : of the numbers that the paper states
    """
    found = []
    for label, variant in VARIANTS.items():
        stated, why = paper.get(label, (None, ""))
        how = Relation.NOT_STATED if stated is None else relation
        found.append(
            Quantity(f"{label}{suffix}", f"{what}, {variant.label}", unit, stated, how,
                     rounding=0.5, why=why)
        )  # fmt: skip
    return tuple(found)


def _of(agents: int) -> str:
    return f"{agents} agent{'s' if agents > 1 else ''}"


TARCIL: Final = Paper(
    "tarcil",
    "Delimitrou, Sanchez and Kozyrakis, SoCC 2015",
    (
        Figure(
            "10",
            "Scheduling latency by agents and load",
            (
                *(
                    Quantity(f"{agents}-{load:g}",
                             f"mean latency, {_of(agents)}, {100 * load:g} % load", "ms",
                             relation=Relation.NOT_STATED, why=DECISION)
                    for agents in AGENTS
                    for load in LOADS
                ),
                *(
                    Quantity(f"{agents}-{LOADS[-1]:g}-lost",
                             f"commits lost per job, {_of(agents)}, {100 * LOADS[-1]:g} % load",
                             "", relation=Relation.NOT_STATED)
                    for agents in AGENTS
                ),
            ),
            partial(latencies, SPAN_S),
            small=partial(latencies, SPAN_S / 5),
        ),
        Figure(
            "15",
            "7,200 jobs on 400 servers: performance relative to the optimum",
            (
                *_each("", "mean performance", "%",
                       {"tarcil-lsh": (97.0, PLATFORMS), "quasar-1s": (82.0, CENTRAL)}),
                *_each("-worst", "largest loss of a job", "%", {"tarcil-lsh": (8.0, PLATFORMS)},
                       Relation.AT_MOST),
                Quantity("near", "cores on platforms within 5 % of the best", "%",
                         relation=Relation.NOT_STATED),
                *_each("-p1", "loss that 1 % of the jobs exceed", "%", {}),
                *_each("-wait", "mean wait", "s", {}),
                Quantity("tarcil-lsh-peak", "cores in use when most are, Tarcil", "%",
                         relation=Relation.NOT_STATED),
            ),
            measure_of(1),
            small=measure_of(SMALL),
        ),
        Figure(
            "17",
            "Quality of the units in use when most are",
            (
                *_each("-poor", "units below Q = 0.9", "%", {"tarcil-lsh": (18.0, QUIETER)}),
                *_each("-noisy", "units with U < T", "%", {}),
                Quantity("sampling-bad", "units below Q = 0.4, sampling", "%", 70.0,
                         rounding=0.5, why=QUIETER),
            ),
            measure_of(1),
            small=measure_of(SMALL),
        ),
    ),
)  # fmt: skip
