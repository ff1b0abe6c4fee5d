"""Frames: how the cluster looked, once each cluster minute."""

from datetime import timedelta

import pytest
from django.utils import timezone

from apps.execution.pruning import FRAMES_KEPT_S, prune_frames
from apps.execution.services import SILENT_S, keep_frame
from apps.inventory.models import ClusterFrame, ServerState
from tests import factories

pytestmark = pytest.mark.django_db


def at(cluster_s: float) -> None:
    """Stop the clock at this second."""
    factories.cluster(seen_cluster_s=cluster_s)


def test_a_cluster_minute_is_kept_once() -> None:
    factories.server()
    at(130.0)
    assert keep_frame()
    at(179.0)
    assert not keep_frame()
    at(180.0)
    assert keep_frame()
    kept = ClusterFrame.objects.order_by("cluster_s").values_list("cluster_s", flat=True)
    assert list(kept) == [120.0, 180.0]


def test_an_empty_cluster_has_no_frame() -> None:
    at(130.0)
    assert not keep_frame()
    assert not ClusterFrame.objects.exists()


def test_each_server_is_one_byte_in_order() -> None:
    at(60.0)
    now, kind = timezone.now(), factories.platform(cores=4)
    half, unheard, full = (factories.server(of=kind) for _ in range(3))
    factories.reading(half, cpu_share=0.5, at=now, memory_share=0.1, watts=100.0)
    factories.reading(full, cpu_share=1.0, at=now, memory_share=0.3, watts=50.0)
    factories.allocation(factories.job(), unheard, cores=3)
    keep_frame()
    frame = ClusterFrame.objects.get()
    assert bytes(frame.server_cpu) == bytes([100, 255, 200])
    assert bytes(frame.server_allocated) == bytes([0, 150, 0])
    assert (frame.servers, frame.units, frame.units_allocated, frame.servers_on) == (3, 12, 3, 2)
    assert (frame.cpu_share, frame.watts) == (0.75, 150.0)
    assert frame.memory_share == pytest.approx(0.2)


def test_shares_are_weighed_by_cores() -> None:
    at(60.0)
    now = timezone.now()
    small = factories.server(of=factories.platform(cores=1))
    large = factories.server(of=factories.platform(cores=3))
    factories.reading(small, cpu_share=1.0, at=now)
    factories.reading(large, cpu_share=0.2, at=now)
    keep_frame()
    assert ClusterFrame.objects.get().cpu_share == pytest.approx(0.4)


def test_a_down_server_is_not_known() -> None:
    at(60.0)
    server = factories.server(state=ServerState.DOWN)
    factories.reading(server, cpu_share=0.9, at=timezone.now(), watts=80.0)
    keep_frame()
    frame = ClusterFrame.objects.get()
    assert bytes(frame.server_cpu) == bytes([255])
    assert (frame.servers_on, frame.cpu_share, frame.watts) == (0, 0.0, 0.0)


def test_what_a_server_said_long_ago_is_not_known() -> None:
    at(60.0)
    long_ago = timezone.now() - timedelta(seconds=SILENT_S + 1.0)
    factories.reading(factories.server(), cpu_share=0.9, at=long_ago)
    keep_frame()
    assert bytes(ClusterFrame.objects.get().server_cpu) == bytes([255])


def test_facts_count_jobs_targets_and_reasons() -> None:
    at(60.0)
    factories.server()
    factories.job(state="running", attainment=1.0)
    factories.job(state="running", attainment=0.99)
    factories.job(state="running", attainment=None)
    factories.job(state="succeeded", attainment=2.0)
    factories.job(state="queued", reason_code="QualityShort")
    factories.job(state="submitted", reason_code="")
    keep_frame()
    assert ClusterFrame.objects.get().facts == {
        "jobs": {"running": 3, "succeeded": 1, "queued": 1, "submitted": 1},
        "targets": {"met": 1, "measured": 2},
        "waiting": {"QualityShort": 1, "None": 1},
    }


def test_old_frames_are_deleted() -> None:
    at(FRAMES_KEPT_S + 600.0)
    factories.frame(540.0, [0.5])
    factories.frame(600.0, [0.5])
    assert prune_frames() == 1
    assert ClusterFrame.objects.get().cluster_s == 600.0
