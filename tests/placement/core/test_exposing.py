"""Another job is exposed instead: placements stay placements, and the right job is spared."""

import time

import numpy as np
import pytest

from apps.placement.core.examples import Draw, Mix, draw
from apps.placement.core.exposing import instead
from apps.placement.core.instance import Instance
from apps.placement.core.objectives import evaluate
from apps.placement.core.search import Search
from apps.placement.core.solver import filled, solve
from tests.placement.core.tiny import only_tazes


def by_chance(case: Instance, seed: int) -> np.ndarray:
    slots = np.repeat(np.arange(case.slots.size), case.slots)
    chosen: np.ndarray = np.random.default_rng(seed).permutation(slots)[: case.job.size]
    return chosen


def test_the_job_worth_least_is_exposed_instead_of_one_of_which_two_are() -> None:
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
    first = next(instead(case, placed))
    assert evaluate(case, first).raw["D"] == 4.0  # large and small; one of two is not enough
    spared = [case.job_ids.index(name) for name in ("large", "small")]
    nodes_of_spared = first[np.isin(case.job, spared)]
    assert np.unique(nodes_of_spared).size == 4


@pytest.mark.parametrize("mix", list(Mix))
@pytest.mark.parametrize("nodes", [100, 130])
def test_slots_are_kept_and_whole_jobs_stay_whole(mix: Mix, nodes: int) -> None:
    wanted = Draw(200, nodes=nodes, nodes_per_rack=10, mix=mix, largest=16)
    case = draw(wanted, 3)
    crossing = []
    for placed in (filled(case, np.full(case.job.size, -1)), by_chance(case, 1)):
        before = evaluate(case, placed).raw["C"]
        for other in instead(case, placed):
            used = np.bincount(other, minlength=case.slots.size)
            np.testing.assert_array_equal(used, np.bincount(placed, minlength=used.size))
            crossing.append(evaluate(case, other).raw["C"] - before)
    assert crossing
    assert max(crossing) <= 0.0


def test_what_racks_do_not_allow_costs_the_solver_little() -> None:
    case = draw(Draw(6000, nodes=3000), 1)
    weights = {"P": 1.0, "D": 3.0, "C": 2.0}
    search = Search(case, weights, clock=time.perf_counter, limit_s=20.0)
    assert solve(search).gap < 0.002
