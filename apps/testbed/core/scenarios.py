"""The placement scenarios by name: nodes, jobs, weights, and what the paper reports of them.

Source: ClavisMO §4.3 (Parapluie, figures 6-9), §4.4 (India, figures 10-13), §4.5 (Facebook,
figures 14 and 15), C9. `docs/placement-scenarios.md` separates the paper's figures from ours.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from apps.emulation.core.events import Machines
from apps.placement.core.monitoring.classes import LocalityLimits
from apps.scheduling.core.registry import make
from apps.testbed.core.container_replay import (
    ContainerJob,
    ContainerResult,
    run_containers,
)
from apps.testbed.core.facebook import jobs_of_day
from apps.testbed.core.monitor import (
    LOUD_BYTES_PER_S,
    Monitor,
    equal_machines,
    profile_programs,
    train_thresholds,
)
from apps.testbed.core.policies import ContainerPolicy, RegisteredPlacer
from apps.testbed.core.programs import HADOOP, HPC, Program
from apps.testbed.core.solver_policy import SolverPolicy
from apps.testbed.core.traces import SwimTrace

HOUR_S: Final = 3600.0
SLOTS: Final = 2
STALL_S: Final = 20.0
PERFORMANCE_FIRST: Final = MappingProxyType({"P": 0.22, "D": 1.0, "C": 0.36})  # §3.1
# small codes that talk much lose no less by links than others by neighbours (figure 1b)
LINKS_TOO: Final = MappingProxyType({"P": 0.22, "D": 1.0, "C": 1.0})
LINKS_FIRST: Final = MappingProxyType({"P": 0.5, "D": 0.5, "C": 1.0})
BASELINES: Final = ("SlotRR", "NodeRR")
BERTH: Final = "Berth"

Day = Callable[[SwimTrace | None, int], list[ContainerJob]]


@dataclass(frozen=True, slots=True)
class PlacementScenario:
    """One placement scenario.

    Attributes
    ----------
    racks, nodes_per_rack : identical racks of identical nodes with two slots
    watts : idle and peak power of a node
    weights : of P, D and C, for policies that use weights
    day : function of an optional trace and a seed to jobs in order of arrival
    trace : data set and file of the required trace, or None
    days : number of consecutive runs of the day for policies that learn; the last one counts
    baseline : the paper's baseline
    """

    name: str
    label: str
    racks: int
    nodes_per_rack: int
    watts: tuple[float, float]
    weights: Mapping[str, float]
    day: Day
    baseline: str
    trace: tuple[str, str] | None = None
    days: int = 1

    def machines(self) -> Machines:
        """Return the nodes."""
        rack = np.repeat(np.arange(self.racks), self.nodes_per_rack)
        return equal_machines(rack, SLOTS, watts=self.watts)

    def links(self) -> LocalityLimits:
        """Return the locality limits of the nodes and racks."""
        return LocalityLimits(SLOTS, SLOTS * self.nodes_per_rack, LOUD_BYTES_PER_S)


def parapluie(_trace: SwimTrace | None, _seed: int) -> list[ContainerJob]:
    """Four stages of six hours: A, B, D, E, F; G, H; none; J."""
    day = [
        ("A", 0.0, 4, 4.0),
        ("B", 0.0, 4, 4.0),
        ("D", 0.0, 4, 11.0),
        ("E", 0.0, 2, 7.0),
        ("F", 0.0, 2, 7.0),
        ("G", 6.0, 4, 17.5),
        ("H", 6.0, 4, 8.0),
        ("J", 18.0, 8, 5.0),
    ]
    return [_job(HPC[name], at, size, work) for name, at, size, work in day]


def india(_trace: SwimTrace | None, _seed: int) -> list[ContainerJob]:
    """T, U, V, W and X; T and W end; Y; Z."""
    day = [
        ("T", 0.0, 4, 2.4),
        ("U", 0.0, 4, 11.0),
        ("V", 0.0, 4, 11.0),
        ("W", 0.0, 4, 2.4),
        ("X", 0.0, 12, 3.5),
        ("Y", 6.0, 6, 3.0),
        ("Z", 8.0, 6, 3.0),
    ]
    return [_job(HADOOP[name], at, size, work) for name, at, size, work in day]


def _job(program: Program, at_h: float, size: int, work_h: float) -> ContainerJob:
    work_s = work_h * HOUR_S
    return ContainerJob(program.name, at_h * HOUR_S, program, size, work_s, nominal_s=work_s)


def facebook(trace: SwimTrace | None, seed: int) -> list[ContainerJob]:
    """Jobs of a day of Facebook, by the rule of `facebook`."""
    if trace is None:
        raise ValueError("a Facebook day needs its trace")
    return jobs_of_day(trace, np.random.default_rng(seed))


SCENARIOS: Final[Mapping[str, PlacementScenario]] = MappingProxyType(
    {
        one.name: one
        for one in (
            PlacementScenario(
                "parapluie",
                "Parapluie: HPC on 8 nodes",
                racks=1,
                nodes_per_rack=8,
                watts=(200.0, 400.0),
                weights=LINKS_TOO,
                day=parapluie,
                baseline="NodeRR",
                days=2,
            ),
            PlacementScenario(
                "india",
                "India: Hadoop on 16 nodes in 4 racks",
                racks=4,
                nodes_per_rack=4,
                watts=(75.0, 300.0),
                weights=LINKS_FIRST,
                day=india,
                baseline="SlotRR",
                days=2,
            ),
            PlacementScenario(
                "facebook600",
                "Facebook 2009: a day on 600 nodes",
                racks=15,
                nodes_per_rack=40,
                watts=(150.0, 300.0),
                weights=PERFORMANCE_FIRST,
                day=facebook,
                baseline="NodeRR",
                trace=("swim_facebook", "fb2009_day0.tsv.gz"),
            ),
            PlacementScenario(
                "facebook3000",
                "Facebook 2010: a day on 3,000 nodes",
                racks=75,
                nodes_per_rack=40,
                watts=(150.0, 300.0),
                weights=PERFORMANCE_FIRST,
                day=facebook,
                baseline="SlotRR",
                trace=("swim_facebook", "fb2010_day0.tsv.gz"),
            ),
        )
    }
)

_Maker = Callable[
    [PlacementScenario, Sequence[ContainerJob], np.random.Generator], ContainerPolicy
]


def _monitor(scenario: PlacementScenario, rng: np.random.Generator) -> Monitor:
    return Monitor(train_thresholds(SLOTS, rng), scenario.links(), SLOTS)


def _expert(
    scenario: PlacementScenario, jobs: Sequence[ContainerJob], rng: np.random.Generator
) -> ContainerPolicy:
    monitor = _monitor(scenario, rng)
    programs = {job.program.name: (job.program, job.size) for job in jobs}
    profile_programs(monitor, programs.values(), rng, SLOTS)
    return SolverPolicy("Expert", monitor, scenario.weights, stall_s=STALL_S, moves=False)


POLICIES: Final[Mapping[str, _Maker]] = MappingProxyType(
    {
        "SlotRR": lambda _s, _j, _r: RegisteredPlacer("SlotRR", make("slot_rr")),
        "NodeRR": lambda _s, _j, _r: RegisteredPlacer("NodeRR", make("node_rr")),
        "Expert": _expert,
        "Dot-Product": lambda scenario, _j, rng: RegisteredPlacer(
            "Dot-Product", make("dot_product"), _monitor(scenario, rng)
        ),
        BERTH: lambda scenario, _j, rng: SolverPolicy(
            BERTH, _monitor(scenario, rng), scenario.weights, stall_s=STALL_S, moves=True
        ),
    }
)


def run_scenario(
    scenario: PlacementScenario, placer: str, *, seed: int, trace: SwimTrace | None = None
) -> list[ContainerResult]:
    """Run a policy on a scenario for several days; its estimates carry over to the next day.

    Raises
    ------
    ValueError : the scenario needs a trace, but none was given.
    """
    jobs = scenario.day(trace, seed)
    train_rng, *days = np.random.SeedSequence([seed]).spawn(1 + scenario.days)
    policy = POLICIES[placer](scenario, jobs, np.random.default_rng(train_rng))
    return [
        run_containers(
            scenario.machines(),
            policy,
            jobs,
            stall_s=STALL_S,
            seed=int(day.generate_state(1)[0]),
        )
        for day in (days if policy.monitor is not None else days[:1])
    ]
