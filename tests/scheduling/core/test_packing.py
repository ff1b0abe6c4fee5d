"""Policies that pack containers on nodes (ClavisMO's baselines), by hand."""

from dataclasses import replace

import numpy as np
import pytest

from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.registry import make
from apps.scheduling.core.types import Placed, Request, Within
from tests.scheduling.core.clusters import SHARE, idle, request, topology


def held(sizes: tuple[int, ...], busy: tuple[int, ...]) -> Snapshot:
    """Servers of which the first units are busy, each with an equal share of its server."""
    snapshot = idle(topology(sizes))
    free, left = snapshot.unit_free.copy(), snapshot.server_free.copy()
    for server, (first, count) in enumerate(
        zip(snapshot.topology.server_first_unit, busy, strict=True)
    ):
        free[first : first + count] = False
        left[server] -= count * np.array(SHARE)
    return replace(snapshot, unit_free=free, server_free=left)


def servers(name: str, snapshot: Snapshot, *specs: Request) -> list[list[int]]:
    """Server of each unit of each request, in the order of the choice."""
    outcomes = make(name).place(snapshot, specs, np.random.default_rng(1))
    placed = [outcome for outcome in outcomes if isinstance(outcome, Placed)]
    assert len(placed) == len(specs)
    return [snapshot.topology.unit_server[each.units].tolist() for each in placed]


def test_slot_rr_fills_a_server_before_the_next() -> None:
    snapshot = held((2, 2, 2, 2), (1, 0, 2, 0))
    assert servers("slot_rr", snapshot, request(3), request(2)) == [[0, 1, 1], [3, 3]]


def test_node_rr_fills_level_by_level() -> None:
    snapshot = held((2, 2, 2, 2), (1, 0, 2, 0))
    assert servers("node_rr", snapshot, request(3), request(2)) == [[1, 3, 0], [1, 3]]


def test_node_rr_counts_units_in_use_not_shares() -> None:
    assert servers("node_rr", held((2, 8), (1, 2)), request()) == [[0]]


def test_dot_product_fills_servers_in_use_before_an_idle_one() -> None:
    snapshot = held((2, 2, 2, 2), (0, 0, 1, 0))
    assert servers("dot_product", snapshot, request(2)) == [[2, 0]]


def test_dot_product_fills_the_server_that_it_opened() -> None:
    assert servers("dot_product", held((4, 4, 4), (0, 0, 0)), request(6)) == [[0] * 4 + [1] * 2]


@pytest.mark.parametrize(
    ("network_bps", "server"),
    [(0.1 * SHARE[1], 1), (4.0 * SHARE[1], 0)],
    ids=["little network", "much network"],
)
def test_dot_product_matches_demand_with_what_is_left(network_bps: float, server: int) -> None:
    # of equally full servers, the first has no memory left, the second has no network left
    snapshot = held((8, 8), (2, 2))
    left = snapshot.server_free.copy()
    left[0, 0], left[1, 1] = 1.5 * SHARE[0], 4.5 * SHARE[1]
    spec = request(unit_memory_bytes=SHARE[0], unit_network_bps=network_bps)
    assert servers("dot_product", replace(snapshot, server_free=left), spec) == [[server]]


def test_dot_product_prefers_the_larger_product_among_servers_in_use() -> None:
    # equal demands in all dimensions: the emptier server has the larger product
    assert servers("dot_product", held((4, 4), (3, 1)), request()) == [[1]]


def test_dot_product_keeps_a_gang_on_one_server_in_use() -> None:
    within = request(4, locality=Within.SERVER)
    assert servers("dot_product", held((8, 8), (2, 0)), within) == [[0] * 4]
    assert servers("dot_product", held((8, 8), (5, 0)), within) == [[1] * 4]
    # the emptier one of those in use
    assert servers("dot_product", held((8, 8, 8), (3, 0, 2)), within) == [[2] * 4]


def test_dot_product_keeps_a_gang_in_the_rack_with_more_servers_in_use() -> None:
    """Servers of racks 0, 1, 0 and 1."""
    within = request(4, locality=Within.RACK)
    assert servers("dot_product", held((4, 4, 4, 4), (2, 2, 0, 2)), within) == [[1, 3, 1, 3]]


@pytest.mark.parametrize("name", ["slot_rr", "node_rr", "dot_product"])
def test_the_seed_changes_nothing(name: str) -> None:
    snapshot = held((4, 4, 8), (1, 0, 3))
    chosen = [
        make(name).place(snapshot, [request(5)], np.random.default_rng(seed))[0]
        for seed in range(4)
    ]
    assert len({str(sorted(o.units.tolist())) for o in chosen if isinstance(o, Placed)}) == 1
