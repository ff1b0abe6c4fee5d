"""Cluster time: restarts at its last recorded value, and does not pass while stopped."""

import pytest
from django.utils import timezone

from apps.inventory.models import CLOCK_UNSEEN_S, ChangeKind, Cluster
from apps.inventory.selectors import cluster_now, is_live
from apps.inventory.services import (
    NewChange,
    append_changes,
    record_cluster_time,
    save_clock,
    start_clock,
    stop_clock,
)
from tests import factories

pytestmark = pytest.mark.django_db


def wall_s() -> float:
    return timezone.now().timestamp()


def test_a_new_clock_is_at_zero() -> None:
    assert cluster_now() == 0.0
    assert Cluster.objects.get().clock.at(wall_s() + 1e6) == 0.0


def test_a_started_clock_continues_from_its_value() -> None:
    factories.cluster(seen_cluster_s=7200.0)
    row = start_clock(speed=60.0)
    assert row.cluster_anchor_s == 7200.0
    assert row.clock.at(row.wall_anchor_s + 10.0) == 7800.0
    assert row.wall_anchor_s == pytest.approx(wall_s(), abs=5.0)


def test_a_clock_continues_from_its_last_recorded_value_after_a_crash() -> None:
    factories.cluster(
        wall_anchor_s=wall_s() - 1e6, cluster_anchor_s=100.0, seen_cluster_s=5000.0, speed=60.0
    )
    assert start_clock(speed=1.0).cluster_anchor_s == 5000.0


def running(*, since_s: float, unseen_s: float) -> Cluster:
    """Start a clock ``since_s`` wall seconds ago, at 60x, last recorded ``unseen_s`` ago."""
    return factories.cluster(
        wall_anchor_s=wall_s() - since_s,
        cluster_anchor_s=1000.0,
        seen_cluster_s=1000.0 + (since_s - unseen_s) * 60.0,
        speed=60.0,
    )


@pytest.mark.parametrize("unseen_s", [0.0, 2.0, CLOCK_UNSEEN_S - 5.0])
def test_a_running_clock_is_not_set_back(unseen_s: float) -> None:
    running(since_s=100.0, unseen_s=unseen_s)
    before = cluster_now()
    row = start_clock(speed=10.0)
    assert before <= row.cluster_anchor_s == pytest.approx(7000.0, abs=200.0)
    assert (row.seen_cluster_s, row.speed) == (row.cluster_anchor_s, 10.0)


def test_a_clock_not_recorded_for_long_has_crashed() -> None:
    row = running(since_s=100.0, unseen_s=CLOCK_UNSEEN_S + 5.0)
    assert start_clock(speed=60.0).cluster_anchor_s == row.seen_cluster_s


def test_was_still_restarts_the_clock_at_once() -> None:
    row = running(since_s=100.0, unseen_s=2.0)
    assert start_clock(speed=60.0, was_still=True).cluster_anchor_s == row.seen_cluster_s


def test_a_clock_after_a_crash_is_not_set_back_behind_the_change_log() -> None:
    row = running(since_s=1000.0, unseen_s=900.0)
    server = factories.server()
    change = NewChange(ChangeKind.CLOSE, server.id)
    append_changes([change], at=timezone.now(), cluster_s=row.seen_cluster_s + 90.0)
    assert start_clock(speed=60.0).cluster_anchor_s == row.seen_cluster_s + 90.0


def test_a_clock_ahead_of_its_anchor_is_not_set_back() -> None:
    factories.cluster(
        wall_anchor_s=wall_s() + 50.0, cluster_anchor_s=900.0, seen_cluster_s=1000.0, speed=60.0
    )
    assert start_clock(speed=60.0).cluster_anchor_s == 1000.0


def test_a_running_clock_is_recorded() -> None:
    running(since_s=100.0, unseen_s=5.0)
    save_clock()
    assert Cluster.objects.get().seen_cluster_s == pytest.approx(7000.0, abs=200.0)


def test_a_stopped_clock_is_not_live() -> None:
    assert not is_live(factories.cluster(), wall_s=wall_s())


def test_a_stopped_clock_is_not_recorded() -> None:
    row = running(since_s=1000.0, unseen_s=900.0)
    Cluster.objects.update(speed=0.0)
    save_clock()
    assert Cluster.objects.get().seen_cluster_s == row.seen_cluster_s


def test_after_a_pause_of_all_processes_the_clock_continues_near_its_last_record() -> None:
    row = running(since_s=1000.0, unseen_s=900.0)
    save_clock()
    after = Cluster.objects.get()
    assert after.seen_cluster_s == row.seen_cluster_s + CLOCK_UNSEEN_S * 60.0
    assert is_live(after, wall_s=wall_s())


def test_a_clock_that_was_never_recorded_is_not_set_back() -> None:
    factories.cluster(seen_cluster_s=10.0, cluster_anchor_s=4000.0)
    assert start_clock(speed=1.0).cluster_anchor_s == 4000.0


def test_a_stopped_clock_keeps_its_value() -> None:
    running(since_s=100.0, unseen_s=2.0)
    row = stop_clock()
    assert row.cluster_anchor_s == pytest.approx(7000.0, abs=200.0)
    assert (row.speed, row.seen_cluster_s) == (0.0, row.cluster_anchor_s)
    assert row.clock.at(wall_s() + 1e6) == row.cluster_anchor_s


def test_stopping_a_clock_after_a_crash_does_not_count_the_time_between() -> None:
    row = running(since_s=1000.0, unseen_s=900.0)
    assert stop_clock().cluster_anchor_s == row.seen_cluster_s


def test_stopping_twice_changes_nothing() -> None:
    factories.cluster(seen_cluster_s=7200.0)
    assert stop_clock().cluster_anchor_s == stop_clock().cluster_anchor_s == 7200.0


@pytest.mark.parametrize("speed", [0.0, -1.0, 100_001.0, float("nan"), float("inf")])
def test_an_impossible_speed_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="speed must be above 0"):
        start_clock(speed=speed)


@pytest.mark.parametrize(("seen_s", "expected_s"), [(7300.0, 7300.0), (7100.0, 7200.0)])
def test_the_recorded_time_never_decreases(seen_s: float, expected_s: float) -> None:
    factories.cluster(seen_cluster_s=7200.0)
    record_cluster_time(cluster_s=seen_s)
    assert Cluster.objects.get().seen_cluster_s == expected_s
