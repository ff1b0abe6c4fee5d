from dataclasses import replace

import numpy as np
import pytest

from apps.scheduling.core.cluster.in_memory_store import (
    Committed,
    Conflict,
    MemoryCluster,
    UnknownAllocationError,
)
from apps.scheduling.core.registry import make
from apps.scheduling.core.types import Placed, Request, Within
from tests.scheduling.core.clusters import SHARE, request, topology


def placed(cluster: MemoryCluster, spec: Request, *, seed: int = 1) -> Placed:
    (outcome,) = make("tarcil").place(cluster.snapshot(), [spec], np.random.default_rng(seed))
    assert isinstance(outcome, Placed)
    return outcome


def committed(cluster: MemoryCluster, spec: Request) -> Committed:
    done = cluster.commit(placed(cluster, spec), spec)
    assert isinstance(done, Committed)
    return done


def test_a_commit_allocates_the_placed_units() -> None:
    cluster = MemoryCluster(topology((4, 4)))
    choice = placed(cluster, request(3))
    done = cluster.commit(choice, request(3))
    assert isinstance(done, Committed)
    assert done.units.tolist() == choice.units.tolist()
    assert [cluster.owner(int(u)) for u in done.units] == [done.allocation] * 3
    assert not cluster.snapshot().unit_free[done.units].any()


def test_two_placements_of_one_unit_conflict() -> None:
    cluster = MemoryCluster(topology((1,)))
    first, second = placed(cluster, request()), placed(cluster, request())
    assert isinstance(cluster.commit(first, request()), Committed)
    lost = cluster.commit(second, request())
    assert isinstance(lost, Conflict)
    assert lost.lost.tolist() == [0]


def test_a_gang_that_lost_one_unit_wins_none() -> None:
    cluster = MemoryCluster(topology((4,)))
    gang = request(4, gang=True)
    late = placed(cluster, gang)
    early = committed(cluster, request())
    assert isinstance(cluster.commit(late, gang), Conflict)
    assert cluster.snapshot().unit_free.sum() == 3
    assert cluster.owner(int(early.units[0])) == early.allocation


def test_units_with_a_locality_constraint_are_won_together_or_not_at_all() -> None:
    cluster = MemoryCluster(topology((4,)))
    near = request(4, locality=Within.SERVER)
    late = placed(cluster, near)
    committed(cluster, request())
    assert isinstance(cluster.commit(late, near), Conflict)


def test_an_incremental_job_keeps_what_it_won() -> None:
    cluster = MemoryCluster(topology((4,)))
    late = placed(cluster, request(4))
    early = committed(cluster, request())
    done = cluster.commit(late, request(4))
    assert isinstance(done, Committed)
    assert (done.units.size, done.lost.tolist()) == (3, early.units.tolist())


def test_a_release_frees_units_and_pressure() -> None:
    cluster = MemoryCluster(topology((4,)))
    before = cluster.snapshot()
    done = committed(cluster, request(2))
    cluster.release(done.allocation)
    now = cluster.snapshot()
    assert np.array_equal(now.unit_free, before.unit_free)
    assert np.array_equal(now.server_caused, before.server_caused)
    assert now.sequence == before.sequence + 2


def test_releasing_twice_is_an_error() -> None:
    cluster = MemoryCluster(topology((4,)))
    done = committed(cluster, request())
    cluster.release(done.allocation)
    with pytest.raises(UnknownAllocationError, match="no allocation 1"):
        cluster.release(done.allocation)


def test_a_server_never_exceeds_its_memory() -> None:
    cluster = MemoryCluster(topology((4,)))
    greedy = request(4, unit_memory_bytes=2 * SHARE[0])
    done = cluster.commit(placed(cluster, request(4)), greedy)
    assert isinstance(done, Committed)
    assert done.units.size == 2
    assert cluster.snapshot().server_free[0, 0] == pytest.approx(0.0)


def test_oversubscription_allows_more_memory() -> None:
    cluster = MemoryCluster(topology((4,)), oversubscription=2.0)
    greedy = request(4, unit_memory_bytes=2 * SHARE[0])
    done = cluster.commit(placed(cluster, request(4)), greedy)
    assert isinstance(done, Committed)
    assert done.units.size == 4


def test_closed_servers_allocate_nothing() -> None:
    cluster = MemoryCluster(topology((4, 4)))
    choice = placed(cluster, request())
    cluster.set_open([0, 1], is_open=False)
    assert isinstance(cluster.commit(choice, request()), Conflict)
    cluster.set_open([0, 1], is_open=True)
    assert isinstance(cluster.commit(choice, request()), Committed)


def test_a_stale_placement_of_free_units_still_commits() -> None:
    cluster = MemoryCluster(topology((4, 4)))
    stale = replace(placed(cluster, request()), sequence=-5)
    assert isinstance(cluster.commit(stale, request()), Committed)


def test_a_batch_is_committed_in_its_order() -> None:
    cluster = MemoryCluster(topology((1,)))
    choice = placed(cluster, request())
    done = cluster.commit_batch([(choice, request()), (choice, request())])
    assert [type(outcome) for outcome in done] == [Committed, Conflict]


def test_part_of_an_allocation_is_released_and_the_rest_stays() -> None:
    cluster = MemoryCluster(topology((4,)))
    won = committed(cluster, request(3))
    cluster.release(won.allocation, won.units[:1])
    assert cluster.held(won.allocation).tolist() == won.units[1:].tolist()
    assert cluster.snapshot().unit_free.sum() == 2
    with pytest.raises(ValueError, match="are not all of allocation"):
        cluster.release(won.allocation, won.units[:1])
    cluster.release(won.allocation, won.units[1:])
    with pytest.raises(UnknownAllocationError):
        cluster.held(won.allocation)


def test_the_last_release_on_each_platform_is_known() -> None:
    cluster = MemoryCluster(topology((1, 1)))
    assert cluster.freed.tolist() == [0, 0]
    first, second = committed(cluster, request()), committed(cluster, request())
    cluster.release(first.allocation)
    platform = int(cluster.topology.server_platform[first.units[0]])
    assert cluster.freed[platform] == cluster.released
    assert cluster.freed[1 - platform] == 0
    cluster.release(second.allocation)
    assert cluster.freed[1 - platform] == cluster.released
    cluster.set_open([platform], is_open=False)
    assert cluster.freed.max() == cluster.released
    cluster.set_open([platform], is_open=True)
    assert cluster.freed[platform] == cluster.sequence
