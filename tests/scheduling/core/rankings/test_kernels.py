"""Kernels of the rankings, against the code that is not compiled."""

from typing import Any

import numpy as np
import pytest

from apps.common.core.interference import N_SOURCES
from apps.scheduling.core import policies
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.cluster.in_memory_store import MemoryCluster
from apps.scheduling.core.fused import FusedExpected
from apps.scheduling.core.rankings.by_signature import RankedState
from tests.scheduling.core.clusters import loaded, request, topology

SIZES = tuple(np.random.default_rng(4).integers(1, 9, 60).tolist())
CLUSTER = topology(SIZES)
LABELS = tuple(frozenset({"gpu"}) if s % 3 else frozenset() for s in range(len(SIZES)))


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_taken_units_change_a_state_as_batch_state_does(share: float) -> None:
    rng = np.random.default_rng(7)
    snapshot, facts = loaded(CLUSTER, share, rng), TopologyFacts(CLUSTER)
    plain = BatchState.of(snapshot, facts, writable=True)
    ranked = RankedState.starting(snapshot, facts)
    assert plain.own is not None
    # 200 beside one neighbour is more than a pressure counts
    demands = [(rng.uniform(0, 200, N_SOURCES), rng.uniform(20, 100, N_SOURCES)) for _ in range(4)]
    for number, unit in enumerate(rng.permutation(np.flatnonzero(snapshot.unit_free))[:40]):
        caused, tolerated = demands[number % 4]
        asked = request(caused=caused, tolerated=tolerated)
        for state in (plain, ranked):
            state.allocate(np.array([unit], dtype=np.int32), asked)
    for name, values in plain.own._asdict().items():
        np.testing.assert_allclose(getattr(ranked.cluster, name), values, rtol=1e-5, atol=1e-6)
    assert ranked.cluster.free_count.tolist() == plain.free_count.tolist()
    assert ranked.busy == plain.busy


@pytest.mark.parametrize(
    ("constraint", "dropped"),
    [
        ({"platforms": frozenset({"J"})}, "platform"),
        ({"labels": frozenset({"gpu"})}, "labels"),
        ({"excluded": frozenset(range(5))}, "excluded"),
        ({"unit_memory_bytes": 1e12}, "capacity"),
    ],
)
def test_units_are_dropped_by_the_same_filter(constraint: dict[str, Any], dropped: str) -> None:
    store = MemoryCluster(topology(SIZES, labels=LABELS), is_compiled=True)
    store.set_open([9], is_open=False)
    asked = [request(**constraint)]
    (found,) = FusedExpected().place(store.view(), asked, np.random.default_rng(1))
    (plain,) = policies.expected().place(store.snapshot(), asked, np.random.default_rng(1))
    assert found.dropped == plain.dropped
    assert set(found.dropped) == {"closed", dropped}
