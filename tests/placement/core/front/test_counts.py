"""The front of class counts, compared with all placements."""

from typing import Any

import numpy as np
import pytest

from apps.inventory.core.snapshot import Floats
from apps.placement.core.front import kernels
from apps.placement.core.front.archive import losses
from apps.placement.core.front.counts import CountsFront, counts_front, pack_point
from apps.placement.core.problem.evaluator import raw_values
from apps.placement.core.problem.examples import InstanceSpec, JobMix, generate_instance
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.instance_file import parse
from apps.placement.core.problem.objectives import scales
from tests.placement.core.tiny import every_assignment, tiny, tiny_instance


def known(instance: Instance) -> CountsFront:
    front = counts_front(instance)
    assert front is not None
    return front


def points(instance: Instance, raw: Floats) -> Floats:
    return losses(raw / scales(instance))


def brute(instance: Instance) -> Floats:
    """(k, 3) losses of all placements."""
    raw = raw_values(instance, every_assignment(instance))
    return points(instance, raw)


@pytest.mark.parametrize("seed", range(200))
def test_no_placement_beats_the_front_and_no_point_of_it_beats_another(seed: int) -> None:
    instance = tiny_instance(seed, is_plain=True)
    front = points(instance, known(instance).raw)
    covers = (front[:, None] <= brute(instance)[None]).all(axis=-1)
    assert covers.any(axis=0).all()
    assert kernels.non_dominated(front).all()


def without_communication(seed: int) -> Instance:
    data: dict[str, Any] = tiny(seed, is_plain=True)
    return parse(
        {**data, "containers": [{**c, "communication": "cluster"} for c in data["containers"]]}
    )


@pytest.mark.parametrize("seed", range(100))
def test_without_racks_to_stay_in_it_is_what_brute_force_leaves(seed: int) -> None:
    instance = without_communication(seed)
    every = brute(instance)
    best = every[kernels.non_dominated(every)]
    front = points(instance, known(instance).raw)
    assert np.array_equal(np.unique(front, axis=0), np.unique(best, axis=0))


@pytest.mark.parametrize("mix", list(JobMix))
@pytest.mark.parametrize("seed", range(3))
def test_the_choices_of_a_point_add_up_to_it(seed: int, mix: JobMix) -> None:
    instance_spec = InstanceSpec(containers=120, nodes=120, nodes_per_rack=24, mix=mix, largest=32)
    instance = generate_instance(instance_spec, seed)
    front = known(instance)
    tazes = np.bincount(instance.job[instance.is_taz], minlength=instance.size.size)
    for point in range(len(front.raw)):
        choices = front.options(point)
        is_protected = np.array([choice.is_protected for choice in choices])
        assert tazes[is_protected].sum() == front.protected[point]
        assert sum(choice.value for choice in choices) == pytest.approx(front.raw[point, 2])
        weight = sum(choice.weight for choice in choices)
        assert tazes.sum() + weight <= 2 * front.nodes[point]


@pytest.mark.parametrize(("mix", "seed"), [(JobMix.HPC, 5), (JobMix.HADOOP, 0)])
def test_with_room_in_the_racks_every_point_is_a_placement(mix: JobMix, seed: int) -> None:
    instance = generate_instance(
        InstanceSpec(containers=100, nodes_per_rack=50, mix=mix, largest=8), seed
    )
    front = known(instance)
    packed = np.array([pack_point(instance, front, point) for point in range(len(front.raw))])
    assert len(front.raw) > 15
    assert raw_values(instance, packed) == pytest.approx(front.raw)


def test_it_ascends_by_power_and_then_descends_by_diversity() -> None:
    front = known(
        generate_instance(InstanceSpec(containers=200, mix=JobMix.HADOOP, nodes_per_rack=40), 1)
    )
    order = np.lexsort((-front.raw[:, 1], front.raw[:, 0]))
    assert np.array_equal(order, np.arange(len(front.raw)))


@pytest.mark.parametrize(
    "instance_spec",
    [
        InstanceSpec(containers=20, kinds=2, nodes_per_rack=4),
        InstanceSpec(20, has_real_intensities=True),
    ],
)
def test_it_does_not_apply_to_other_nodes_or_intensities(instance_spec: InstanceSpec) -> None:
    assert counts_front(generate_instance(instance_spec, 1)) is None


def test_an_instance_without_containers_has_one_point() -> None:
    instance = parse({"nodes": [], "containers": []})
    assert known(instance).raw.tolist() == [[0.0, 0.0, 0.0]]
