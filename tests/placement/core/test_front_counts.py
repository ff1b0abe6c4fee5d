"""The front of class counts, held to every placement there is."""

from typing import Any

import numpy as np
import pytest

from apps.inventory.core.snapshot import Floats
from apps.placement.core import front_kernels
from apps.placement.core.examples import Draw, Mix, draw
from apps.placement.core.front import losses, scales
from apps.placement.core.front_counts import CountsFront, counts_front, placed
from apps.placement.core.instance import Instance
from apps.placement.core.instance_file import parse
from apps.placement.core.kernels import evaluate_all, problem
from tests.placement.core.tiny import every_assignment, tiny, tiny_instance


def known(instance: Instance) -> CountsFront:
    front = counts_front(instance)
    assert front is not None
    return front


def points(instance: Instance, raw: Floats) -> Floats:
    return losses(raw / scales(instance))


def brute(instance: Instance) -> Floats:
    """(k, 3) losses of all placements."""
    raw = evaluate_all(problem(instance), every_assignment(instance))
    return points(instance, raw)


@pytest.mark.parametrize("seed", range(200))
def test_no_placement_beats_the_front_and_no_point_of_it_beats_another(seed: int) -> None:
    instance = tiny_instance(seed, is_plain=True)
    front = points(instance, known(instance).raw)
    covers = (front[:, None] <= brute(instance)[None]).all(axis=-1)
    assert covers.any(axis=0).all()
    assert front_kernels.non_dominated(front).all()


def without_wishes(seed: int) -> Instance:
    data: dict[str, Any] = tiny(seed, is_plain=True)
    return parse(
        {**data, "containers": [{**c, "communication": "cluster"} for c in data["containers"]]}
    )


@pytest.mark.parametrize("seed", range(100))
def test_without_racks_to_stay_in_it_is_what_brute_force_leaves(seed: int) -> None:
    instance = without_wishes(seed)
    every = brute(instance)
    best = every[front_kernels.non_dominated(every)]
    front = points(instance, known(instance).raw)
    assert np.array_equal(np.unique(front, axis=0), np.unique(best, axis=0))


@pytest.mark.parametrize("mix", list(Mix))
@pytest.mark.parametrize("seed", range(3))
def test_the_choices_of_a_point_add_up_to_it(seed: int, mix: Mix) -> None:
    wanted = Draw(containers=120, nodes=120, nodes_per_rack=24, mix=mix, largest=32)
    instance = draw(wanted, seed)
    front = known(instance)
    tazes = np.bincount(instance.job[instance.is_taz], minlength=instance.size.size)
    for point in range(len(front.raw)):
        choices = front.choices(point)
        is_protected = np.array([choice.is_protected for choice in choices])
        assert tazes[is_protected].sum() == front.protected[point]
        assert sum(choice.value for choice in choices) == pytest.approx(front.raw[point, 2])
        weight = sum(choice.weight for choice in choices)
        assert tazes.sum() + weight <= 2 * front.nodes[point]


@pytest.mark.parametrize(("mix", "seed"), [(Mix.HPC, 5), (Mix.HADOOP, 0)])
def test_with_room_in_the_racks_every_point_is_a_placement(mix: Mix, seed: int) -> None:
    instance = draw(Draw(containers=100, nodes_per_rack=50, mix=mix, largest=8), seed)
    front = known(instance)
    found = np.array([placed(instance, front, point) for point in range(len(front.raw))])
    assert len(front.raw) > 15
    assert evaluate_all(problem(instance), found) == pytest.approx(front.raw)


def test_it_ascends_by_power_and_then_descends_by_diversity() -> None:
    front = known(draw(Draw(containers=200, mix=Mix.HADOOP, nodes_per_rack=40), 1))
    order = np.lexsort((-front.raw[:, 1], front.raw[:, 0]))
    assert np.array_equal(order, np.arange(len(front.raw)))


@pytest.mark.parametrize(
    "wanted", [Draw(containers=20, kinds=2, nodes_per_rack=4), Draw(20, has_real_intensities=True)]
)
def test_it_does_not_apply_to_other_nodes_or_intensities(wanted: Draw) -> None:
    assert counts_front(draw(wanted, 1)) is None


def test_nothing_to_place_is_one_point() -> None:
    instance = parse({"nodes": [], "containers": []})
    assert known(instance).raw.tolist() == [[0.0, 0.0, 0.0]]
