import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from apps.emulation.core.truth import BLOCK_BYTES
from apps.execution.backends.emulated import emulator as emulator_module
from apps.execution.backends.emulated.emulator import PATIENCE_S, Emulator, Pace
from apps.execution.backends.emulated.orders import UnknownServerError, engine_order
from apps.execution.backends.emulated.port import GrownLaunch, LaunchOrder
from apps.execution.core.port import EndReport
from apps.inventory.core.usage import SILENT_S
from apps.workloads.core.framework import setting_named
from tests.execution.emulated_plane import (
    ALWAYS,
    AwayError,
    MemoryPlane,
    emulator,
    launch,
    site,
    sort,
)


def test_a_launch_is_started_run_and_ended_in_cluster_time() -> None:
    plane = MemoryPlane(site(4), waiting=[launch(1)])
    backend = emulator(plane)
    backend.tick(10.0)
    assert plane.started == {1: 600.0}
    backend.tick(20.0)
    assert [(end.launch, end.outcome) for end in plane.ended] == [(1, "finished")]
    # phases of the application may make it faster or slower
    assert plane.ended[0].at_s - 600.0 == pytest.approx(100.0, rel=0.35)
    assert backend.running == 0


def test_a_running_job_is_reported_in_turn() -> None:
    plane = MemoryPlane(site(4), waiting=[launch(1, seconds=6000.0), launch(2, seconds=6000.0)])
    backend = emulator(plane)
    backend.tick(0.0)
    backend.tick(10.0)
    assert set(plane.jobs) == {1, 2}
    performance = plane.jobs[1].performance
    assert performance.progress == pytest.approx(0.1, rel=0.35)
    assert performance.progress_per_s == pytest.approx(1 / 6000.0, rel=0.35)
    assert math.isnan(performance.qps)


def test_a_slice_of_the_jobs_reports_at_a_time() -> None:
    plane = MemoryPlane(site(8), waiting=[launch(i, seconds=6000.0) for i in range(8)])
    backend = Emulator(plane, wall_s=0.0, pace=replace(ALWAYS, jobs_s=2.0))
    backend.tick(0.0)
    assert set(plane.jobs) == {7, 6}
    backend.tick(0.5)
    assert set(plane.jobs) == {7, 6, 5, 4}


def test_a_service_reports_queries_and_latency() -> None:
    target = {"kind": "throughput_latency", "qps": 100.0, "latency_seconds": 0.1, "percentile": 99}
    order = launch(1, kind="latency_critical", target=target, input_bytes=0)
    plane = MemoryPlane(site(4), waiting=[order])
    backend = emulator(plane)
    backend.tick(0.0)
    performance = plane.jobs[1].performance
    assert performance.qps == performance.offered_qps  # it answers all of them
    assert 30.0 < performance.qps <= 100.0  # the target names the peak of the day
    assert 0.0 < performance.latency_s < 0.1
    assert performance.progress == 0.0


def test_a_single_node_job_reports_instructions() -> None:
    order = launch(1, kind="single_node", target={"kind": "ips", "ips": 1e9}, input_bytes=0)
    plane = MemoryPlane(site(4), waiting=[order])
    emulator(plane).tick(0.0)
    expected = sort("single_node").metric_per_s
    assert plane.jobs[1].performance.ips == pytest.approx(expected, rel=0.1)


def test_a_cancelled_launch_stops_at_once() -> None:
    plane = MemoryPlane(site(4), waiting=[launch(1)])
    backend = emulator(plane)
    backend.tick(0.0)
    plane.cancelled = [1]
    backend.tick(0.5)
    assert [(end.launch, end.outcome) for end in plane.ended] == [(1, "cancelled")]
    assert backend.running == 0


def test_a_cancelled_launch_that_never_ran_is_reported() -> None:
    plane = MemoryPlane(site(4), cancelled=[9])
    emulator(plane).tick(0.0)
    assert [(end.launch, end.outcome) for end in plane.ended] == [(9, "cancelled")]


def test_a_restart_resumes_jobs_at_their_progress() -> None:
    plane = MemoryPlane(site(4), live=[launch(1, done_share=0.9)])
    backend = emulator(plane, wall_s=100.0)
    assert backend.running == 1
    backend.tick(101.0)
    assert [end.launch for end in plane.ended] == [1]
    assert plane.started == {}


