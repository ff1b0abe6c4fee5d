"""ClavisMO's evaluation (Blagodurov et al., SC '15, §4), by the scenarios of `core.scenarios`.

Reported are only the numbers in the paper's text: its bars have no figures.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from apps.testbed.core.container_replay import KWH, ContainerResult
from apps.testbed.core.reproduction.figures import DataSets, Figure, Paper, Quantity, Relation
from apps.testbed.core.scenarios import BERTH, SCENARIOS, run_scenario
from apps.testbed.core.traces import SwimTrace

DOT_PRODUCT: Final = "Dot-Product"
EXPERT: Final = "Expert"
OWN_WATTS: Final = (
    "The paper does not state the watts of a node; 200 W idle and 400 W peak are ours."
)
WHOLE_DAY: Final = (
    "The paper's figure is of stage 2, in which X spreads; ours is of the whole day, in which "
    "X is spread from the start."
)
X_FIRST: Final = (
    "The slowdown is taken from the paper. Here the turtles' nodes go to the twelve tazes of X "
    "rather than to the eight of T and W, which gives more diversity."
)
OWN_SLOWDOWN: Final = "The slowdown of the program next to its like is taken from this figure."
FIXED: Final = (
    "The jobs, their times and their behaviour are fixed, and the solver reaches the same "
    "placements: the seed changes nothing here."
)
OWN_LINKS: Final = "The cost of a link between nodes is taken from the paper's figure 1."


def _results(
    name: str, seed: int, data: DataSets, *policies: str, part: int = 1
) -> dict[str, ContainerResult]:
    """Run policies on a scenario, or on every ``part``-th job and that share of its racks."""
    scenario = SCENARIOS[name]
    trace = data.swim(scenario.trace[1]) if scenario.trace else None
    if trace is not None and part > 1:
        scenario = replace(scenario, racks=scenario.racks // part)
        trace = every_nth(trace, part)
    return {
        policy: run_scenario(scenario, policy, seed=seed, trace=trace)[-1] for policy in policies
    }


def every_nth(trace: SwimTrace, n: int) -> SwimTrace:
    """Return every n-th job of a trace, at its time."""
    return replace(
        trace,
        submit_s=trace.submit_s[::n],
        input_bytes=trace.input_bytes[::n],
        shuffle_bytes=trace.shuffle_bytes[::n],
        output_bytes=trace.output_bytes[::n],
    )


def _faster(ours: ContainerResult, base: ContainerResult) -> dict[str, float]:
    """Percent of run time saved, by job."""
    saved = 100.0 * (1.0 - ours.run_s() / base.run_s())
    return {each.job.key: float(value) for each, value in zip(ours.jobs, saved, strict=True)}


def _parapluie(seed: int, data: DataSets) -> Mapping[str, float]:
    found = _results("parapluie", seed, data, "NodeRR", EXPERT, BERTH)
    base, expert, berth = found["NodeRR"], found[EXPERT], found[BERTH]
    early = [_faster(berth, base)[job] for job in "ABDEFGH"]
    return {
        "fastest": max(early),
        "mean": float(np.mean(list(_faster(berth, base).values()))),
        "expert_j": -_faster(expert, base)["J"],
        "berth_j": -_faster(berth, base)["J"],
        "expert_kwh": (base.joules - expert.joules) / KWH,
        "berth_kwh": (expert.joules - berth.joules) / KWH,
    }


def _india(seed: int, data: DataSets) -> Mapping[str, float]:
    found = _results("india", seed, data, "SlotRR", BERTH)
    base, berth = found["SlotRR"], found[BERTH]
    faster = _faster(berth, base)
    return {
        **{job: faster[job] for job in "TWX"},
        "yz": min(faster["Y"], faster["Z"]),
        "kwh": (base.joules - berth.joules) / KWH,
        "energy": 100.0 * (1.0 - berth.joules / base.joules),
    }


def _facebook(seed: int, data: DataSets, name: str, part: int = 1) -> Mapping[str, float]:
    scenario = SCENARIOS[name]
    found = _results(name, seed, data, scenario.baseline, DOT_PRODUCT, BERTH, part=part)
    base = found[scenario.baseline]
    values = {}
    for key, policy in (("dot", DOT_PRODUCT), ("berth", BERTH)):
        values[f"{key}_time"] = float(np.mean(list(_faster(found[policy], base).values())))
        values[f"{key}_energy"] = 100.0 * (1.0 - found[policy].joules / base.joules)
    return values


CLAVISMO: Final = Paper(
    "clavismo",
    "Blagodurov et al., SC '15",
    (
        Figure(
            "9",
            "Parapluie: eight nodes, against NodeRR",
            (
                Quantity("fastest", "largest gain of a job in stages 1 and 2, Berth", "%", 60.0,
                         is_input=True, why=OWN_LINKS),
                Quantity("expert_j", "J longer under Expert", "%", 60.0, Relation.AT_LEAST,
                         is_input=True, why=f"{OWN_SLOWDOWN} With the weights used here, Expert "
                         "leaves J enough nodes."),
                Quantity("berth_j", "J longer under Berth", "%", relation=Relation.NOT_STATED),
                Quantity("expert_kwh", "energy saved by Expert", "kWh", 6.0, rounding=0.5,
                         why=OWN_WATTS),
                Quantity("berth_kwh", "energy saved by Berth against Expert", "kWh", 2.0,
                         rounding=0.5, why=OWN_WATTS),
                Quantity("mean", "mean gain of a job, Berth", "%",
                         relation=Relation.NOT_STATED),
            ),
            _parapluie,
            note=FIXED,
        ),
        Figure(
            "13",
            "India: 16 nodes in four racks, against SlotRR",
            (
                Quantity("T", "gain of T, Berth", "%", 40.0, Relation.AT_LEAST, is_input=True,
                         why=X_FIRST),
                Quantity("W", "gain of W, Berth", "%", 40.0, Relation.AT_LEAST, is_input=True,
                         why=X_FIRST),
                Quantity("X", "gain of X, Berth", "%", 62.0, is_input=True, why=OWN_SLOWDOWN),
                Quantity("yz", "smaller gain of Y and Z, Berth: both inside a rack", "%", 0.0,
                         Relation.AT_LEAST),
                Quantity("kwh", "energy saved by Berth", "kWh", 3.1, rounding=0.05,
                         why=WHOLE_DAY),
                Quantity("energy", "energy saved by Berth", "%", 46.0, rounding=0.5,
                         why=WHOLE_DAY),
            ),
            _india,
            note=FIXED,
        ),
        *(
            Figure(
                number,
                title,
                (
                    Quantity("dot_time", "mean gain of a job, Dot-Product", "%", paper_time,
                             Relation.AT_MOST, rounding=1.0),
                    Quantity("berth_time", "mean gain of a job, Berth", "%",
                             relation=Relation.NOT_STATED),
                    Quantity("dot_energy", "energy saved by Dot-Product", "%", 0.0,
                             Relation.AT_LEAST),
                    Quantity("berth_energy", "energy saved by Berth", "%", 0.0,
                             Relation.AT_LEAST),
                ),
                partial(_facebook, name=name),
                data=("swim_facebook",),
                is_long=True,
                small=partial(_facebook, name=name, part=part),
            )
            for number, title, paper_time, name, part in (
                ("14", "Facebook 2009: a day on 600 nodes, against NodeRR", 0.0, "facebook600", 5),
                ("15", "Facebook 2010: a day on 3,000 nodes, against SlotRR", 0.0,
                 "facebook3000", 25),
            )
        ),
    ),
)  # fmt: skip
