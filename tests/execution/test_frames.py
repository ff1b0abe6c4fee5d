"""History frames: the cluster's usage, once per cluster minute."""

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from apps.execution import tasks
from apps.execution.services import frame_gaps
from apps.execution.services.frames import MAX_PAUSE_S, store_due_frame, store_frame
from apps.inventory.core.usage import SILENT_S
from apps.inventory.models import ChangeKind, ClusterFrame, Server, ServerState
from apps.inventory.services import NewChange, append_changes
from tests import factories

pytestmark = pytest.mark.django_db


def at(cluster_s: float) -> None:
    """Stop the clock at this second."""
    factories.cluster(seen_cluster_s=cluster_s)


def test_one_frame_is_stored_per_cluster_minute() -> None:
    factories.server()
    at(130.0)
    assert store_frame()
    at(179.0)
    assert not store_frame()
    at(180.0)
    assert store_frame()
    remaining = ClusterFrame.objects.order_by("cluster_s").values_list("cluster_s", flat=True)
    assert list(remaining) == [120.0, 180.0]


@pytest.mark.parametrize(
    ("read_s", "age_s", "is_stored"),
    [
        (0.1, 4.5, False),  # 2 % of wall time is 0.1 s of 5 s
        (0.1, 5.5, True),
        (0.001, 0.5, True),
        (9.0, MAX_PAUSE_S - 1.0, False),
        (9.0, MAX_PAUSE_S + 1.0, True),
        (9.0, -60.0, True),  # the clock of the machine was set back
    ],
)
def test_frames_take_a_bounded_share_of_wall_time(
    read_s: float, age_s: float, is_stored: bool
) -> None:
    factories.server()
    at(120.0)
    assert store_due_frame()
    frame = ClusterFrame.objects.get()
    frame.at, frame.facts["read_s"] = timezone.now() - timedelta(seconds=age_s), read_s
    frame.save()
    at(300.0)
    assert store_due_frame() is is_stored
    minutes = [120.0, 180.0, 240.0, 300.0] if is_stored else [120.0]
    stored = ClusterFrame.objects.order_by("cluster_s").values_list("cluster_s", flat=True)
    assert list(stored) == minutes


def test_the_task_stores_no_frame_that_is_not_due() -> None:
    factories.server()
    at(120.0)
    tasks.frame()
    ClusterFrame.objects.update(facts={"read_s": 1.0})
    at(300.0)
    tasks.frame()
    assert ClusterFrame.objects.count() == 1


def test_an_empty_cluster_has_no_frame() -> None:
    at(130.0)
    assert not store_frame()
    assert not ClusterFrame.objects.exists()


def test_each_server_is_one_byte_in_order() -> None:
    at(60.0)
    now, kind = timezone.now(), factories.platform(cores=4)
    half, unheard, full = (factories.server(of=kind) for _ in range(3))
    factories.reading(half, cpu_share=0.5, at=now, memory_share=0.1, watts=100.0)
    factories.reading(full, cpu_share=1.0, at=now, memory_share=0.3, watts=50.0)
    factories.allocation(factories.job(), unheard, cores=3)
    store_frame()
    frame = ClusterFrame.objects.get()
    assert bytes(frame.server_cpu) == bytes([100, 255, 200])
    assert bytes(frame.server_allocated) == bytes([0, 150, 0])
    assert (frame.servers, frame.units, frame.units_allocated, frame.servers_on) == (3, 12, 3, 2)
    assert (frame.cpu_share, frame.watts) == (0.75, 150.0)
    assert frame.memory_share == pytest.approx(0.2)


def test_shares_are_weighted_by_cores() -> None:
    at(60.0)
    now = timezone.now()
    small = factories.server(of=factories.platform(cores=1))
    large = factories.server(of=factories.platform(cores=3))
    factories.reading(small, cpu_share=1.0, at=now)
    factories.reading(large, cpu_share=0.2, at=now)
    store_frame()
    assert ClusterFrame.objects.get().cpu_share == pytest.approx(0.4)


def test_a_down_server_has_no_reading() -> None:
    at(60.0)
    server = factories.server(state=ServerState.DOWN)
    factories.reading(server, cpu_share=0.9, at=timezone.now(), watts=80.0)
    store_frame()
    frame = ClusterFrame.objects.get()
    assert bytes(frame.server_cpu) == bytes([255])
    assert (frame.servers_on, frame.cpu_share, frame.watts) == (0, 0.0, 0.0)


