"""The compiled updates of a cluster copy against those in numpy, to the bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.scheduling.core.cluster.copy import Change, ChangeKind, ClusterCopy
from tests.scheduling.core.clusters import request, topology

CLUSTER = topology((4, 2, 1, 8))
UNITS = CLUSTER.unit_id.size
STEP = st.tuples(
    st.sampled_from([ChangeKind.CLAIM, ChangeKind.RELEASE]),
    st.lists(st.integers(0, UNITS - 1), min_size=1, max_size=6, unique=True),
    st.integers(0, 9),  # sequence numbers may repeat and go back
    st.sampled_from([None, 1e9, 3e8]),
)


def changes(steps: list[tuple[ChangeKind, list[int], int, float | None]]) -> list[Change]:
    rng = np.random.default_rng(7)
    return [
        Change(
            sequence,
            kind,
            units=CLUSTER.unit_id[units].tolist(),
            caused=rng.uniform(0.0, 100.0, 10) if kind is ChangeKind.CLAIM else None,
            tolerated=rng.uniform(0.0, 100.0, 10) if sequence % 3 else None,
            vector=None if memory is None else np.array([memory, 0.0, 0.0]),
        )
        for kind, units, sequence, memory in steps
    ]


@given(st.lists(STEP, max_size=30))
def test_both_forms_reach_the_same_state(
    steps: list[tuple[ChangeKind, list[int], int, float | None]],
) -> None:
    copies = [ClusterCopy(CLUSTER), ClusterCopy(CLUSTER, is_compiled=True)]
    for copy in copies:
        copy.apply(changes(steps))
    plain, compiled = (copy.snapshot() for copy in copies)
    assert np.array_equal(plain.unit_free, compiled.unit_free)
    assert np.array_equal(plain.server_caused, compiled.server_caused)
    assert np.array_equal(plain.server_free, compiled.server_free)
    # sums in single precision that reach 1 to 2 on the way: a few units in the last place of these
    few = 8.0 * float(np.finfo(np.float32).eps)
    np.testing.assert_allclose(plain.server_exposure, compiled.server_exposure, atol=few)
    np.testing.assert_allclose(plain.server_tolerance, compiled.server_tolerance, atol=1e-4)
    assert plain.sequence == compiled.sequence


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize(("sequence", "is_free"), [(4, False), (5, True), (6, True)])
def test_a_release_counts_unless_the_claim_is_newer(
    is_compiled: bool, sequence: int, is_free: bool
) -> None:
    copy, units = ClusterCopy(CLUSTER, is_compiled=is_compiled), np.array([4], dtype=np.int32)
    copy.apply(changes([(ChangeKind.CLAIM, [4], 5, None)]))
    copy.release(units, sequence=sequence)
    assert copy.snapshot().unit_free[4] == is_free


@given(st.lists(STEP, max_size=30), st.integers(0, 30))
def test_entries_applied_together_have_the_effect_of_each_alone(
    steps: list[tuple[ChangeKind, list[int], int, float | None]], closes_after: int
) -> None:
    entries = changes(steps)
    entries.insert(closes_after, Change(5, ChangeKind.CLOSE, servers=[int(CLUSTER.server_id[1])]))
    together, alone = ClusterCopy(CLUSTER), ClusterCopy(CLUSTER)
    together.apply(entries)
    for entry in entries:
        alone.apply([entry])
    one, other = together.frozen(), alone.frozen()
    assert np.array_equal(one.unit_free, other.unit_free)
    assert np.array_equal(one.server_open, other.server_open)
    assert np.array_equal(one.server_caused, other.server_caused)
    assert np.array_equal(one.server_exposure, other.server_exposure)
    assert np.array_equal(one.server_tolerance, other.server_tolerance)
    assert np.array_equal(one.server_free, other.server_free)
    assert one.sequence == other.sequence


def test_every_server_of_entries_applied_together_counts_as_changed() -> None:
    copy = ClusterCopy(CLUSTER)
    seen = copy.snapshot()
    assert seen.changed is not None
    copy.apply(changes([(ChangeKind.CLAIM, [0, 4], 1, None), (ChangeKind.CLAIM, [7], 2, None)]))
    assert sorted(seen.changed.tolist()) == [0, 1, 2, 3]


CLAIM = st.tuples(
    st.lists(st.integers(0, UNITS - 1), min_size=1, max_size=4, unique=True),
    st.integers(0, 9),
    st.sampled_from([0.0, 1e9, 3e8]),
)


@pytest.mark.parametrize("is_compiled", [False, True])
@given(claims=st.lists(CLAIM, min_size=1, max_size=8))
def test_claims_made_together_have_the_effect_of_each_alone(
    is_compiled: bool, claims: list[tuple[list[int], int, float]]
) -> None:
    rng = np.random.default_rng(3)
    units = [np.array(each, dtype=np.int32) for each, _, _ in claims]
    jobs = [
        request(caused=rng.uniform(0.0, 100.0, 10), unit_memory_bytes=memory)
        for _, _, memory in claims
    ]
    sequences = [sequence for _, sequence, _ in claims]
    together, alone = (ClusterCopy(CLUSTER, is_compiled=is_compiled) for _ in range(2))
    together.claim_all(units, jobs, sequences)
    for each, job, sequence in zip(units, jobs, sequences, strict=True):
        alone.claim(each, job, sequence=sequence)
    one, other = (copy._state._asdict() for copy in (together, alone))
    assert [name for name in one if not np.array_equal(one[name], other[name])] == []
