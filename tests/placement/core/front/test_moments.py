"""Fronts over several moments: averages, dominance, and the same answer as a single search."""

import itertools

import numpy as np
import pytest

from apps.placement.core.front.archive import losses
from apps.placement.core.front.moments import (
    add_fronts,
    find_front_of_moments,
    mean_scales,
    split_by_moment,
)
from apps.placement.core.front.search import find_front
from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.problem.objectives import OBJECTIVES, evaluate
from tests.placement.front_world import ticking

SMALL = InstanceSpec(
    containers=8, nodes=6, nodes_per_rack=3, largest=3, has_real_intensities=True, kinds=2
)


def test_the_sums_are_the_non_dominated_averages_of_all_choices() -> None:
    rng = np.random.default_rng(3)
    raws = [rng.random((5, 3)) for _ in range(3)]
    divisors = np.array([1.0, 2.0, 0.5])
    choice, points, _ = add_fronts(raws, divisors, 1000)
    every = np.array(list(itertools.product(range(5), repeat=3)))
    average = losses(np.mean([raws[m][every[:, m]] for m in range(3)], axis=0) / divisors)
    is_dominated = [
        any((other <= one).all() and (other < one).any() for other in average) for one in average
    ]
    expected = {
        tuple(row) for row, lost in zip(every.tolist(), is_dominated, strict=True) if not lost
    }
    assert {tuple(row) for row in choice.tolist()} == expected
    assert points == len(expected)


def test_the_points_are_averages_over_the_moments() -> None:
    instances = [generate_instance(SMALL, seed) for seed in (1, 2, 3)]
    front = find_front_of_moments(instances, clock=ticking(), budget_s=3.0)
    divisors = mean_scales(instances)
    parts = split_by_moment(instances, front.assignments)
    assert [part.shape for part in parts] == [(len(front.raw), 8)] * 3
    for point in range(len(front.raw)):
        each = [
            [evaluate(instance, part[point]).raw[name] for name in OBJECTIVES]
            for instance, part in zip(instances, parts, strict=True)
        ]
        assert front.raw[point] == pytest.approx(np.mean(each, axis=0))
    assert front.normalised == pytest.approx(front.raw / divisors)


def test_one_moment_is_searched_as_before() -> None:
    instance = generate_instance(SMALL, 1)
    one = find_front_of_moments([instance], clock=ticking(), budget_s=2.0)
    same = find_front(instance, clock=ticking(), budget_s=2.0)
    assert one.raw.tolist() == same.raw.tolist()


def test_equal_moments_have_the_front_of_one() -> None:
    instance = generate_instance(InstanceSpec(containers=8, nodes=6, nodes_per_rack=3), 1)
    one = find_front(instance, clock=ticking(), budget_s=3.0)
    twice = find_front_of_moments([instance, instance], clock=ticking(), budget_s=6.0)
    best = twice.raw.min(axis=0)[[0, 2]], twice.raw.max(axis=0)[1]
    assert best[0] == pytest.approx(one.raw.min(axis=0)[[0, 2]])
    assert best[1] == pytest.approx(one.raw.max(axis=0)[1])


def test_a_stopped_search_still_covers_every_moment() -> None:
    instances = [generate_instance(SMALL, seed) for seed in (1, 2)]
    front = find_front_of_moments(
        instances, clock=ticking(), budget_s=3.0, should_stop=lambda: True
    )
    assert front.assignments.shape == (len(front.raw), 16)
    assert len(front.raw) >= 1


def test_there_is_a_version_after_each_round() -> None:
    volumes: list[float] = []
    instances = [generate_instance(SMALL, seed) for seed in (1, 2)]
    find_front_of_moments(
        instances,
        clock=ticking(),
        budget_s=4.0,
        on_version=lambda progress, build: volumes.append(build().hypervolume),
    )
    assert len(volumes) == 2
    assert volumes[1] >= volumes[0] > 0.0