def test_the_same_launch_is_never_started_twice() -> None:
    order = launch(1, seconds=6000.0)
    plane = MemoryPlane(site(4), live=[order], waiting=[order])
    backend = emulator(plane)
    backend.tick(0.0)
    backend.resume(0.1)
    assert backend.running == 1
    assert plane.ended == []


def test_a_launch_waits_for_units_still_in_use() -> None:
    plane = MemoryPlane(site(2), waiting=[launch(1, units=2), launch(2, units=2)])
    backend = emulator(plane)
    backend.tick(0.0)
    assert set(plane.started) == {1}
    backend.tick(2.0)
    assert set(plane.started) == {1, 2}


def test_a_launch_fails_if_its_units_stay_in_use() -> None:
    orders = [launch(1, units=2, seconds=1e6), launch(2, units=2)]
    plane = MemoryPlane(site(2), waiting=orders)
    backend = emulator(plane)
    backend.tick(0.0)
    backend.tick(PATIENCE_S + 1.0)
    assert [(end.launch, end.outcome) for end in plane.ended] == [(2, "failed")]
    assert "still in use" in plane.ended[0].message


def test_a_launch_on_an_unknown_server_fails_with_a_reason() -> None:
    plane = MemoryPlane(site(2), waiting=[launch(1, units=1, parts=((999, 1),))])
    emulator(plane).tick(0.0)
    assert plane.ended[0].message == "server 999 is not emulated"


def test_a_launch_on_servers_that_were_just_added_starts_when_they_are_read() -> None:
    plane = MemoryPlane(site(2))
    backend = emulator(plane)
    backend.tick(0.0)
    plane.place = site(2, 4, version=2)
    new = int(plane.place.server_id[-1])
    plane.waiting = [launch(1, units=1, parts=((new, 1),))]
    backend.tick(0.1)  # no poll is due: launches are claimed before the servers are read
    assert plane.ended == []
    backend.tick(0.2)
    assert (set(plane.started), plane.ended) == ({1}, [])


def test_a_duration_goes_on_when_the_servers_change() -> None:
    """A job with work for hours ends after its 100 s, not 100 s after the change."""
    plane = MemoryPlane(site(2), speed=1.0)
    plane.waiting = [launch(1, units=1, input_bytes=10**15, duration_s=100.0)]
    backend = emulator(plane)
    backend.tick(0.0)
    (begun,) = plane.started.values()
    backend.tick(60.0)
    plane.place = site(2, 4, version=2)
    backend.tick(61.0)
    backend.tick(99.0)
    assert plane.ended == []
    backend.tick(102.0)
    (end,) = plane.ended
    assert end.outcome == "finished"
    assert end.at_s == pytest.approx(begun + 100.0)


def test_an_unknown_kind_fails_the_launch_and_not_the_emulator() -> None:
    plane = MemoryPlane(site(2), waiting=[launch(1, kind="poetry"), launch(2)])
    emulator(plane).tick(0.0)
    assert [(end.launch, end.outcome) for end in plane.ended] == [(1, "failed")]
    assert set(plane.started) == {2}


def test_events_during_a_database_outage_are_reported_afterwards() -> None:
    plane = MemoryPlane(site(4), waiting=[launch(1)])
    backend = emulator(plane)
    backend.tick(0.0)
    plane.is_away = True
    with pytest.raises(AwayError):
        backend.tick(10.0)
    assert plane.ended == []
    plane.is_away = False
    backend.tick(10.1)
    assert [end.launch for end in plane.ended] == [1]
    backend.tick(10.2)
    assert [end.launch for end in plane.ended] == [1]


def test_a_stopped_clock_stops_the_jobs() -> None:
    plane = MemoryPlane(site(4), waiting=[launch(1)])
    backend = emulator(plane)
    backend.tick(1.0)
    plane.speed = 0.0
    backend.tick(100.0)
    backend.tick(200.0)
    assert plane.ended == []


