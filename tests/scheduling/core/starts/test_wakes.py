"""Needs of refused jobs, and the capacity that is noted as freed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.cluster.capacity import SLACK
from apps.scheduling.core.starts.wakes import BY_OPENING, BY_RELEASE, FreedLog, needs_of
from apps.scheduling.core.types import RefusalReason, Within
from apps.workloads.core.shapes import WaitsFor
from tests.scheduling.core.clusters import idle, request, topology

SHORT = RefusalReason.NO_FREE_UNIT


def cluster(*sizes: int) -> Snapshot:
    """Idle servers of one platform without labels."""
    return idle(topology(sizes, platforms=("J",)))


@pytest.mark.parametrize(
    ("values", "units"),
    [
        ({}, 1),
        ({"gang": True}, 4),
        ({"locality": Within.RACK}, 4),
        ({"spread": Within.SERVER}, 1),  # the rest follows on other servers
    ],
)
def test_only_a_job_that_starts_whole_needs_all_its_units(
    values: dict[str, Any], units: int
) -> None:
    assert needs_of(request(4, **values), SHORT).units == units


def test_needs_name_platforms_labels_and_one_server() -> None:
    needs = needs_of(
        request(
            4, platforms=frozenset({"K", "J"}), labels=frozenset({"a=b"}), locality=Within.SERVER
        ),
        SHORT,
    )
    assert (needs.platforms, needs.labels, needs.on_one_server) == (("J", "K"), ("a=b",), True)


def test_needs_leave_a_margin_for_rounding() -> None:
    asked = request(unit_memory_bytes=8e9, unit_network_bps=4e9, unit_storage_bytes=2e9)
    needs = needs_of(asked, SHORT)
    found = [needs.unit_memory_bytes, needs.unit_network_bps, needs.unit_storage_bytes]
    assert found == [int(each * (1.0 - SLACK)) for each in (8e9, 4e9, 2e9)]


@pytest.mark.parametrize(
    ("reason", "waits_for"),
    [
        (RefusalReason.NO_MATCHING_SERVER, WaitsFor.SERVERS),
        (RefusalReason.SERVERS_CLOSED, WaitsFor.OPENING),
        (RefusalReason.NO_FREE_UNIT, WaitsFor.UNITS),
        (RefusalReason.CAPACITY_SHORT, WaitsFor.UNITS),
        (RefusalReason.LOCALITY_SHORT, WaitsFor.UNITS),
    ],
)
def test_the_reason_says_which_change_a_job_waits_for(
    reason: RefusalReason, waits_for: WaitsFor
) -> None:
    assert needs_of(request(4), reason).waits_for is waits_for


def noted(state: Snapshot, *servers: int) -> FreedLog:
    log = FreedLog()
    log.note(servers, BY_RELEASE, 7)
    return log


def test_an_empty_log_has_freed_nothing() -> None:
    assert FreedLog().freed(cluster(4, 4)) is None


def test_freed_servers_are_grouped_by_platform_and_labels() -> None:
    state = cluster(4, 2)
    freed = noted(state, *state.topology.server_id.tolist()).freed(state)
    assert freed is not None
    (group,) = freed.servers
    assert (freed.units, group.units, group.sequence) == (6, 4, 7)
    assert group.wakes == (WaitsFor.UNITS,)


def test_the_latest_change_of_a_server_counts_with_all_that_it_wakes() -> None:
    state = cluster(4)
    log = noted(state, int(state.topology.server_id[0]))
    log.note(state.topology.server_id.tolist(), BY_OPENING, 9)
    freed = log.freed(state)
    assert freed is not None
    (group,) = freed.servers
    assert (group.sequence, set(group.wakes)) == (9, {WaitsFor.UNITS, WaitsFor.OPENING})


def test_units_that_are_busy_again_or_closed_are_not_freed() -> None:
    state = cluster(4, 2)
    servers = state.topology.server_id.tolist()
    busy = replace(state, unit_free=np.zeros(6, dtype=np.bool_))
    closed = replace(state, server_open=np.zeros(2, dtype=np.bool_))
    assert noted(busy, *servers).freed(busy) is None
    assert noted(closed, *servers).freed(closed) is None


def test_freed_memory_is_that_of_the_server_with_most() -> None:
    state = cluster(4, 2)
    freed = noted(state, *state.topology.server_id.tolist()).freed(state)
    assert freed is not None
    (group,) = freed.servers
    most = state.server_free.max(axis=0).astype(np.int64).tolist()
    assert [group.memory_bytes, group.network_bps, group.storage_bytes] == most


def test_the_latest_change_of_a_group_of_servers_counts() -> None:
    state = cluster(4, 2)
    first, second = state.topology.server_id.tolist()
    log = noted(state, first)
    log.note([second], BY_RELEASE, 9)
    freed = log.freed(state)
    assert freed is not None
    assert [group.sequence for group in freed.servers] == [9]
