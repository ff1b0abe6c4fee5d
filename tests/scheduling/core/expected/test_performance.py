"""The policy `expected`: its terms by hand, and the compiled form against the assembled one."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core import loss, policies
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.cluster.in_memory_store import MemoryCluster
from apps.scheduling.core.expected.performance import (
    BLOCK,
    Weights,
    attainable_speed,
    gains_enough,
    score,
)
from apps.scheduling.core.fused import FusedExpected
from apps.scheduling.core.types import EXPLAINED, Placed, RefusalReason, Refused, Within
from tests.scheduling.core.clusters import idle, loaded, request, topology

SIZES = (4, 8, 16, 1, 2, 4, 8, 16)
TOLERANT = np.full(N_SOURCES, 90.0)
RNG = np.random.default_rng(1)


def scores(snapshot: Snapshot, **asked: Any) -> np.ndarray:
    state = BatchState.of(snapshot, TopologyFacts(snapshot.topology), writable=False)
    units = np.flatnonzero(snapshot.unit_free)
    return score(state, request(**asked), units, 1).closeness


def test_the_tolerated_pressure_costs_five_percent() -> None:
    pressures = np.array([0.0, 20.0, 40.0, 70.0])
    logs = loss.log_performance(pressures, np.array(40.0))
    assert np.exp(logs[0]) == 1.0
    assert logs[1] == pytest.approx(math.log(0.95) / 16.0)
    assert np.exp(logs[2]) == pytest.approx(0.95)
    assert logs[3] == pytest.approx(math.log(0.95) - 1.0)


def test_a_job_without_a_profile_is_not_exposed() -> None:
    assert loss.log_performance(np.array(100.0), np.array(loss.UNKNOWN)) == 0.0


def test_exposure_by_hand() -> None:
    # three units, two busy: each is pressed by the other's 60 / 2 = 30 points
    caused = np.array([[[60.0], [60.0], [0.0]]], dtype=np.float32)
    tolerated = np.array([[[55.0], [20.0], [loss.UNKNOWN]]], dtype=np.float32)
    first = math.log(0.95) * (1.0 - (30.0 / 55.0) ** 4) / 25.0
    second = -1.0 / loss.DECAY
    exposure = loss.exposure(caused, tolerated, np.array([3], dtype=np.int32))
    assert exposure[0, 0] == pytest.approx(first + second)


def test_tolerance_by_hand() -> None:
    # four units, two busy: the first is pressed by 60 / 3 = 20 points, the second by 30 / 3 = 10
    caused = np.array([[[30.0], [60.0], [0.0], [0.0]]], dtype=np.float32)
    tolerated = np.array([[[50.0], [90.0], [5.0], [5.0]]], dtype=np.float32)
    busy = np.array([[True, True, False, False]])
    sizes = np.array([4], dtype=np.int32)
    assert loss.tolerance(caused, tolerated, busy, sizes)[0, 0] == pytest.approx(50.0 - 20.0)
    assert loss.tolerance(caused, tolerated, ~busy, sizes)[0, 0] == pytest.approx(5.0 - 30.0)


def test_a_server_of_one_unit_has_no_exposure() -> None:
    one = np.full((1, 1, N_SOURCES), 50.0, dtype=np.float32)
    assert not loss.exposure(one, one, np.array([1], dtype=np.int32)).any()


def test_the_terms_by_hand() -> None:
    cluster = topology((4, 4), platforms=("A", "B"))
    caused = np.zeros((2, N_SOURCES), dtype=np.float32)
    caused[1, 0] = 150.0  # pressure 50
    exposure = np.zeros((2, N_SOURCES), dtype=np.float32)
    exposure[1, 2] = -0.02
    free = np.ones(8, dtype=np.bool_)
    free[4:6] = False
    snapshot = replace(
        idle(cluster), server_caused=caused, server_exposure=exposure, unit_free=free
    )
    total = scores(
        snapshot,
        caused=np.full(N_SOURCES, 30.0),
        tolerated=np.full(N_SOURCES, 50.0),
        platform_speed=np.array([0.5, 1.0]),
    )
    weights = Weights()
    alone = weights.kept / (1.0 + math.exp((math.log(0.95) + weights.width) / weights.width))
    assert total[0] == pytest.approx(math.log(0.5) + alone)
    lost = math.log(0.95)
    kept = weights.kept / (1.0 + math.exp(1.0))
    crowd = weights.spread * 0.75**2 * 0.5
    neighbours = weights.neighbours * -0.02 * 30.0 / 3.0
    assert total[4] == pytest.approx(lost + kept + neighbours - crowd)
    # the second free unit of a server counts the first as busy
    assert total[4] - total[5] == pytest.approx(weights.spread * 0.75**2 / 4.0)


def test_pressure_above_100_points_costs_what_100_points_cost() -> None:
    caused = np.zeros((3, N_SOURCES), dtype=np.float32)
    caused[1, 0], caused[2, 0] = 300.0, 450.0  # pressures 100 and 150
    snapshot = replace(idle(topology((4, 4, 4))), server_caused=caused)
    total = scores(snapshot, tolerated=np.full(N_SOURCES, 50.0))
    assert total[0] > total[4] == total[8]


def test_the_headroom_is_what_the_job_tolerates_beyond_the_pressure() -> None:
    caused = np.zeros((2, N_SOURCES), dtype=np.float32)
    caused[1, 0] = 150.0  # pressure 50
    snapshot = replace(idle(topology((4, 4))), server_caused=caused)
    state = BatchState.of(snapshot, TopologyFacts(snapshot.topology), writable=False)
    asked = request(tolerated=np.full(N_SOURCES, 70.0))
    headroom = score(state, asked, np.array([0, 4]), 1).headroom
    assert headroom[:, 0].tolist() == [70.0, 20.0]
    assert headroom[:, 1].tolist() == [70.0, 70.0]


@pytest.mark.parametrize("seed", range(8))
def test_equal_servers_are_taken_by_turns_of_their_blocks(seed: int) -> None:
    snapshot = idle(topology((1,) * (2 * BLOCK + 1)))
    state = BatchState.of(snapshot, TopologyFacts(snapshot.topology), writable=False)
    units = np.arange(2 * BLOCK + 1)
    turns = score(state, request(), units, seed).key[:, 1]
    of_blocks = [set(turns[n : n + BLOCK].tolist()) for n in range(0, units.size, BLOCK)]
    order = [block.pop() for block in of_blocks if len(block) == 1]
    first = order.index(0)
    assert [*order[first:], *order[:first]] == [0, -1, -2]


def test_it_prefers_a_fast_platform_until_its_neighbours_cost_more() -> None:
    cluster = topology((4, 4), platforms=("A", "B"))
    asked = request(platform_speed=np.array([1.0, 0.7]), tolerated=np.full(N_SOURCES, 20.0))
    (quiet,) = FusedExpected().place(idle(cluster), [asked], np.random.default_rng(1))
    assert isinstance(quiet, Placed)
    assert cluster.unit_server[quiet.units[0]] == 0
    caused = np.zeros((2, N_SOURCES), dtype=np.float32)
    caused[0] = 3 * 60.0
    noisy = replace(idle(cluster), server_caused=caused)
    (moved,) = FusedExpected().place(noisy, [asked], np.random.default_rng(1))
    assert isinstance(moved, Placed)
    assert cluster.unit_server[moved.units[0]] == 1


def test_it_spares_neighbours_that_tolerate_little() -> None:
    store = MemoryCluster(topology((4, 4)))
    quiet = np.full(N_SOURCES, 5.0)
    for unit, limit in ((0, 15.0), (4, 90.0)):
        tenant = request(job=f"on-{unit}", caused=quiet, tolerated=np.full(N_SOURCES, limit))
        store.commit(placed_on(store, unit, job=tenant.job), tenant)
    noisy = request(caused=np.full(N_SOURCES, 80.0), tolerated=TOLERANT)
    (outcome,) = FusedExpected().place(store.snapshot(), [noisy], np.random.default_rng(1))
    assert isinstance(outcome, Placed)
    assert store.topology.unit_server[outcome.units[0]] == 1


def placed_on(store: MemoryCluster, unit: int, *, job: str) -> Placed:
    (placed,) = policies.expected().place(
        store.snapshot(), [request(job=job)], np.random.default_rng(1)
    )
    assert isinstance(placed, Placed)
    return replace(placed, units=np.array([unit], dtype=np.int32))


def test_a_job_of_many_units_fills_a_server_before_the_next() -> None:
    cluster = topology((4, 4, 4, 4))
    used = set()
    for seed in range(8):
        asked = [request(6)]
        (outcome,) = FusedExpected().place(idle(cluster), asked, np.random.default_rng(seed))
        assert isinstance(outcome, Placed)
        counts = np.bincount(cluster.unit_server[outcome.units], minlength=4).tolist()
        assert sorted(counts) == [0, 0, 2, 4]
        assert outcome.units.tolist()[:4] == [4 * counts.index(4) + core for core in range(4)]
        used.add(counts.index(4))
    assert len(used) > 1  # equal servers take turns


def test_a_further_unit_on_a_server_costs_a_job_of_one_unit_only() -> None:
    few = scores(idle(topology((4, 2))), units=1)
    many = scores(idle(topology((4, 2))), units=3)
    assert few[0] > few[1] > few[2]
    assert many[0] == many[1] == many[2] == few[0]


def test_it_has_examined_every_eligible_unit() -> None:
    (outcome,) = FusedExpected().place(
        idle(topology((64, 64))), [request()], np.random.default_rng(1)
    )
    assert isinstance(outcome, Placed)
    assert outcome.examined == outcome.eligible == 128
    assert outcome.probability == 0.0
    assert len(outcome.candidates) == EXPLAINED


@given(
    seed=st.integers(0, 2**31),
    busy=st.floats(0.0, 0.9),
    units=st.sampled_from([1, 1, 3, 12]),
    within=st.sampled_from([None, None, Within.SERVER, Within.RACK]),
    spread=st.sampled_from([None, Within.SERVER]),
)
def test_both_forms_decide_alike(
    seed: int, busy: float, units: int, within: Within | None, spread: Within | None
) -> None:
    rng = np.random.default_rng(seed)
    snapshot = loaded(topology(SIZES), busy, rng)
    asked = [
        request(
            units,
            job=f"job-{n}",
            caused=rng.uniform(0, 100, N_SOURCES),
            tolerated=rng.uniform(0, 100, N_SOURCES),
            platform_speed=rng.uniform(0.2, 2.0, len(snapshot.topology.platform_name)),
            locality=within,
            spread=None if within is Within.SERVER else spread,
            gang=bool(n % 2),
            is_patient=n < 2,
        )
        for n in range(3)
    ]
    plain, compiled = (
        policy.place(snapshot, asked, np.random.default_rng(seed))
        for policy in (policies.expected(), FusedExpected())
    )
    for one, other in zip(plain, compiled, strict=True):
        assert type(one) is type(other)
        if isinstance(one, Placed) and isinstance(other, Placed):
            assert one.units.tolist() == other.units.tolist()
            assert [c.key for c in one.candidates] == [c.key for c in other.candidates]
            assert one.examined == other.examined
        if isinstance(one, Refused) and isinstance(other, Refused):
            assert one.reason is other.reason
            assert (one.examined, one.eligible) == (other.examined, other.eligible)


@pytest.mark.parametrize(
    ("speed", "own", "neighbours", "usual", "takes"),
    [
        (1.0, 0.31, math.exp(-0.5), 1.0, True),  # 0.31 - 0.2 · 0.5 = 0.21
        (1.0, 0.29, math.exp(-0.5), 1.0, False),
        (0.5, 0.31, math.exp(-0.5), 1.0, False),  # half as fast
        (0.5, 0.31, math.exp(-0.5), 0.5, True),  # as fast as the job may hope for
        (0.01, 0.96, 1.0, 1.0, True),  # slow, but not contended
        (0.01, 0.96, math.exp(-0.1), 1.0, False),
        (1.0, 0.5, 0.0, 1.0, False),
    ],
)
def test_the_gain_of_a_unit_by_hand(
    speed: float, own: float, neighbours: float, usual: float, takes: bool
) -> None:
    assert gains_enough(np.array([speed, own, neighbours, 0.5]), lambda: usual) is takes


def test_a_job_may_hope_for_its_fastest_platform_if_that_is_slow() -> None:
    cluster = topology((4, 4, 4), labels=(frozenset({"k=a"}), frozenset({"k=b"}), frozenset()))
    facts = TopologyFacts(cluster)  # platforms J, A, J

    def usual(*speed: float, **asked: Any) -> float:
        return attainable_speed(facts, request(platform_speed=np.array(speed), **asked))

    assert usual(1.5, 0.2) == attainable_speed(facts, request()) == 1.0
    assert usual(0.7, 0.2) == 0.7
    assert usual(0.7, 0.2, platforms=frozenset({"A"})) == 0.2
    assert usual(0.7, 0.2, labels=frozenset({"k=b"})) == 0.2
    assert usual(0.7, 0.2, excluded=frozenset({0, 2})) == 0.2
    assert usual(0.7, 0.2, labels=frozenset({"k=c"})) == 1.0


def crowded() -> Snapshot:
    """Return two servers of four units, on each of which three sensitive jobs run."""
    store = MemoryCluster(topology((4, 4)))
    harsh: dict[str, Any] = {
        "caused": np.full(N_SOURCES, 80.0),
        "tolerated": np.full(N_SOURCES, 20.0),
    }
    for unit in (0, 1, 2, 4, 5, 6):
        placed = policies.expected().place(
            store.snapshot(), [request(**harsh)], np.random.default_rng(unit)
        )
        assert isinstance(placed[0], Placed)
        store.commit(placed[0], request(**harsh))
    return store.snapshot()


@pytest.mark.parametrize("make", [policies.expected, FusedExpected])
def test_a_patient_job_waits_where_it_would_gain_little(make: Any) -> None:
    snapshot = crowded()
    harsh: dict[str, Any] = {"tolerated": np.full(N_SOURCES, 20.0)}
    (waits,) = make().place(snapshot, [request(is_patient=True, **harsh)], RNG)
    assert isinstance(waits, Refused)
    assert waits.reason is RefusalReason.QUALITY_SHORT
    assert (waits.examined, waits.eligible, waits.dropped) == (2, 2, {"busy": 6})
    (at_once,) = make().place(snapshot, [request(**harsh)], RNG)
    assert isinstance(at_once, Placed)
    weights = Weights(gain=-100.0)
    (cheap,) = make(weights).place(snapshot, [request(is_patient=True, **harsh)], RNG)
    assert isinstance(cheap, Placed)


@pytest.mark.parametrize("make", [policies.expected, FusedExpected])
def test_no_job_waits_beside_units_that_are_busy_without_pressing(make: Any) -> None:
    """As units that are reserved for another job, on a platform that is slow for this one."""
    snapshot = idle(topology((4, 4)))
    free = snapshot.unit_free.copy()
    free[[0, 1, 4, 5]] = False
    slow: dict[str, Any] = {"platform_speed": np.array([0.05, 0.05]), "is_patient": True}
    (placed,) = make().place(replace(snapshot, unit_free=free), [request(**slow)], RNG)
    assert isinstance(placed, Placed)
