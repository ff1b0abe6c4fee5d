"""Behaviour of single policy parts beyond the common contract."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.registry import make
from apps.scheduling.core.types import Placed, Policy, Request, Verdict, Within
from tests.scheduling.core.clusters import SHARE, idle, request, topology


def noisy(snapshot: Snapshot, *levels: float) -> Snapshot:
    """Servers with one busy unit that causes the given score in every source."""
    caused = np.repeat(np.array(levels)[:, None], 10, axis=1).astype(np.float32)
    free = snapshot.unit_free.copy()
    free[snapshot.topology.server_first_unit] = False
    return replace(snapshot, server_caused=caused, unit_free=free)


def placed(policy: Policy, snapshot: Snapshot, spec: Request, seed: int = 1) -> Placed:
    (outcome,) = policy.place(snapshot, [spec], np.random.default_rng(seed))
    assert isinstance(outcome, Placed)
    return outcome


def servers(outcome: Placed, snapshot: Snapshot) -> list[int]:
    return sorted(snapshot.topology.unit_server[outcome.units].tolist())


# four servers of 3 units feel 0, 40, 60 and 90; a job of 45 tolerates 54
LEVELS = noisy(idle(topology((3, 3, 3, 3))), 0.0, 80.0, 120.0, 180.0)


@pytest.mark.parametrize(
    ("name", "caused", "server"),
    [
        ("tarcil", 45.0, 1),  # the loudest that leaves the job its margin
        ("tarcil", 5.0, 2),  # on the loudest it would have no margin left
        ("tarcil", 95.0, 0),
        ("quietest", 5.0, 0),
        ("quietest", 95.0, 0),
    ],
)
def test_the_score_prefers_the_expected_server(name: str, caused: float, server: int) -> None:
    spec = request(caused=np.full(10, caused), sample_size=100)
    assert servers(placed(make(name), LEVELS, spec), LEVELS) == [server]


@pytest.mark.parametrize(("name", "server"), [("tarcil", 2), ("tarcil_printed", 3)])
def test_below_the_target_only_the_printed_form_prefers_the_far_miss(
    name: str, server: int
) -> None:
    loud = replace(LEVELS, server_open=np.array([False, False, True, True]))
    spec = request(caused=np.full(10, 80.0), sample_size=100)
    assert servers(placed(make(name), loud, spec), LEVELS) == [server]


def test_units_with_a_margin_rank_above_quieter_units_without() -> None:
    # the second source alone is too loud on the first server, which Eq. 5 sees last
    pressure = np.zeros((2, 10), dtype=np.float32)
    pressure[0, 1], pressure[1] = 2 * 60.0, 2 * 30.0
    snapshot = replace(idle(topology((3, 3))), server_caused=pressure)
    caused = np.full(10, 45.0)
    caused[0] = 46.0
    spec = request(caused=caused, sample_size=100)
    assert servers(placed(make("tarcil"), snapshot, spec), snapshot) == [1]


def test_units_with_too_much_pressure_are_marked() -> None:
    spec = request(caused=np.full(10, 50.0), sample_size=100)
    candidates = placed(make("tarcil"), LEVELS, spec).candidates
    verdicts = {c.server: c.verdict for c in candidates if c.verdict != Verdict.CHOSEN}
    assert verdicts == {
        0: Verdict.OUTRANKED,
        1: Verdict.OUTRANKED,
        2: Verdict.TOO_NOISY,
        3: Verdict.TOO_NOISY,
    }


@pytest.mark.parametrize("name", ["tarcil", "quietest"])
def test_ties_go_to_the_faster_platform(name: str) -> None:
    snapshot = idle(topology((4, 4)))
    spec = request(platform_speed=np.array([0.9, 1.0]), sample_size=100)
    assert servers(placed(make(name), snapshot, spec), snapshot) == [1]


def test_the_neighbourhood_with_the_best_aggregate_quality_is_chosen() -> None:
    near = request(2, locality=Within.SERVER, caused=np.full(10, 45.0), sample_size=100)
    outcomes = [placed(make("tarcil"), LEVELS, near, seed) for seed in range(5)]
    assert [servers(outcome, LEVELS) for outcome in outcomes] == [[1, 1]] * 5


def test_least_loaded_fills_servers_evenly() -> None:
    snapshot = idle(topology((4, 4)))
    assert servers(placed(make("least_loaded"), snapshot, request(4)), snapshot) == [0, 0, 1, 1]


def test_least_loaded_compares_shares_not_units() -> None:
    snapshot = noisy(idle(topology((8, 2))), 0.0, 0.0)
    assert servers(placed(make("least_loaded"), snapshot, request(4)), snapshot) == [0] * 4


def test_least_loaded_breaks_ties_by_memory() -> None:
    snapshot = idle(topology((4, 4)))
    left = snapshot.server_free.copy()
    left[1, 0] -= SHARE[0]
    less = replace(snapshot, server_free=left)
    assert servers(placed(make("least_loaded"), less, request()), snapshot) == [0]


def test_least_loaded_has_no_miss_probability() -> None:
    snapshot = idle(topology((4,) * 50))
    outcome = placed(make("least_loaded"), snapshot, request())
    assert (outcome.probability, outcome.eligible) == (0.0, 200)


@pytest.mark.parametrize("name", ["random", "roomiest"])
@pytest.mark.parametrize(
    ("fields", "chance"),
    [({}, 0.8), ({"units": 2}, 1.0 - 0.2**2), ({"units": 2, "locality": Within.SERVER}, 0.8)],
    ids=["one", "two", "together"],
)
def test_units_taken_without_a_comparison_have_the_chance_of_random_ones(
    name: str, fields: dict[str, Any], chance: float
) -> None:
    snapshot = idle(topology((4,) * 50))
    outcome = placed(make(name), snapshot, request(**fields))
    assert outcome.probability == pytest.approx(chance)
    assert outcome.draws == 1


def test_a_sample_too_narrow_for_the_spread_is_widened() -> None:
    snapshot = idle(topology((30, 1, 1)))
    spec = request(3, spread=Within.SERVER, gang=True, sample_size=1)
    assert servers(placed(make("tarcil"), snapshot, spec), snapshot) == [0, 1, 2]


def test_the_rack_with_the_best_servers_apart_wins() -> None:
    # Q is 1 and 0.2 in the first rack, 0.7 on both servers of the second
    snapshot = noisy(idle(topology((3, 3, 3, 3))), 0.0, 60.0, 240.0, 60.0)
    spec = request(2, locality=Within.RACK, spread=Within.SERVER, sample_size=100)
    assert servers(placed(make("quietest"), snapshot, spec), snapshot) == [1, 3]


def test_a_sample_without_a_rack_of_enough_servers_is_widened() -> None:
    # four in five units are in the first rack, which has only one server
    snapshot = idle(topology((30, 4, 1, 4), racks=4))
    racks = replace(snapshot.topology, server_rack=np.array([0, 1, 2, 1], dtype=np.int32))
    spec = request(2, locality=Within.RACK, spread=Within.SERVER, sample_size=1)
    outcome = placed(make("tarcil"), replace(snapshot, topology=racks), spec)
    assert servers(outcome, snapshot) == [1, 3]


def test_a_decision_repeats_from_its_seed() -> None:
    policy, snapshot = make("tarcil"), idle(topology((4,) * 50))
    outcome = placed(policy, snapshot, request(3))
    again = policy.replay(snapshot, request(3), seed=outcome.seed)  # type: ignore[attr-defined]
    assert again.units.tolist() == outcome.units.tolist()
    assert [c.key for c in again.candidates] == [c.key for c in outcome.candidates]


@pytest.mark.parametrize("name", ["tarcil", "expected", "sampling", "random"])
@pytest.mark.parametrize(
    ("locality", "spread"),
    [(Within.SERVER, None), (Within.RACK, None), (None, Within.SERVER), (None, Within.RACK)],
)
def test_a_single_unit_is_placed_like_one_without_locality_or_spread(
    name: str, locality: Within | None, spread: Within | None
) -> None:
    snapshot = noisy(idle(topology((3, 3, 3, 3) * 10)), *np.linspace(0.0, 180.0, 40).tolist())
    spec = request(locality=locality, spread=spread)
    constrained = placed(make(name), snapshot, spec)
    alone = placed(make(name), snapshot, request())
    assert constrained.units.tolist() == alone.units.tolist()
    assert constrained.examined == alone.examined


def test_servers_with_a_label_are_remembered_for_a_limited_number_of_labels() -> None:
    """Users name any label."""
    facts = TopologyFacts(topology((4, 4), labels=(frozenset({"disk=ssd"}), frozenset())))
    for run in range(3000):
        assert not facts.labelled(frozenset({f"run={run}"})).any()
        assert facts.labelled(frozenset({"disk=ssd"})).tolist() == [True, False]
    assert len(facts._labelled) <= 1024
