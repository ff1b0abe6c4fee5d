"""Displacement: placements stay feasible, and jobs with more credit are protected."""

import time

import numpy as np
import pytest

from apps.placement.core.problem.examples import InstanceSpec, JobMix, generate_instance
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.objectives import evaluate
from apps.placement.core.solver.displacement import exchanges
from apps.placement.core.solver.registry import solve
from apps.placement.core.solver.round_robin import fill_free_slots
from apps.placement.core.solver.run import SolverRun
from tests.placement.core.tiny import only_tazes


def random_placement(case: Instance, seed: int) -> np.ndarray:
    slots = np.repeat(np.arange(case.slots.size), case.slots)
    chosen: np.ndarray = np.random.default_rng(seed).permutation(slots)[: case.job.size]
    return chosen


def test_an_exchange_exposes_the_job_with_less_credit() -> None:
    counts = {"exposed": 2, "large": 3, "middle": 2, "small": 1}
    case = only_tazes({job: [1.0] * count for job, count in counts.items()}, nodes=6)
    at = dict(zip(case.container_ids, range(case.job.size), strict=True))
    placed = np.zeros(case.job.size, dtype=np.int64)
    for name, node in {
        "exposed-0": 0, "large-0": 0, "exposed-1": 1, "large-1": 1, "large-2": 2,
        "middle-0": 3, "middle-1": 4, "small-0": 5,
    }.items():  # fmt: skip
        placed[at[name]] = node
    assert evaluate(case, placed).raw["D"] == 3.0
    first = next(exchanges(case, placed))
    assert evaluate(case, first).raw["D"] == 4.0  # large and small; one of two is not enough
    spared = [case.job_ids.index(name) for name in ("large", "small")]
    nodes_of_spared = first[np.isin(case.job, spared)]
    assert np.unique(nodes_of_spared).size == 4


@pytest.mark.parametrize("mix", list(JobMix))
@pytest.mark.parametrize("nodes", [100, 130])
def test_exchanges_respect_slots_and_keep_jobs_together(mix: JobMix, nodes: int) -> None:
    instance_spec = InstanceSpec(200, nodes=nodes, nodes_per_rack=10, mix=mix, largest=16)
    case = generate_instance(instance_spec, 3)
    crossing = []
    for placed in (fill_free_slots(case, np.full(case.job.size, -1)), random_placement(case, 1)):
        before = evaluate(case, placed).raw["C"]
        for other in exchanges(case, placed):
            used = np.bincount(other, minlength=case.slots.size)
            np.testing.assert_array_equal(used, np.bincount(placed, minlength=used.size))
            crossing.append(evaluate(case, other).raw["C"] - before)
    assert crossing
    assert max(crossing) <= 0.0


def test_rack_constraints_cost_the_solver_little() -> None:
    case = generate_instance(InstanceSpec(6000, nodes=3000), 1)
    weights = {"P": 1.0, "D": 3.0, "C": 2.0}
    search = SolverRun(
        case,
        weights,
        clock=time.perf_counter,
        limit_s=60.0,
        should_stop=lambda: search.gap < 0.002,
    )
    assert solve(search).gap < 0.002