def test_jobs_continue_when_servers_are_added() -> None:
    plane = MemoryPlane(site(4), waiting=[launch(1, seconds=600.0)])
    backend = emulator(plane)
    backend.tick(0.0)
    plane.place = site(4, 8, version=2)
    backend.tick(5.0)
    assert backend.running == 1
    assert plane.jobs[1].performance.progress == pytest.approx(0.5, rel=0.35)
    assert plane.servers[-1][1].cpu_share.shape == (2,)


@pytest.mark.parametrize(
    ("servers", "period_s"), [(1, 2.0), (5_000, 2.0), (12_500, 5.0), (100_000, SILENT_S / 3)]
)
def test_servers_of_a_large_cluster_report_less_often(servers: int, period_s: float) -> None:
    assert Pace().servers_period_s(servers) == period_s


def test_a_report_of_all_servers_waits_for_the_period_of_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(emulator_module, "SERVERS_AT_FULL_PACE", 2)
    plane = MemoryPlane(site(4, 4, 4, 4))
    backend = Emulator(plane, wall_s=0.0, pace=replace(ALWAYS, servers_s=1.0))
    for wall_s in (0.0, 1.0, 2.0, 3.0, 4.0):
        backend.tick(wall_s)
    assert [at_s for at_s, _ in plane.servers] == [0.0, 120.0, 240.0]


def test_a_launch_that_ended_elsewhere_does_not_wait_for_the_report_of_all_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(emulator_module, "SERVERS_AT_FULL_PACE", 2)
    plane = MemoryPlane(site(4, 4, 4, 4), waiting=[launch(1, seconds=6000.0)])
    backend = Emulator(plane, wall_s=0.0, pace=replace(ALWAYS, servers_s=1.0))
    backend.tick(0.0)
    plane.given_up = [1]
    backend.tick(1.0)
    assert (backend.running, len(plane.servers)) == (0, 1)


def test_jobs_of_a_removed_server_fail() -> None:
    plane = MemoryPlane(site(4, 4), waiting=[launch(1, seconds=600.0, parts=((102, 1),))])
    backend = emulator(plane)
    backend.tick(0.0)
    plane.place = site(4, version=2)
    backend.tick(1.0)
    assert [(end.launch, end.outcome) for end in plane.ended] == [(1, "failed")]


@pytest.mark.parametrize(
    ("order", "work_s"),
    [
        (launch(1, input_bytes=0, tasks=3), 3 * BLOCK_BYTES / sort().bytes_per_s),
        (launch(1, input_bytes=0), BLOCK_BYTES / sort().bytes_per_s),
        (launch(1, input_bytes=0, duration_s=60.0), math.inf),
        (launch(1, input_bytes=0, target={"kind": "ips", "ips": 1e9}), math.inf),
    ],
)
def test_work_without_input_follows_the_rule(order: LaunchOrder, work_s: float) -> None:
    assert engine_order(order, sort(), {101: 0}, 1).work_s == pytest.approx(work_s)


def test_an_order_for_an_unknown_server_is_refused() -> None:
    with pytest.raises(UnknownServerError, match="101"):
        engine_order(launch(1), sort(), {}, 1)


def test_a_faster_framework_setting_reduces_the_work() -> None:
    truth = sort("analytics")
    assert truth.framework is not None
    plain = engine_order(launch(1), truth, {101: 0}, 1)
    tuned = engine_order(replace(launch(1), setting="2x0.5GB"), truth, {101: 0}, 1)
    speed = truth.framework.speed(setting_named("2x0.5GB"))
    assert tuned.work_s == pytest.approx(plain.work_s / speed)
    assert speed != 1.0


def test_a_launch_has_the_same_tasks_in_every_process() -> None:
    order = launch(1, input_bytes=0, tasks=3)
    seeds = [engine_order(order, sort(), {101: 0}, seed).task_seed for seed in (1, 1, 2)]
    assert seeds[0] == seeds[1]
    assert len({*seeds, engine_order(launch(2), sort(), {101: 0}, 1).task_seed}) == 3


def test_an_unknown_setting_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'9x9GB'"):
        engine_order(replace(launch(1), setting="9x9GB"), sort("analytics"), {101: 0}, 1)


