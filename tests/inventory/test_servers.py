"""Servers: import, state changes, and detection of silent servers."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.accounts.models import AuditEntry
from apps.common.core.errors import ConflictError, NotFoundError
from apps.inventory.core.cluster_file import ClusterSpec, PlatformSpec, RackSpec, ServerSpec
from apps.inventory.models import Change, Cluster, Platform, ResourceUnit, Server, ServerState
from apps.inventory.selectors import topology
from apps.inventory.services import import_cluster, mark_silent_servers, set_server_state
from tests import factories

pytestmark = pytest.mark.django_db

BIG = PlatformSpec("big", 8, 64 * 10**9, 10**10, 10**12, 90.0, 300.0)
SMALL = PlatformSpec("small", 2, 8 * 10**9, 10**9, 10**11, 20.0, 50.0)
SPEC = ClusterSpec(
    "north-quay",
    (BIG, SMALL),
    (
        ServerSpec("a", "small", "rack-1", {"zone": "west"}),
        ServerSpec("b", "big", "rack-2"),
    ),
)


def changes() -> list[tuple[str, int]]:
    return list(Change.objects.order_by("seq").values_list("kind", "server_id"))


def test_every_server_has_its_platforms_capacity_and_a_unit_per_core() -> None:
    assert import_cluster(SPEC) == 2
    server = Server.objects.get(name="b")
    assert (server.cores, server.memory_bytes, server.network_bps) == (8, 64 * 10**9, 10**10)
    assert (server.storage_bytes, server.idle_watts, server.peak_watts) == (10**12, 90.0, 300.0)
    units = ResourceUnit.objects.filter(server=server).order_by("core")
    assert list(units.values_list("core", "allocation_id")) == [(i, None) for i in range(8)]
    assert ResourceUnit.objects.count() == 10
    assert Server.objects.get(name="a").labels == {"zone": "west"}
    assert list(Platform.objects.order_by("rank").values_list("name", flat=True)) == [
        "big",
        "small",
    ]
    assert Cluster.objects.get().name == "north-quay"


def test_importing_again_adds_nothing() -> None:
    import_cluster(SPEC)
    before = changes()
    assert import_cluster(SPEC) == 0
    assert (Server.objects.count(), ResourceUnit.objects.count()) == (2, 10)
    assert changes() == before


def test_racks_get_the_switches_of_the_file() -> None:
    import_cluster(replace(SPEC, racks=(RackSpec("rack-2", "agg-1"),)))
    assert topology().rack_switch == ("", "agg-1")
    import_cluster(replace(SPEC, racks=(RackSpec("rack-1", "agg-1"), RackSpec("rack-2", "agg-1"))))
    assert topology().rack_switch == ("agg-1", "agg-1")
    assert topology().server_switch().tolist() == [0, 0]


def test_another_switch_is_announced_to_agents_and_recorded() -> None:
    import_cluster(SPEC)
    moved = replace(SPEC, racks=(RackSpec("rack-1", "agg-1"),))
    assert import_cluster(moved) == 0
    assert [kind for kind, _ in changes()] == ["topology", "topology"]
    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.after) == ("cluster.imported", {"servers": 0, "racks": ["rack-1"]})
    assert import_cluster(moved) == 0
    assert [kind for kind, _ in changes()] == ["topology", "topology"]


def test_a_rack_without_servers_gets_its_switch_without_an_announcement() -> None:
    import_cluster(SPEC)
    factories.server("z", rack="rack-9").delete()
    assert import_cluster(replace(SPEC, racks=(RackSpec("rack-9", "agg-1"),))) == 0
    assert [kind for kind, _ in changes()] == ["topology"]


def test_racks_without_a_switch_stand_alone() -> None:
    import_cluster(SPEC)
    assert topology().server_switch().tolist() == [0, 1]


def test_a_file_without_a_name_keeps_the_cluster_name() -> None:
    import_cluster(SPEC)
    import_cluster(replace(SPEC, name=""))
    assert Cluster.objects.get().name == "north-quay"


def test_new_servers_are_announced_to_agents_by_one_change() -> None:
    import_cluster(SPEC)
    first = Server.objects.get(name="a").id
    assert changes() == [("topology", first)]
    import_cluster(replace(SPEC, servers=(*SPEC.servers, ServerSpec("c", "small", "rack-1"))))
    assert [kind for kind, _ in changes()] == ["topology", "topology"]
    assert topology().server_name == ("a", "b", "c")


def test_new_platforms_rank_below_existing_ones() -> None:
    import_cluster(SPEC)
    tiny = replace(SMALL, name="tiny", cores=1)
    import_cluster(ClusterSpec("x", (tiny,), (ServerSpec("d", "tiny", "rack-1"),)))
    assert topology().platform_name == ("big", "small", "tiny")


def test_a_platform_that_was_removed_leaves_a_gap_only() -> None:
    import_cluster(replace(SPEC, servers=SPEC.servers[:1]))
    Platform.objects.get(name="big").delete()
    import_cluster(SPEC)
    assert topology().platform_name == ("small", "big")


def test_a_closed_server_appears_in_the_change_log() -> None:
    server = factories.server()
    changed = set_server_state(server_id=server.id, state=ServerState.CORDONED)
    assert (changed.state, changed.generation) == ("cordoned", 2)
    set_server_state(server_id=server.id, state=ServerState.ACTIVE)
    assert changes() == [("close", server.id), ("open", server.id)]


def test_setting_the_same_state_changes_nothing() -> None:
    server = factories.server()
    assert set_server_state(server_id=server.id, state=ServerState.ACTIVE).generation == 1
    assert changes() == []


def test_a_server_that_has_changed_is_refused() -> None:
    server = factories.server(generation=3)
    with pytest.raises(ConflictError, match="generation 3, not 2"):
        set_server_state(server_id=server.id, state=ServerState.DRAINING, expected_generation=2)
    server.refresh_from_db()
    assert (server.state, changes()) == ("active", [])


def test_a_sweep_does_not_undo_an_operators_change() -> None:
    server = factories.server(state=ServerState.CORDONED)
    set_server_state(server_id=server.id, state=ServerState.DOWN, only_from=ServerState.ACTIVE)
    server.refresh_from_db()
    assert (server.state, changes()) == (ServerState.CORDONED, [])


def test_an_unknown_server_is_named() -> None:
    with pytest.raises(NotFoundError, match="no server 77"):
        set_server_state(server_id=77, state=ServerState.DRAINING)


NOW = timezone.now()
LIMIT = NOW - timedelta(seconds=30)
LONG_AGO = NOW - timedelta(seconds=31)


def counts() -> tuple[int, int]:
    return mark_silent_servers(silent_before=LIMIT)


def state(server: Server) -> str:
    server.refresh_from_db()
    return server.state


def test_a_silent_server_is_marked_down_once() -> None:
    speaking, silent = factories.server(), factories.server()
    factories.reading(speaking, at=LIMIT)
    factories.reading(silent, at=LONG_AGO)
    assert counts() == (1, 0)
    assert (state(speaking), state(silent)) == ("active", "down")
    assert counts() == (0, 0)
    assert changes() == [("close", silent.id)]


def test_a_server_that_reports_again_is_active() -> None:
    server = factories.server(state=ServerState.DOWN)
    factories.reading(server, at=NOW)
    assert counts() == (0, 1)
    assert state(server) == "active"
    assert changes() == [("open", server.id)]


def test_a_silent_backend_marks_no_server_down() -> None:
    silent = factories.server()
    factories.reading(silent, at=LONG_AGO, backend="emulated")
    factories.reading(factories.server(), at=NOW, backend="slurm")
    assert counts() == (0, 0)
    assert state(silent) == "active"


def test_a_server_that_never_reported_is_not_changed() -> None:
    factories.reading(factories.server(), at=NOW)
    assert state(factories.server()) == "active"
    assert counts() == (0, 0)


@pytest.mark.parametrize("initial", [ServerState.CORDONED, ServerState.DRAINING])
def test_a_cordoned_or_draining_server_keeps_its_state(initial: ServerState) -> None:
    server = factories.server(state=initial)
    factories.reading(server, at=LONG_AGO)
    factories.reading(factories.server(), at=NOW)
    assert counts() == (0, 0)
    assert state(server) == initial
