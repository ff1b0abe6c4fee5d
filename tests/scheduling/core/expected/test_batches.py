"""Runs of jobs of one unit with `expected`, decided in one call, against one by one."""

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.cluster.in_memory_store import Committed, MemoryCluster
from apps.scheduling.core.expected.batches import new_found
from apps.scheduling.core.expected.rankings import ExpectedRankings
from apps.scheduling.core.fused import FusedExpected
from apps.scheduling.core.rankings import batch as ranking_batch
from apps.scheduling.core.rankings import by_signature as rankings
from apps.scheduling.core.types import (
    EXPLAINED,
    Placed,
    RefusalReason,
    Refused,
    Request,
    Within,
)
from tests.scheduling.core.clusters import idle, loaded, request, topology

SIZES = tuple(np.random.default_rng(4).integers(1, 13, 150).tolist())
CLUSTER = topology(SIZES, racks=5)
_RNG = np.random.default_rng(12)
PROFILES: list[dict[str, Any]] = [
    {"caused": _RNG.uniform(0, 60, 10), "tolerated": _RNG.uniform(20, 100, 10)} for _ in range(3)
]
HARSH: dict[str, Any] = {"caused": np.full(10, 80.0), "tolerated": np.full(10, 15.0)}
PROFILES.append(HARSH)
JOB = st.fixed_dictionaries(
    {
        "units": st.sampled_from([1, 1, 1, 1, 2]),
        "unit_memory_bytes": st.sampled_from([0.0, 0.0, 6e9]),
        "platforms": st.sampled_from([None, None, frozenset({"A"}), frozenset({"Z"})]),
        "locality": st.sampled_from([None, None, Within.SERVER]),
        "excluded": st.sampled_from([frozenset[int](), frozenset({0, 3, 999})]),
        "platform_speed": st.sampled_from([None, np.array([1.0, 0.6])]),
        "measure_rank": st.booleans(),
        "is_patient": st.booleans(),
    }
)


class OneByOne(FusedExpected):
    """The same policy without batches."""

    def _can_batch(self, request: Request) -> bool:
        return False


def values_of(outcome: Placed | Refused) -> tuple[Any, ...]:
    """Return all values of an outcome; floats to the bit."""
    if isinstance(outcome, Refused):
        return tuple(getattr(outcome, name) for name in outcome.__slots__)
    common = [getattr(outcome, name) for name in outcome.__slots__]
    plain = [value for value in common if isinstance(value, int | float | str | dict)]
    scores = outcome.candidates.scores  # type: ignore[attr-defined]
    arrays = (scores.units, scores.servers, scores.key, scores.closeness, scores.headroom)
    listed = [array.tolist() for array in (*arrays, scores.expectations)]
    rest = (scores.examined, scores.listed, len(outcome.candidates), outcome.units.dtype)
    return (plain, outcome.units.tolist(), listed, rest)


@settings(max_examples=80)
@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, 3), JOB), min_size=1, max_size=10),
        min_size=1,
        max_size=4,
    ),
    share=st.sampled_from([0.0, 0.6, 0.97, 1.0]),
)
def test_a_run_is_decided_like_its_jobs_one_by_one(
    batches: list[list[tuple[int, dict[str, Any]]]], share: float
) -> None:
    store = filled(share)
    fast, slow = FusedExpected(), OneByOne()
    for number, jobs in enumerate(batches):
        asked = [
            request(job=str(i), **(PROFILES[profile] | fields))
            for i, (profile, fields) in enumerate(jobs)
        ]
        found = fast.place(store.view(), asked, np.random.default_rng(number))
        again = slow.place(store.view(), asked, np.random.default_rng(number))
        assert [values_of(outcome) for outcome in found] == [values_of(o) for o in again]
        earlier: list[Any] = []
        frozen = store.snapshot()
        for job, outcome in zip(asked, found, strict=True):
            replayed = fast.replay(frozen, job, seed=outcome.seed, earlier=earlier)
            assert values_of(replayed) == values_of(outcome)
            if isinstance(outcome, Placed):
                earlier.append((outcome.units, job))
        pairs = [(o, r) for o, r in zip(found, asked, strict=True) if isinstance(o, Placed)]
        assert all(isinstance(done, Committed) for done in store.commit_batch(pairs))


def filled(share: float) -> MemoryCluster:
    """Return a cluster on which a share of the units is allocated."""
    store, rng = MemoryCluster(CLUSTER, is_compiled=True), np.random.default_rng(5)
    for unit in np.flatnonzero(rng.random(CLUSTER.unit_id.size) < share).tolist():
        units = np.array([unit], np.int32)
        placed = Placed("old", units, (), 1, 1, {}, 0.8, 0.0, 0, 0, np.empty(0))
        store.commit(placed, request(**PROFILES[unit % 4]))
    return store


def test_a_run_is_one_call_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = Mock(wraps=ranking_batch.decide)
    monkeypatch.setattr(ranking_batch, "decide", decide)
    jobs = [request(job=str(i)) for i in range(30)]
    outcomes = FusedExpected().place(idle(topology((8,) * 10)), jobs, np.random.default_rng(1))
    assert decide.call_count == 1
    assert len({int(o.units[0]) for o in outcomes if isinstance(o, Placed)}) == 30


def test_a_job_of_a_run_that_waits_takes_no_unit() -> None:
    store = filled(0.7)
    jobs = [request(job=str(i), is_patient=i % 2 == 0, **HARSH) for i in range(60)]
    outcomes = FusedExpected().place(store.view(), jobs, np.random.default_rng(1))
    held = [o for o in outcomes if isinstance(o, Refused)]
    assert len(held) > 5
    assert all(o.reason is RefusalReason.QUALITY_SHORT for o in held)
    units = [int(o.units[0]) for o in outcomes if isinstance(o, Placed)]
    assert len(set(units)) == len(units) == 60 - len(held)
    impatient = [job for job, o in zip(jobs, outcomes, strict=True) if isinstance(o, Placed)]
    again = FusedExpected().place(store.view(), impatient, np.random.default_rng(1))
    shown = [[o.eligible for o in found if isinstance(o, Placed)] for found in (outcomes, again)]
    assert shown[0] == shown[1]  # each sees the units of those before it, and of no other


def test_decisions_write_nothing_behind_their_own_candidates() -> None:
    jobs, behind = [request(job=str(i)) for i in range(4)], -77
    ranked, found = ExpectedRankings(), new_found(len(jobs) + 1)
    for values in found:
        values.fill(behind)
    snapshot = loaded(CLUSTER, 0.5, np.random.default_rng(3))
    ranked.state(snapshot, TopologyFacts(CLUSTER))
    assert ranked.decide(
        ranked.rows(jobs), [False] * len(jobs), range(len(jobs)), found, 0
    ) == len(jobs)
    assert found.size.tolist() == [*[EXPLAINED] * len(jobs), behind]
    assert all((values[-1] == behind).all() for values in found)


def test_a_run_of_more_signatures_than_are_kept_takes_several_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rankings, "MAX_SIGNATURES", 2)
    decide = Mock(wraps=ranking_batch.decide)
    monkeypatch.setattr(ranking_batch, "decide", decide)
    jobs = [request(excluded=frozenset({i % 5})) for i in range(10)]
    snapshot = idle(topology((8,) * 10))
    outcomes = FusedExpected().place(snapshot, jobs, np.random.default_rng(1))
    assert decide.call_count == 5
    plain = OneByOne().place(snapshot, jobs, np.random.default_rng(1))
    assert [values_of(o) for o in outcomes] == [values_of(o) for o in plain]