def test_a_waiting_launch_that_is_claimed_again_waits_once() -> None:
    # the control plane hands out every tick what this process claimed and has not started
    orders = [launch(1, units=2, seconds=1e6), launch(2, units=2)]
    plane = MemoryPlane(site(2), waiting=list(orders))
    backend = emulator(plane)
    backend.tick(0.0)
    plane.waiting = [orders[1]]
    backend.tick(1.0)
    plane.waiting = [orders[1]]
    backend.tick(PATIENCE_S + 1.0)
    plane.cancelled = [1]
    backend.tick(PATIENCE_S + 2.0)
    assert [(end.launch, end.outcome) for end in plane.ended] == [(2, "failed"), (1, "cancelled")]
    assert backend.running == 0


class Deaf(MemoryPlane):
    """Returns launches, but fails to receive their starts while away."""

    is_deaf = False

    def report_launches(self, started: Mapping[int, float], ended: Sequence[EndReport]) -> None:
        if self.is_deaf:
            raise AwayError
        super().report_launches(started, ended)


def test_a_job_with_an_undelivered_end_is_not_started_again() -> None:
    plane = Deaf(site(4), waiting=[launch(1)])
    backend = emulator(plane)
    plane.is_deaf = True
    with pytest.raises(AwayError):
        backend.tick(0.0)
    plane.is_deaf, plane.waiting = False, [launch(1)]
    backend.tick(10.0)
    assert [end.launch for end in plane.ended] == [1]
    assert backend.running == 0


def test_launches_ended_by_the_control_plane_are_dropped() -> None:
    plane = MemoryPlane(site(4), waiting=[launch(1, seconds=1e6), launch(2, seconds=1e6)])
    backend = emulator(plane)
    backend.tick(0.0)
    plane.given_up = [1]
    backend.tick(1.0)
    backend.tick(2.0)
    assert backend.running == 1
    assert plane.ended == []
    assert set(plane.jobs) == {1, 2}


def test_a_launch_ended_while_it_waited_never_starts() -> None:
    orders = [launch(1, units=2, seconds=1e6), launch(2, units=2)]
    plane = MemoryPlane(site(2), waiting=orders)
    backend = emulator(plane)
    backend.tick(0.0)
    plane.given_up = [2]
    backend.tick(1.0)
    plane.cancelled = [1]
    backend.tick(2.0)
    backend.tick(3.0)
    assert set(plane.started) == {1}


# ---- jobs that are given more units ----


def test_units_given_to_a_running_job_speed_it_up_and_are_reported() -> None:
    plane = MemoryPlane(site(4, 4), waiting=[launch(1, seconds=6000.0)])
    backend = emulator(plane)
    backend.tick(0.0)
    grown = GrownLaunch(1, ((101, 1), (102, 1)))
    plane.grown = [grown]
    backend.tick(1.0)
    assert plane.grown_reports == [(60.0, grown)]
    backend.tick(52.0)  # 3,120 s: it would need 6,000 s on one unit
    assert [end.launch for end in plane.ended] == [1]


def test_units_that_another_job_still_uses_are_added_later() -> None:
    plane = MemoryPlane(site(2), waiting=[launch(1, seconds=6000.0), launch(2, seconds=6000.0)])
    backend = emulator(plane)
    backend.tick(0.0)
    plane.grown = [GrownLaunch(1, ((101, 2),))]
    backend.tick(0.5)
    assert plane.grown_reports == []
    plane.cancelled = [2]
    backend.tick(1.0)
    assert [each.launch for _, each in plane.grown_reports] == [1]


def test_growth_that_is_reported_twice_adds_nothing_twice() -> None:
    plane = MemoryPlane(site(4), waiting=[launch(1, seconds=6000.0)])
    backend = emulator(plane)
    backend.tick(0.0)
    for wall_s in (1.0, 2.0):
        plane.grown = [GrownLaunch(1, ((101, 2),)), GrownLaunch(9, ((101, 1),))]
        backend.tick(wall_s)
    assert [each.parts for _, each in plane.grown_reports] == [((101, 2),), ((101, 2),)]
    plane.waiting = [launch(2, units=2)]
    backend.tick(3.0)
    assert set(plane.started) == {1, 2}  # two of four units were left
