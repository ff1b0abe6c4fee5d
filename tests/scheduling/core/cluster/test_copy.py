from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.cluster.copy import Change, ChangeKind, ClusterCopy, UnknownUnitError
from apps.scheduling.core.cluster.in_memory_store import Committed, MemoryCluster
from apps.scheduling.core.registry import make
from apps.scheduling.core.types import Placed
from tests.scheduling.core.clusters import request, topology

CLUSTER = topology((4, 2, 1))
CAUSED = np.linspace(10.0, 100.0, 10)


def claim(sequence: int, *cores: int, vector: np.ndarray | None = None) -> Change:
    units = CLUSTER.unit_id[list(cores)].tolist()
    return Change(sequence, ChangeKind.CLAIM, units=units, caused=CAUSED, vector=vector)


def release(sequence: int, *cores: int) -> Change:
    return Change(sequence, ChangeKind.RELEASE, units=CLUSTER.unit_id[list(cores)].tolist())


def state(copy: ClusterCopy) -> list[Any]:
    snapshot = copy.frozen()
    arrays = (
        snapshot.unit_free,
        snapshot.server_open,
        snapshot.server_caused,
        snapshot.server_free,
    )
    return [array.ravel().tolist() for array in arrays]


def after(*changes: Change) -> Snapshot:
    copy = ClusterCopy(CLUSTER)
    copy.apply(changes)
    return copy.snapshot()


def test_a_claim_takes_units_pressure_and_capacity() -> None:
    snapshot = after(claim(1, 0, 1))
    assert snapshot.unit_free.tolist() == [False, False, True, True, True, True, True]
    assert snapshot.server_caused[0] == pytest.approx(2 * CAUSED)
    assert snapshot.server_free[0] == pytest.approx(CLUSTER.server_capacity[0] / 2)
    assert snapshot.sequence == 1


@pytest.mark.parametrize(
    "change",
    [
        Change(1, ChangeKind.CLAIM, units=[100], caused=CAUSED),
        Change(1, ChangeKind.CLOSE, servers=[1]),
    ],
    ids=["unit", "server"],
)
def test_an_empty_cluster_has_no_unit_and_no_server(change: Change) -> None:
    copy = ClusterCopy(topology(()))
    with pytest.raises(UnknownUnitError, match="not in the topology"):
        copy.apply([change])


def test_a_vector_is_taken_per_unit_and_zero_means_the_equal_share() -> None:
    snapshot = after(claim(1, 0, 1, vector=np.array([1e9, 0.0, 0.0])))
    used = CLUSTER.server_capacity[0] - snapshot.server_free[0]
    assert used == pytest.approx([2e9, *(CLUSTER.server_capacity[0, 1:] / 2)])


def test_a_release_restores_the_initial_state() -> None:
    copy = ClusterCopy(CLUSTER)
    empty = state(copy)
    copy.apply([claim(1, 0, 1, 6), release(2, 0, 1, 6)])
    assert state(copy) == empty


def test_applying_the_log_twice_has_no_effect() -> None:
    changes = [claim(1, 0, 1), release(2, 0), claim(3, 0, 4)]
    once, twice = ClusterCopy(CLUSTER), ClusterCopy(CLUSTER)
    once.apply(changes)
    twice.apply(changes)
    twice.apply(changes)
    assert state(once) == state(twice)


def test_servers_open_and_close() -> None:
    closed = Change(1, ChangeKind.CLOSE, servers=[2])
    opened = Change(2, ChangeKind.OPEN, servers=[2])
    assert after(closed).server_open.tolist() == [True, False, True]
    assert after(closed, opened).server_open.tolist() == [True, True, True]


def test_an_own_commit_is_applied_before_its_log_entry_and_counted_once() -> None:
    copy = ClusterCopy(CLUSTER)
    (placed,) = make("tarcil").place(copy.snapshot(), [request()], np.random.default_rng(1))
    assert isinstance(placed, Placed)
    copy.apply_commit(placed, request(), sequence=5)
    early = state(copy)
    units = CLUSTER.unit_id[placed.units].tolist()
    copy.apply([Change(5, ChangeKind.CLAIM, units=units, caused=request().caused)])
    assert state(copy) == early
    assert not copy.snapshot().unit_free[placed.units].any()


def test_entries_older_than_an_own_commit_do_not_undo_it() -> None:
    copy = ClusterCopy(CLUSTER)
    (placed,) = make("tarcil").place(copy.snapshot(), [request()], np.random.default_rng(1))
    assert isinstance(placed, Placed)
    copy.apply_commit(placed, request(), sequence=5)
    copy.apply([claim(3, *placed.units.tolist()), release(4, *placed.units.tolist())])
    assert not copy.snapshot().unit_free[placed.units].any()


def test_a_release_with_the_number_of_the_claim_frees_the_unit() -> None:
    snapshot = after(claim(5, 0), release(5, 0))
    assert snapshot.unit_free.all()
    assert not snapshot.server_caused.any()


def test_an_old_release_frees_only_the_units_without_a_newer_claim() -> None:
    snapshot = after(claim(1, 0, 1), claim(5, 0), release(4, 0, 1))
    assert snapshot.unit_free[:2].tolist() == [False, True]


def test_a_unit_missing_from_the_topology_is_named() -> None:
    with pytest.raises(UnknownUnitError, match="101"):
        after(Change(1, ChangeKind.RELEASE, units=[101]))


def test_a_claim_without_interference_is_refused() -> None:
    with pytest.raises(ValueError, match="claim 1 has no caused"):
        after(Change(1, ChangeKind.CLAIM, units=[100]))


def test_snapshots_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        ClusterCopy(CLUSTER).snapshot().unit_free[0] = False


def test_a_frozen_snapshot_does_not_change() -> None:
    copy = ClusterCopy(CLUSTER)
    frozen, view = copy.frozen(), copy.snapshot()
    copy.apply([claim(1, 0)])
    assert frozen.unit_free[0]
    assert not view.unit_free[0]


def test_oversubscription_multiplies_free_capacity() -> None:
    copy = ClusterCopy(CLUSTER, oversubscription=np.array([2.0, 1.0, 1.0]))
    free = copy.snapshot().server_free / CLUSTER.server_capacity
    assert free[:, 0].tolist() == [2.0, 1.0, 1.0]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=40))
def test_sums_do_not_drift_over_claims_and_releases(moves: list[tuple[bool, int]]) -> None:
    copy = ClusterCopy(CLUSTER)
    empty = state(copy)
    copy.apply(
        (claim if is_claim else release)(n, unit) for n, (is_claim, unit) in enumerate(moves, 1)
    )
    copy.apply([release(1000, *range(7))])
    assert state(copy) == empty


def test_a_copy_that_follows_the_log_equals_the_master() -> None:
    master, copy = MemoryCluster(topology((4, 8, 2, 16))), None
    copy = ClusterCopy(master.topology)
    policy, rng = make("tarcil"), np.random.default_rng(4)
    held = []
    for turn in range(60):
        (placed,) = policy.place(master.snapshot(), [request(1 + turn % 4)], rng)
        if isinstance(placed, Placed):
            done = master.commit(placed, request(1 + turn % 4))
            held += [done.allocation] if isinstance(done, Committed) else []
        if turn % 3 == 0:
            master.release(held.pop(0))
    copy.apply(master.log)
    mine, theirs = copy.snapshot(), master.snapshot()
    assert mine.sequence == theirs.sequence
    assert np.array_equal(mine.unit_free, theirs.unit_free)
    assert np.array_equal(mine.server_caused, theirs.server_caused)
    assert np.array_equal(mine.server_free, theirs.server_free)
