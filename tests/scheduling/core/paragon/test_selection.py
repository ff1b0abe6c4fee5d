"""Paragon's selection of servers, by hand (P5, P6, P13)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.scheduling.core import loss
from apps.scheduling.core.baselines import paragon_sampling
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.cluster.copy import Change, ChangeKind, ClusterCopy
from apps.scheduling.core.filters import eligible
from apps.scheduling.core.paragon import hashing
from apps.scheduling.core.paragon import selection as paragon
from apps.scheduling.core.registry import make
from apps.scheduling.core.tarcil.guarantee import miss_probability
from apps.scheduling.core.types import Placed, Request
from tests.scheduling.core.clusters import idle, loaded, request, topology

N = 10


def copy_with(*jobs: tuple[int, float, float]) -> ClusterCopy:
    """Return two servers of 3 units with jobs: unit, caused, tolerated."""
    cluster = topology((3, 3))
    copy = ClusterCopy(cluster)
    copy.apply(
        Change(
            number,
            ChangeKind.CLAIM,
            units=[int(cluster.unit_id[unit])],
            caused=np.full(N, caused),
            tolerated=np.full(N, tolerated),
        )
        for number, (unit, caused, tolerated) in enumerate(jobs, start=1)
    )
    return copy


def state_of(copy: ClusterCopy) -> BatchState:
    snapshot = copy.frozen()
    return BatchState.of(snapshot, TopologyFacts(snapshot.topology), writable=True)


def placed(name: str, copy: ClusterCopy, spec: Request, seed: int = 1) -> Placed:
    (outcome,) = make(name).place(copy.frozen(), [spec], np.random.default_rng(seed))
    assert isinstance(outcome, Placed)
    return outcome


def test_the_tolerance_of_a_server_is_the_least_of_its_jobs_less_their_pressure() -> None:
    # each of the two receives the other's pressure: 50 / 2 and 20 / 2
    snapshot = copy_with((0, 20.0, 60.0), (1, 50.0, 45.0)).frozen()
    assert snapshot.server_tolerance[0].tolist() == [min(60.0 - 25.0, 45.0 - 10.0)] * N
    assert snapshot.server_tolerance[1].tolist() == [loss.IDLE] * N


def test_a_job_of_unknown_tolerance_does_not_count() -> None:
    caused = np.full((1, 1, N), 30.0, dtype=np.float32)
    unknown = np.full((1, 1, N), loss.UNKNOWN, dtype=np.float32)
    units = np.array([4], dtype=np.int32)
    assert loss.tolerance(caused, unknown, np.array([[True]]), units).tolist() == [[100.0] * N]


def test_a_batch_keeps_the_tolerance_of_a_copy() -> None:
    state = state_of(copy_with((0, 20.0, 60.0)))
    spec = request(caused=np.full(N, 50.0), tolerated=np.full(N, 45.0))
    state.allocate(np.array([1], dtype=np.int32), spec)
    state.allocate(np.array([3], dtype=np.int32), spec)
    assert state.server_tolerance[0] == pytest.approx(np.full(N, 35.0))
    assert state.server_tolerance[1] == pytest.approx(np.full(N, 45.0))


def test_margins_by_hand() -> None:
    state = state_of(copy_with((0, 20.0, 60.0)))
    spec = request(2, caused=np.full(N, 50.0), tolerated=np.full(N, 45.0))
    found = paragon.margins(state, spec, np.array([1, 2, 3]))
    # the server tolerates 60, a unit causes 50 / 2; the job tolerates 45 and receives 20 / 2, its
    # second unit also 25 of the first
    assert found.neighbours[:, 0].tolist() == [35.0, 10.0, 75.0]
    assert found.own[:, 0].tolist() == [35.0, 10.0, 45.0]


# rows: four servers; columns: constraints in their order
CONSTRAINTS = np.array(
    [
        [1.0, 1.0, -5.0],
        [1.0, -2.0, 3.0],
        [-1.0, 4.0, 4.0],
        [2.0, 1.0, -1.0],
    ]
)


def test_a_search_without_conflict_keeps_what_passes_everywhere() -> None:
    found = paragon.search(np.abs(CONSTRAINTS) * np.array([[1.0], [1.0], [-1.0], [1.0]]))
    assert (found.rows.tolist(), found.relaxed) == ([0, 1, 3], 0)


def test_an_empty_set_relaxes_the_source_before() -> None:
    # 0 and 3 pass the first two, neither the third; of those that pass the first, 1 passes the
    # third, so the second is relaxed to -2
    found = paragon.search(CONSTRAINTS)
    assert (found.rows.tolist(), found.relaxed) == ([1], 1)


def test_backtracking_goes_further_back_if_needed() -> None:
    # without row 1, only row 2 passes the third: the first is relaxed to -1
    found = paragon.search(CONSTRAINTS[[0, 2, 3]])
    assert (found.rows.tolist(), found.relaxed) == ([1], 1)


def test_a_source_that_no_server_satisfies_is_relaxed_itself() -> None:
    found = paragon.search(np.array([[1.0, -3.0], [1.0, -2.0]]))
    assert (found.rows.tolist(), found.relaxed) == ([1], 1)


def test_the_limit_ends_the_search_with_what_remains() -> None:
    found = paragon.search(CONSTRAINTS, limit=7)  # four values, three, and two are too many
    assert (found.rows.tolist(), found.is_complete) == ([0, 3], False)
    assert paragon.search(CONSTRAINTS, limit=100).is_complete


@given(
    st.integers(1, 12).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(-3, 5), min_size=6, max_size=6), min_size=n, max_size=n
        )
    )
)
def test_a_search_finds_servers_that_violate_nothing_if_there_are_any(
    values: list[list[int]],
) -> None:
    constraints = np.array(values, dtype=np.float64)
    found = paragon.search(constraints)
    good = np.flatnonzero((constraints >= 0.0).all(axis=1))
    assert found.rows.size
    assert found.rows.tolist() == good.tolist() or (not good.size and found.relaxed)


@pytest.mark.parametrize(
    ("name", "server"),
    [
        ("paragon_greedy", 1),  # the quiet server, though its platform is slower
        ("heterogeneity_oblivious", 1),
        ("interference_oblivious", 0),  # the fast platform, though its jobs cause 80
    ],
)
def test_baselines_see_only_their_half(name: str, server: int) -> None:
    copy = copy_with((0, 80.0, 90.0), (1, 80.0, 90.0))
    spec = request(
        caused=np.full(N, 20.0),
        tolerated=np.full(N, 50.0),
        platform_speed=np.array([1.0, 0.5]),
    )
    assert placed(name, copy, spec).units[0] // 3 == server


def test_of_the_servers_without_violation_the_fastest_platform_wins() -> None:
    copy = copy_with((0, 10.0, 90.0))
    for speeds, server in (([1.0, 0.5], 0), ([0.5, 1.0], 1)):
        spec = request(caused=np.full(N, 20.0), platform_speed=np.array(speeds))
        assert placed("paragon_greedy", copy, spec).units[0] // 3 == server


def test_on_equal_platforms_the_tightest_fit_wins() -> None:
    copy = copy_with((0, 10.0, 90.0))
    spec = request(caused=np.full(N, 20.0))
    assert placed("paragon_greedy", copy, spec).units[0] // 3 == 0
    assert placed("heterogeneity_oblivious", copy, spec).units[0] // 3 == 0


def test_the_quality_of_a_colocation_by_hand() -> None:
    margin = np.zeros((3, N))
    margin[1, :5] = 100.0  # t = 1 and c = 0 in five sources
    margin[2, 0] = -50.0
    assert paragon.colocation_quality(margin).tolist() == [1.0, 0.5, -0.05]


def test_a_smaller_violation_is_a_better_colocation() -> None:
    violated = np.array([-90.0, -10.0, -1.0])
    quality = paragon.colocation_quality(np.repeat(violated[:, None], N, axis=1))
    assert quality.tolist() == pytest.approx([-0.9, -0.1, -0.01])
    # any server that is not violated in sum is better, however loosely it fits
    assert paragon.colocation_quality(np.full((1, N), 100.0)).tolist() == [0.0]


def test_for_one_unit_all_units_of_a_server_have_the_same_quality() -> None:
    state = state_of(copy_with((0, 20.0, 60.0)))
    units = np.array([1, 2, 3, 4, 5])
    one = paragon.colocation(state, request(caused=np.full(N, 20.0)), units, 1)
    assert one.key[:, 0].tolist() == [one.key[0, 0]] * 2 + [one.key[2, 0]] * 3
    two = paragon.colocation(state, request(2, caused=np.full(N, 20.0)), units, 1)
    assert two.key[1, 0] > two.key[0, 0]  # the second one of the job fits more closely
    assert two.key[3, 0] == two.key[4, 0] > two.key[2, 0]


def test_the_papers_normalised_quality() -> None:
    shown = paragon.normalised(np.array([-1.2, -1.0, 0.8]), -1.2, 0.8)
    assert shown.tolist() == pytest.approx([0.0, 0.1, 1.0])
    assert paragon.normalised(np.array([0.3]), 0.3, 0.3).tolist() == [1.0]


def test_a_candidate_beyond_the_best_tenth_is_missed_with_the_papers_probability() -> None:
    assert miss_probability(0.9, 128) == pytest.approx(1.4e-6, rel=0.02)


def test_hashes_have_fourteen_bits_and_differ_by_source() -> None:
    values = [hashing.hashed(source, 40) for source in range(N)]
    assert len(set(values)) == N
    assert all(0 <= value < 2**14 for value in values)
    assert hashing.hashed(0, 40) == values[0]


def test_hashes_of_probes_differ_by_salt() -> None:
    values = [hashing.hashed(0, 40, salt) for salt in range(20)]
    assert len(set(values)) > 15
    assert hashing.hashed(0, 40) == values[0]


def test_a_ring_has_the_free_units_in_the_order_of_the_hashes() -> None:
    scores, free = np.array([10.0, 40.0, 70.0]), np.array([1, 3, 4], dtype=np.int32)
    order = np.argsort([hashing.hashed(0, int(score)) for score in scores])
    ring = hashing.Ring(0, scores, free)
    found = [ring.at(i * 2**14 // 8, 0) for i in range(8)]
    assert [server for server, _ in found] == np.repeat(order, free[order]).tolist()
    assert sorted(found) == [(s, nth) for s, units in enumerate(free) for nth in range(units)]
    # the draw divides what 14 bits cannot
    wide = hashing.Ring(0, np.array([10.0]), np.array([2**16], dtype=np.int32))
    assert wide.at(0, 0) != wide.at(0, 2**64 - 1)


def test_every_free_unit_is_a_candidate_with_the_same_probability() -> None:
    cluster = topology((2, 6) * 20)
    snapshot = replace(idle(cluster), server_tolerance=np.tile(
        np.linspace(0.0, 100.0, 40, dtype=np.float32)[:, None], (1, N)))  # fmt: skip
    state = BatchState.of(snapshot, TopologyFacts(cluster), writable=False)
    spec = request()
    found = eligible(state, spec)
    drawn = np.concatenate([hashing.by_hash(state, spec, found, 16, seed) for seed in range(500)])
    counts = np.bincount(drawn, minlength=160)
    # 500 draws of 16 of 160 units: 50 each, deviation 6.7; the most of 160 by chance
    assert (abs(counts - 50) < 4.5 * 6.7).all()


def test_the_stored_probability_is_the_share_of_choices_outside_the_best_fifth() -> None:
    cluster, rng = topology((4, 8, 16) * 60), np.random.default_rng(3)
    snapshot = loaded(cluster, 0.7, rng)
    policy, outcomes = paragon_sampling(), []
    programs = [rng.uniform(0.0, 90.0, N) for _ in range(40)]  # each places ten jobs
    for number in range(400):
        spec = request(caused=programs[number % 40], measure_rank=True)
        (outcome,) = policy.place(snapshot, [spec], rng)
        assert isinstance(outcome, Placed)
        outcomes.append(outcome)
    ranks = np.array([outcome.ranks[0] for outcome in outcomes])
    stored = outcomes[0].probability
    assert stored == pytest.approx(0.8**16)
    # 400 decisions: a deviation of 0.8 points
    assert abs((ranks < 0.8).mean() - stored) < 0.05
    # the mean of the best of 16 is 16/17, with a deviation of 0.0028
    assert abs(ranks.mean() - 16 / 17) < 4 * 0.0028


def test_hashed_candidates_are_free_units_without_repetition() -> None:
    snapshot = idle(topology((4,) * 40))
    busy = replace(snapshot, unit_free=np.arange(160) % 4 != 0)
    state = BatchState.of(busy, TopologyFacts(busy.topology), writable=False)
    spec = request()
    units = hashing.by_hash(state, spec, eligible(state, spec), 20, 7)
    assert units.size == np.unique(units).size == 20
    assert busy.unit_free[units].all()
    assert (np.diff(units) > 0).all()