def test_an_old_reading_is_ignored() -> None:
    at(60.0)
    long_ago = timezone.now() - timedelta(seconds=SILENT_S + 1.0)
    factories.reading(factories.server(), cpu_share=0.9, at=long_ago)
    store_frame()
    assert bytes(ClusterFrame.objects.get().server_cpu) == bytes([255])


def test_facts_count_jobs_targets_and_reasons() -> None:
    at(60.0)
    factories.server()
    factories.job(state="running", attainment=1.0)
    factories.job(state="running", attainment=0.99)
    factories.job(state="running", attainment=None)
    factories.job(state="succeeded", attainment=2.0)
    factories.job(state="queued", reason_code="LocalityShort")
    factories.job(state="submitted", reason_code="")
    store_frame()
    facts = ClusterFrame.objects.get().facts
    assert 0.0 < facts.pop("read_s") < 60.0
    assert facts == {
        "jobs": {"running": 3, "succeeded": 1, "queued": 1, "submitted": 1},
        "targets": {"met": 1, "measured": 2},
        "waiting": {"LocalityShort": 1, "None": 1},
        "log_position": 0,
    }


def allocated(server: Server, kind: ChangeKind, units: int, *, at_s: float) -> None:
    """Log a change of allocated units and apply it."""
    change = NewChange(kind, server.id, unit_ids=list(range(units)))
    append_changes([change], at=timezone.now(), cluster_s=at_s)
    server.used_cores += units if kind == ChangeKind.CLAIM else -units
    server.save()


def stored() -> list[ClusterFrame]:
    return list(ClusterFrame.objects.order_by("cluster_s"))


def test_missed_minutes_are_filled_with_the_units_allocated_then() -> None:
    kind = factories.platform(cores=4)
    first, second = (factories.server(of=kind) for _ in range(2))
    at(130.0)
    store_frame()
    allocated(second, ChangeKind.CLAIM, 2, at_s=185.0)
    allocated(first, ChangeKind.CLAIM, 4, at_s=240.0)
    allocated(second, ChangeKind.RELEASE, 1, at_s=250.0)
    at(310.0)
    store_frame()
    assert [frame.cluster_s for frame in stored()] == [120.0, 180.0, 240.0, 300.0]
    assert [list(frame.server_allocated) for frame in stored()] == [
        [0, 0], [0, 0], [200, 100], [200, 50]
    ]  # fmt: skip
    assert [frame.units_allocated for frame in stored()] == [0, 0, 6, 5]
    assert [frame.facts.get("filled", False) for frame in stored()] == [False, True, True, False]
    times = [frame.at for frame in stored()]
    assert times == sorted(times)


def test_a_missed_minute_has_the_usage_of_the_last_frame() -> None:
    server = factories.server()
    reading = factories.reading(server, cpu_share=0.5, at=timezone.now(), watts=100.0)
    at(60.0)
    store_frame()
    reading.cpu_share = 1.0
    reading.save()
    at(180.0)
    store_frame()
    assert [list(frame.server_cpu) for frame in stored()] == [[100], [100], [200]]
    assert [frame.watts for frame in stored()] == [100.0, 100.0, 100.0]


def test_the_newest_minutes_of_a_long_gap_are_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_gaps, "MAX_FILLED", 2)
    factories.server()
    at(60.0)
    store_frame()
    at(600.0)
    store_frame()
    assert [frame.cluster_s for frame in stored()] == [60.0, 480.0, 540.0, 600.0]


def test_a_gap_is_not_filled_if_servers_were_added_meanwhile() -> None:
    factories.server()
    at(60.0)
    store_frame()
    factories.server()
    at(240.0)
    store_frame()
    assert [frame.cluster_s for frame in stored()] == [60.0, 240.0]


def test_a_frame_of_an_earlier_version_is_followed_by_a_gap() -> None:
    factories.server()
    factories.frame(60.0, [0.5])
    at(240.0)
    store_frame()
    assert [frame.cluster_s for frame in stored()] == [60.0, 240.0]


def test_old_frames_are_deleted(settings: Settings) -> None:
    settings.BERTH_FRAME_DAYS = 14
    at(14 * 86_400.0 + 600.0)
    factories.frame(540.0, [0.5])
    factories.frame(600.0, [0.5])
    tasks.prune()
    assert ClusterFrame.objects.get().cluster_s == 600.0
