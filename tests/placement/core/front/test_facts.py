"""Facts of placements compared with plain counting, and the composition of a workload."""

import numpy as np
import pytest

from apps.inventory.core.snapshot import Ints
from apps.placement.core.front import facts as front_facts
from apps.placement.core.front.archive import representative_rank, representatives
from apps.placement.core.front.facts import (
    NO_JOB,
    PlacementFacts,
    intermediate_points,
    placement_facts,
)
from apps.placement.core.front.mix import drift, mix, mix_of
from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.problem.instance import Communication, Instance
from apps.placement.core.problem.instance_file import instance_to_json, parse
from tests.placement.core.tiny import tiny, tiny_instance


def placements(instance: Instance, count: int, seed: int) -> Ints:
    rng = np.random.default_rng(seed)
    slots = np.repeat(np.arange(len(instance.node_ids)), instance.slots)
    each = [rng.permutation(slots)[: instance.job.size] for _ in range(count)]
    return np.array(each, dtype=np.int64).reshape(count, instance.job.size)


def counted(instance: Instance, placed: Ints) -> tuple[int, int, int, int, int]:
    """Facts of one placement, job by job."""
    exposed, with_tazes, is_split = 0, 0, 0
    lost: list[int] = []
    for job in range(len(instance.job_ids)):
        mine = [i for i in range(placed.size) if instance.job[i] == job]
        neighbours = [
            i
            for i in mine
            if instance.is_taz[i]
            and any(
                k != i and instance.is_taz[k] and placed[k] == placed[i]
                for k in range(placed.size)
            )
        ]
        exposed += bool(neighbours)
        with_tazes += any(instance.is_taz[i] for i in mine)
        racks = {instance.rack[placed[i]] for i in mine}
        places = {placed[i] for i in mine}
        communication = instance.effective_communication[job]
        apart = (communication == Communication.NODE and len(places) > 1) or (
            communication == Communication.RACK and len(racks) > 1
        )
        is_split += apart
        lost.append(len(neighbours) + (len(mine) if apart else 0))
    worst = int(np.argmax(lost)) if max(lost, default=0) > 0 else NO_JOB
    return len(set(placed.tolist())), with_tazes - exposed, exposed, is_split, worst


@pytest.mark.parametrize("seed", range(60))
def test_facts_equal_plain_counts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_facts, "_AT_ONCE", 20)  # several pieces
    instance = tiny_instance(seed)
    placed = placements(instance, 7, seed)
    facts = placement_facts(instance, placed)
    columns = [getattr(facts, name).tolist() for name in PlacementFacts.__slots__]
    assert list(zip(*columns, strict=True)) == [counted(instance, each) for each in placed]


def test_there_may_be_no_placements() -> None:
    instance = generate_instance(InstanceSpec(8, nodes_per_rack=4), 0)
    assert placement_facts(instance, np.empty((0, 8), dtype=np.int64)).nodes_on.size == 0


@pytest.mark.parametrize("limit", [1, 2, 7, 40])
def test_a_point_stands_where_thinning_takes_it(limit: int) -> None:
    points = np.random.default_rng(3).random((40, 3))
    place = representative_rank(points)
    assert sorted(place.tolist()) == list(range(40))
    assert np.flatnonzero(place < limit).tolist() == representatives(points, limit).tolist()


def test_an_empty_front_has_no_representatives() -> None:
    assert representative_rank(np.empty((0, 3))).size == 0


def test_between_two_points_lie_those_inside_their_box_in_order() -> None:
    values = np.array([[0.0, 1.0], [0.9, 0.05], [0.5, 0.5], [0.2, 0.9], [0.1, 1.2], [1.0, 0.0]])
    assert intermediate_points(values, 0, 5).tolist() == [3, 2, 1]
    assert intermediate_points(values, 5, 0).tolist() == [1, 2, 3]
    assert intermediate_points(values, 0, 0).tolist() == []


@pytest.mark.parametrize("seed", range(40))
def test_an_instance_that_is_written_reads_as_it_was(seed: int) -> None:
    first = parse(tiny(seed))
    again = parse(instance_to_json(first))
    assert instance_to_json(again) == instance_to_json(first)
    for name in ("slots", "idle_watts", "peak_watts", "job", "intensity", "is_taz", "current"):
        assert getattr(again, name).tolist() == getattr(first, name).tolist()
    assert again.communication.tolist() == first.communication.tolist()
    assert (again.rack_ids, again.job_ids) == (first.rack_ids, first.job_ids)


def test_a_mix_counts_by_kind() -> None:
    split_by_kind = mix([(True, 2, 3, 3), (False, 0, 1, 2), (True, 2, 2, 2)], [(80.0, 200.5, 6)])
    assert split_by_kind == {
        "containers": {"taz node 2": 5, "turtle cluster 1": 2},
        "nodes": {"80 200.5": 6},
    }


def test_a_mix_of_an_instance_counts_all_of_it() -> None:
    instance = generate_instance(InstanceSpec(60, nodes=40, nodes_per_rack=10, kinds=2), 5)
    split_by_kind = mix_of(instance)
    assert sum(split_by_kind["containers"].values()) == 60
    assert split_by_kind["nodes"] == {"100 200": 20, "130 290": 20}


@pytest.mark.parametrize(
    ("containers", "nodes", "shares"),
    [
        ({"a": 6, "b": 4}, {"x": 10}, (0.0, 0.0)),
        ({"a": 3, "b": 2}, {"x": 10}, (0.0, 0.0)),  # as many of each kind, half of all
        ({"a": 4, "b": 6}, {"x": 9}, (0.2, 0.1)),
        ({"a": 6, "c": 4}, {"y": 10}, (0.4, 1.0)),
        ({}, {"x": 12}, (1.0, 0.2)),
        ({}, {}, (1.0, 1.0)),
    ],
)
def test_a_mix_drifts_by_what_would_have_to_be_of_another_kind(
    containers: dict[str, int], nodes: dict[str, int], shares: tuple[float, float]
) -> None:
    then = {"containers": {"a": 6, "b": 4}, "nodes": {"x": 10}}
    changes = drift(then, {"containers": containers, "nodes": nodes})
    assert (changes.containers, changes.nodes) == pytest.approx(shares)
    assert changes.share == pytest.approx(max(shares))


def test_nothing_does_not_drift_from_nothing() -> None:
    nothing: dict[str, dict[str, int]] = {"containers": {}, "nodes": {}}
    assert drift(nothing, nothing).share == 0.0
