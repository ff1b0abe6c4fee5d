"""Objectives of a placement against values by hand and an independent definition."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from apps.inventory.core.snapshot import Ints
from apps.placement.core.problem.evaluator import raw_values
from apps.placement.core.problem.instance import Communication, Instance
from apps.placement.core.problem.instance_file import parse
from apps.placement.core.problem.objectives import (
    BUILT_IN,
    Objective,
    carbon,
    evaluate,
    money,
    registry,
)
from tests.placement.core.tiny import every_assignment, some_weights, tiny_instance


def instance(
    containers: list[tuple[str, float, str, str]],
    *,
    racks: str = "aabb",
    slots: int = 2,
    current: dict[str, str] | None = None,
) -> Instance:
    """Containers c0.. of (job, intensity, class, communication) on nodes n0.. of 100/200 W."""
    nodes = [
        {"id": f"n{i}", "rack": rack, "slots": slots, "idle_watts": 100, "peak_watts": 200}
        for i, rack in enumerate(racks)
    ]
    held = [
        {"id": f"c{i}", "job": job, "intensity": x, "class": kind, "communication": communication}
        for i, (job, x, kind, communication) in enumerate(containers)
    ]
    return parse({"nodes": nodes, "containers": held, "current": current or {}})


def raw(case: Instance, *nodes: int) -> list[float]:
    values = evaluate(case, np.array(nodes, dtype=np.int64)).raw
    return [values[name] for name in "PDC"]


TAZ = ("x", 1.0, "taz", "cluster")
TURTLE = ("y", 0.0, "turtle", "cluster")


@pytest.mark.parametrize(
    ("containers", "nodes", "expected"),
    [
        ([], [], [0.0, 0.0, 0.0]),
        ([TAZ], [0], [150.0, 1.0, 0.0]),
        ([TAZ, TAZ], [0, 0], [200.0, 0.0, 0.0]),
        ([TAZ, TAZ], [0, 1], [300.0, 2.0, 0.0]),
        ([TAZ, TURTLE], [0, 0], [200.0, 1.0, 0.0]),
        # one pair of tazes costs the whole job its credit, and the job of the other taz
        ([TAZ, TAZ, TAZ], [0, 0, 1], [350.0, 0.0, 0.0]),
        ([TAZ, TAZ, ("z", 1.0, "taz", "cluster")], [0, 1, 1], [350.0, 0.0, 0.0]),
        # turtles of a job without a straggler get credit too, and lose it with their taz
        ([("y", 0.3, "turtle", "cluster")], [2], [150.0, 0.3, 0.0]),
        ([("x", 0.3, "turtle", "cluster"), TAZ, TAZ], [0, 1, 1], [350.0, 0.0, 0.0]),
        # only the most intense one gets credit: the difference to the next
        ([("x", 0.75, "taz", "cluster"), ("y", 0.5, "turtle", "cluster")], [0, 0], [200, 0.25, 0]),
        ([("x", 0.25, "taz", "cluster"), ("y", 0.75, "turtle", "cluster")], [0, 0], [200, 0.5, 0]),
        ([("x", 0.5, "taz", "cluster"), ("y", 0.5, "turtle", "cluster")], [0, 0], [200.0, 0, 0]),
        # node and rack communication: on one node, in one rack, across racks
        ([("x", 0.0, "turtle", "node")] * 2, [0, 0], [200.0, 0.0, 0.0]),
        ([("x", 0.0, "turtle", "node")] * 2, [0, 1], [300.0, 0.0, 2.0]),
        ([("x", 0.0, "turtle", "rack")] * 3, [0, 1, 1], [350.0, 0.0, 0.0]),
        ([("x", 0.0, "turtle", "rack")] * 3, [0, 1, 2], [450.0, 0.0, 3.0]),
        ([("x", 0.0, "turtle", "cluster")] * 3, [0, 1, 2], [450.0, 0.0, 0.0]),
        # a node job of three counts as rack if nodes have two slots
        ([("x", 0.0, "turtle", "node")] * 3, [0, 1, 1], [350.0, 0.0, 0.0]),
        ([("x", 0.0, "turtle", "node")] * 3, [0, 1, 2], [450.0, 0.0, 3.0]),
        # a node job of five counts as cluster if racks have four slots
        ([("x", 0.0, "turtle", "node")] * 5, [0, 0, 1, 2, 3], [650.0, 0.0, 0.0]),
    ],
)
def test_raw_values_by_hand(
    containers: list[tuple[str, float, str, str]], nodes: list[int], expected: list[float]
) -> None:
    assert raw(instance(containers), *nodes) == pytest.approx(expected)


def test_values_are_divided_by_their_maximum_for_the_instance() -> None:
    case = instance([TAZ, ("y", 0.5, "turtle", "rack"), ("y", 0.5, "turtle", "rack")])
    value = evaluate(case, np.array([0, 1, 2]), {"P": 2.0, "D": 3.0, "C": 5.0})
    assert value.normalised == pytest.approx({"P": 450 / 800, "D": 1.0, "C": 1.0, "M": 0.0})
    assert pytest.approx(2 * 450 / 800 - 3 + 5) == value.F


def test_jobs_larger_than_any_rack_do_not_count_as_sensitive() -> None:
    case = instance([("x", 0.0, "turtle", "rack")] * 5 + [("y", 0.0, "turtle", "node")] * 2)
    assert case.effective_communication.tolist() == [Communication.CLUSTER, Communication.NODE]
    value = evaluate(case, np.array([0, 0, 1, 1, 2, 2, 3]))
    assert value.raw["C"] == 2.0
    assert value.normalised["C"] == 1.0


def test_the_normalised_value_is_zero_if_its_divisor_is_zero() -> None:
    case = instance([TURTLE], racks="a")
    assert evaluate(case, np.array([0]), {"D": 1.0, "C": 1.0}).F == 0.0


def test_migrations_count_containers_that_leave_their_node() -> None:
    case = instance([TAZ, TURTLE, TURTLE], current={"c0": "n0", "c1": "n1"})
    value = evaluate(case, np.array([0, 2, 3]), {"M": 4.0})
    assert value.raw["M"] == 1.0
    assert value.F == 2.0


def plain_values(case: Instance, assignment: list[int]) -> list[float]:
    """P, D and C by an independent definition, container by container."""
    watts = 0.0
    credit = [0.0] * len(assignment)
    for node in sorted(set(assignment)):
        held = [i for i, at in enumerate(assignment) if at == node]
        idle, peak = float(case.idle_watts[node]), float(case.peak_watts[node])
        watts += idle + (peak - idle) * len(held) / int(case.slots[node])
        top = sorted(held, key=lambda i: -case.intensity[i])
        nexts = case.intensity[top[1]] if len(top) > 1 else 0.0
        credit[top[0]] = float(case.intensity[top[0]] - nexts)
    exposed = set()
    for a, b in combinations(range(len(assignment)), 2):
        if case.is_taz[a] and case.is_taz[b] and assignment[a] == assignment[b]:
            exposed |= {case.job[a], case.job[b]}
    diverse = sum(x for i, x in enumerate(credit) if case.job[i] not in exposed)
    away = 0
    racks = [
        sum(s for r, s in zip(case.rack, case.slots, strict=True) if r == k) for k in case.rack
    ]
    for job, size in enumerate(case.size):
        nodes = {assignment[i] for i in range(len(assignment)) if case.job[i] == job}
        communication = case.communication[job]
        if communication == Communication.NODE and size > max(case.slots):
            communication = Communication.RACK
        if communication == Communication.RACK and size > max(racks):
            communication = Communication.CLUSTER
        places = {Communication.NODE: nodes, Communication.RACK: {case.rack[n] for n in nodes}}
        away += size if len(places.get(Communication(communication), {0})) > 1 else 0
    return [watts, diverse, float(away)]


@pytest.mark.parametrize("seed", range(150))
def test_all_forms_agree_on_every_assignment_of_tiny_instances(seed: int) -> None:
    case = tiny_instance(seed, containers=5)
    every = every_assignment(case)
    fast = raw_values(case, every)
    slow = np.array([raw(case, *row) for row in every.tolist()]).reshape(-1, 3)
    plain = np.array([plain_values(case, row) for row in every.tolist()]).reshape(-1, 3)
    assert np.allclose(slow, plain, rtol=0, atol=1e-9)
    assert np.allclose(fast, plain, rtol=0, atol=1e-9)


def test_values_do_not_depend_on_the_order_of_nodes_or_containers() -> None:
    case = tiny_instance(3)
    every = every_assignment(case)
    weights = some_weights(3)
    best: Ints = every[np.argmin([evaluate(case, row, weights).F for row in every])]
    assert evaluate(case, best, weights) == evaluate(case, best.copy(), weights)


# --- the registry


def test_money_charges_watts_by_the_price_of_each_hour() -> None:
    case = instance([TAZ, TAZ])
    costs = registry({"money": money(np.array([1.0, 2.0]), {"": np.array([0.5, 0.25])})})
    value = evaluate(case, np.array([0, 1]), {"money": 8.0}, objectives=costs)
    assert value.raw["money"] == pytest.approx(0.3 * (0.5 + 0.5))
    assert pytest.approx(8.0 * 300 / 800) == value.F


def test_carbon_may_differ_by_rack() -> None:
    case = instance([TAZ, TAZ])
    emitted = carbon(np.array([2.0]), {"a": np.array([100.0]), "": np.array([400.0])})
    assert emitted.raw(case, np.array([0, 1])) == pytest.approx(0.3 * 2 * 100)
    assert emitted.raw(case, np.array([0, 2])) == pytest.approx(0.15 * 2 * 500)


def test_a_custom_objective_is_evaluated_with_the_built_in_ones() -> None:
    def used(_: Instance, assignment: Ints) -> float:
        return float(np.unique(assignment).size)

    mine = registry({"nodes": Objective("Nodes", "", used, lambda i: float(len(i.node_ids)))})
    value = evaluate(instance([TAZ, TAZ]), np.array([0, 1]), {"nodes": 3.0}, objectives=mine)
    assert list(value.raw) == ["P", "D", "C", "M", "nodes"]
    assert value.F == 1.5


@pytest.mark.parametrize(
    ("hours", "curve", "message"),
    [
        ([], {"": []}, "hours must be positive and finite"),
        ([0.0], {"": [1.0]}, "hours must be positive and finite"),
        ([1.0], {"": [1.0, 2.0]}, r"curve\[''\] has 2 steps, hours has 1"),
        ([1.0], {"a": [-1.0]}, r"curve\['a'\] must be finite and at least 0"),
    ],
)
def test_an_invalid_curve_is_refused(
    hours: list[float], curve: dict[str, list[float]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        money(np.array(hours), {name: np.array(values) for name, values in curve.items()})


def test_the_error_names_a_rack_without_a_curve() -> None:
    only_a = money(np.array([1.0]), {"a": np.array([1.0])})
    with pytest.raises(ValueError, match="no rack 'b'"):
        only_a.raw(instance([TAZ]), np.array([0]))


def test_a_built_in_name_is_refused() -> None:
    with pytest.raises(ValueError, match="'P' is built in"):
        registry({"P": BUILT_IN["P"]})


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"Q": 1.0}, "unknown objective 'Q'; known: P, D, C, M"),
        ({"P": -1.0}, "weight of P must be finite and at least 0, not -1"),
        ({"P": float("nan")}, "not nan"),
    ],
)
def test_invalid_weights_are_refused(weights: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(instance([TAZ]), np.array([0]), weights)


def test_instances_are_read_only() -> None:
    case: Any = instance([TAZ])
    with pytest.raises(ValueError, match="read-only"):
        case.job[0] = 1
