"""The policy for short jobs: random servers among the roomiest and quietest (P9)."""

from collections import Counter
from dataclasses import replace

import numpy as np

from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.registry import make
from apps.scheduling.core.types import Placed, Within
from tests.scheduling.core.clusters import idle, request, topology

SERVERS = 20
CORES = 4


def cluster(*, busy: int = 0, noisy: float = 0.0) -> Snapshot:
    """Twenty servers of four cores; the first ten have ``busy`` units causing ``noisy``."""
    snapshot = idle(topology((CORES,) * SERVERS))
    free, caused = snapshot.unit_free.copy(), snapshot.server_caused.copy()
    free.reshape(SERVERS, CORES)[:10, :busy] = False
    caused[:10] = noisy
    return replace(snapshot, unit_free=free, server_caused=caused)


def servers(snapshot: Snapshot, *, times: int = 400, **fields: object) -> Counter[int]:
    """Return how often each server is chosen for a job."""
    policy, rng = make("roomiest"), np.random.default_rng(4)
    counts: Counter[int] = Counter()
    for _ in range(times):
        (outcome,) = policy.place(snapshot, [request(**fields)], rng)  # type: ignore[arg-type]
        assert isinstance(outcome, Placed)
        counts.update(snapshot.topology.unit_server[outcome.units].tolist())
    return counts


def test_servers_with_fewer_free_units_are_not_used() -> None:
    assert min(servers(cluster(busy=1))) >= 10


def test_servers_with_too_much_pressure_are_not_used() -> None:
    # it tolerates 40 in its weakest source; 93 in sum are 31 a neighbour, less than 10 below
    assert min(servers(cluster(noisy=93.0))) >= 10


def test_all_servers_that_are_quiet_enough_are_equal() -> None:
    # 87 in sum are 29 a neighbour
    assert min(servers(cluster(noisy=87.0))) < 10


def test_quiet_servers_rank_above_roomy_ones() -> None:
    snapshot = cluster(busy=3)
    caused = snapshot.server_caused.copy()
    caused[10:] = 93.0
    assert max(servers(replace(snapshot, server_caused=caused))) < 10


def test_quiet_servers_are_ranked_by_speed_and_room() -> None:
    # platforms J and A by turns; half full at speed 1 counts 1.5, empty at speed 0.8 counts 1.6
    fast = servers(cluster(), platform_speed=np.array([1.0, 0.66]))
    assert {server % 2 for server in fast} == {0}
    slow = servers(_half_full_when_fast(), platform_speed=np.array([1.0, 0.8]))
    assert {server % 2 for server in slow} == {1}


def _half_full_when_fast() -> Snapshot:
    snapshot = cluster()
    free = snapshot.unit_free.copy()
    free.reshape(SERVERS, CORES)[::2, :2] = False
    return replace(snapshot, unit_free=free)


def test_equal_servers_are_drawn_uniformly() -> None:
    counts = servers(cluster(), times=2000)
    # 2,000 draws among 20: 100 each with a deviation of 9.7
    assert len(counts) == SERVERS
    assert max(counts.values()) < 100 + 5 * 9.7
    assert min(counts.values()) > 100 - 5 * 9.7


def test_the_pool_grows_if_the_best_fifth_is_too_small() -> None:
    # four servers hold 16 units; the ten idle ones 40
    counts = servers(cluster(busy=1), times=20, units=30)
    assert min(counts) >= 10
    assert counts.total() == 20 * 30


def test_units_with_server_locality_share_a_server() -> None:
    policy = make("roomiest")
    (outcome,) = policy.place(
        cluster(busy=1), [request(4, gang=True, locality=Within.SERVER)], np.random.default_rng(1)
    )
    assert isinstance(outcome, Placed)
    chosen = set(cluster().topology.unit_server[outcome.units].tolist())
    assert len(chosen) == 1
    assert min(chosen) >= 10
