"""Every compiled form of P, D, C and F equals the reference objectives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.inventory.core.snapshot import Ints
from apps.placement.core.front import genome, variation
from apps.placement.core.front.archive import losses
from apps.placement.core.problem.costs import costs
from apps.placement.core.problem.evaluator import fill, pack, raw_values
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.objectives import evaluate, scales
from apps.placement.core.solver import incremental
from tests.placement.core.tiny import random_assignment, some_weights, tiny_instance

seeds = st.integers(0, 10_000)
EXCHANGES = 30


def case_of(seed: int) -> tuple[Instance, dict[str, float], Ints]:
    """A tiny instance of up to three slots per node (two if the seed is even), and weights."""
    instance = tiny_instance(seed, is_plain=seed % 2 == 0, containers=9)
    return instance, {**some_weights(seed), "M": 0.7}, random_assignment(instance, seed)


def oracle(instance: Instance, assignment: Ints) -> list[float]:
    raw = evaluate(instance, assignment).raw
    return [raw[name] for name in "PDC"]


@settings(max_examples=300)
@given(seed=seeds)
def test_a_batch_of_assignments_has_the_reference_values(seed: int) -> None:
    instance, _, _ = case_of(seed)
    batch = np.array([random_assignment(instance, seed + k) for k in range(5)])
    plain = [oracle(instance, assignment) for assignment in batch]
    assert raw_values(instance, batch) == pytest.approx(np.array(plain), abs=1e-9)


@settings(max_examples=300)
@given(seed=seeds)
def test_a_mutated_genome_has_the_reference_losses(seed: int) -> None:
    instance, _, assignment = case_of(seed)
    packed, decoded, values = pack(instance), genome.allocate(instance, seed), np.empty(3)
    fill(packed, decoded, assignment)
    if instance.job.size:
        variation.mutate(packed, decoded)
    genome.evaluate_losses(packed, decoded, values)
    plain = np.array([oracle(instance, decoded.at.astype(np.int64))])
    assert values == pytest.approx(losses(plain / scales(instance))[0], abs=1e-9)


@settings(max_examples=300)
@given(seed=seeds)
def test_a_scored_placement_has_the_reference_f(seed: int) -> None:
    instance, weights, assignment = case_of(seed)
    placement = incremental.score(instance, pack(instance), costs(instance, weights), assignment)
    plain = evaluate(instance, assignment, weights).F
    assert placement.total[0] == pytest.approx(plain, abs=1e-9)


@settings(max_examples=300)
@given(seed=seeds)
def test_every_exchange_updates_f_to_the_reference_value(seed: int) -> None:
    instance, weights, assignment = case_of(seed)
    packed, coefficients = pack(instance), costs(instance, weights)
    placement = incremental.score(instance, packed, coefficients, assignment)
    rng = np.random.default_rng(seed)
    fast, plain = [], []
    for a, b in exchangeable(instance, rng):
        i, k = (int(rng.integers(instance.slots[node])) for node in (a, b))
        incremental.exchange(packed, coefficients, placement, a, i, b, k)
        if instance.slots[a] == instance.slots[b]:
            incremental.exchange_nodes(packed, coefficients, placement, a, b)
        fast.append(placement.total[0])
        plain.append(evaluate(instance, placement.at, weights).F)
    assert fast == pytest.approx(plain, abs=1e-9)


def exchangeable(instance: Instance, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Random pairs of different nodes; none if there is only one node."""
    nodes = len(instance.node_ids)
    pairs = rng.integers(0, nodes, (EXCHANGES, 2)).tolist()
    return [(a, b) for a, b in pairs if a != b]


@settings(max_examples=300)
@given(seed=seeds)
def test_removing_a_container_gives_the_f_of_the_others(seed: int) -> None:
    instance, weights, assignment = case_of(seed)
    packed, coefficients = pack(instance), costs(instance, weights)
    placement = incremental.empty_placement(instance)
    totals = [0.0]
    for i, node in enumerate(assignment.tolist()):
        incremental.place(packed, coefficients, placement, i, node)
        totals.append(float(placement.total[0]))
    left = []
    for i in reversed(range(assignment.size)):
        left.append(float(placement.total[0]))
        incremental.remove_last(packed, coefficients, placement, i)
    left.append(float(placement.total[0]))
    assert left == pytest.approx(totals[::-1], abs=1e-9)
