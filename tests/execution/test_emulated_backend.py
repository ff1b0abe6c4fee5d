import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from apps.emulation.core.draws import application_truth
from apps.emulation.core.probe import ProbeRun
from apps.emulation.core.truth import BLOCK_BYTES, Truth
from apps.execution.backends.emulated.emulator import (
    PATIENCE_S,
    PROFILING_PER_TICK,
    Emulator,
    Pace,
)
from apps.execution.backends.emulated.orders import UnknownServerError, engine_order
from apps.execution.backends.emulated.port import LaunchOrder, ProfilingOrder, ProfilingReport
from apps.workloads.core.framework import setting_named
from tests.emulation.worlds import all_platforms
from tests.execution.emulated_plane import AwayError, MemoryPlane, site

BATCH = {"kind": "completion_time", "seconds": 1000.0}
ALWAYS = Pace(look_s=0.0, jobs_s=0.5, slice_s=0.5, servers_s=0.0)


def sort(kind: str = "batch") -> Truth:
    return application_truth(7, "sort", kind, all_platforms())


def launch(number: int, *, seconds: float = 100.0, units: int = 1, **more: Any) -> LaunchOrder:
    """Work that takes one undisturbed unit so many seconds."""
    work = {"input_bytes": round(seconds * sort().bytes_per_s)}
    plain = {"application": "sort", "kind": "batch", "target": BATCH, "parts": ((101, units),)}
    return LaunchOrder(launch=number, **(plain | work | more))


def emulator(plane: MemoryPlane, wall_s: float = 0.0) -> Emulator:
    return Emulator(plane, wall_s=wall_s, pace=ALWAYS)


def test_a_launch_is_started_run_and_ended_in_cluster_time() -> None:
    plane = MemoryPlane(site(4), waiting=[launch(1)])
    one = emulator(plane)
    one.tick(10.0)
    assert plane.started == {1: 600.0}
    one.tick(20.0)
    assert [(end.launch, end.outcome) for end in plane.ended] == [(1, "finished")]
    # phases of the application may make it faster or slower
    assert plane.ended[0].at_s - 600.0 == pytest.approx(100.0, rel=0.35)
    assert one.running == 0


def test_a_running_job_is_reported_in_turn() -> None:
    plane = MemoryPlane(site(4), waiting=[launch(1, seconds=6000.0), launch(2, seconds=6000.0)])
    one = emulator(plane)
    one.tick(0.0)
    one.tick(10.0)
    assert set(plane.jobs) == {1, 2}
    seen = plane.jobs[1].performance
    assert seen.progress == pytest.approx(0.1, rel=0.35)
    assert seen.progress_per_s == pytest.approx(1 / 6000.0, rel=0.35)
    assert math.isnan(seen.qps)


def test_a_slice_of_the_jobs_reports_at_a_time() -> None:
    plane = MemoryPlane(site(8), waiting=[launch(i, seconds=6000.0) for i in range(8)])
    one = Emulator(plane, wall_s=0.0, pace=replace(ALWAYS, jobs_s=2.0))
    one.tick(0.0)
    assert set(plane.jobs) == {7, 6}
    one.tick(0.5)
    assert set(plane.jobs) == {7, 6, 5, 4}


def test_a_service_reports_queries_and_latency() -> None:
    target = {"kind": "throughput_latency", "qps": 100.0, "latency_seconds": 0.1, "percentile": 99}
    order = launch(1, kind="latency_critical", target=target, input_bytes=0)
    plane = MemoryPlane(site(4), waiting=[order])
    one = emulator(plane)
    one.tick(0.0)
    seen = plane.jobs[1].performance
    assert seen.qps == pytest.approx(100.0, rel=0.1)
    assert 0.0 < seen.latency_s < 0.1
    assert seen.progress == 0.0


def test_a_single_node_job_reports_instructions() -> None:
    order = launch(1, kind="single_node", target={"kind": "ips", "ips": 1e9}, input_bytes=0)
    plane = MemoryPlane(site(4), waiting=[order])
    emulator(plane).tick(0.0)
    expected = sort("single_node").metric_per_s
    assert plane.jobs[1].performance.ips == pytest.approx(expected, rel=0.1)


def test_every_server_beats() -> None:
    plane = MemoryPlane(site(4, 2))
    one = emulator(plane)
    one.tick(1.0)
    at_s, readings = plane.servers[-1]
    assert at_s == 60.0
    assert readings.cpu_share.shape == (2,)


def test_a_cancelled_launch_stops_at_once() -> None:
    plane = MemoryPlane(site(4), waiting=[launch(1)])
    one = emulator(plane)
    one.tick(0.0)
    plane.cancelled = [1]
    one.tick(0.5)
    assert [(end.launch, end.outcome) for end in plane.ended] == [(1, "cancelled")]
    assert one.running == 0


def test_a_cancelled_launch_that_never_ran_is_told_too() -> None:
    plane = MemoryPlane(site(4), cancelled=[9])
    emulator(plane).tick(0.0)
    assert [(end.launch, end.outcome) for end in plane.ended] == [(9, "cancelled")]


def test_a_restart_goes_on_where_the_jobs_were() -> None:
    plane = MemoryPlane(site(4), live=[launch(1, done_share=0.9)])
    one = emulator(plane, wall_s=100.0)
    assert one.running == 1
    one.tick(101.0)
    assert [end.launch for end in plane.ended] == [1]
    assert plane.started == {}


def test_the_same_launch_is_never_started_twice() -> None:
    order = launch(1, seconds=6000.0)
    plane = MemoryPlane(site(4), live=[order], waiting=[order])
    one = emulator(plane)
    one.tick(0.0)
    one.resume(0.1)
    assert one.running == 1
    assert plane.ended == []


def test_units_still_held_are_waited_for() -> None:
    plane = MemoryPlane(site(2), waiting=[launch(1, units=2), launch(2, units=2)])
    one = emulator(plane)
    one.tick(0.0)
    assert set(plane.started) == {1}
    one.tick(2.0)
    assert set(plane.started) == {1, 2}


def test_units_held_too_long_fail_the_launch() -> None:
    orders = [launch(1, units=2, seconds=1e6), launch(2, units=2)]
    plane = MemoryPlane(site(2), waiting=orders)
    one = emulator(plane)
    one.tick(0.0)
    one.tick(PATIENCE_S + 1.0)
    assert [(end.launch, end.outcome) for end in plane.ended] == [(2, "failed")]
    assert "still held" in plane.ended[0].message


def test_a_launch_on_an_unknown_server_fails_with_a_reason() -> None:
    plane = MemoryPlane(site(2), waiting=[launch(1, units=1, parts=((999, 1),))])
    emulator(plane).tick(0.0)
    assert plane.ended[0].message == "server 999 is not emulated"


def test_an_unknown_kind_fails_the_launch_and_not_the_emulator() -> None:
    plane = MemoryPlane(site(2), waiting=[launch(1, kind="poetry"), launch(2)])
    emulator(plane).tick(0.0)
    assert [(end.launch, end.outcome) for end in plane.ended] == [(1, "failed")]
    assert set(plane.started) == {2}


def test_what_happened_while_the_database_was_away_is_told_afterwards() -> None:
    plane = MemoryPlane(site(4), waiting=[launch(1)])
    one = emulator(plane)
    one.tick(0.0)
    plane.is_away = True
    with pytest.raises(AwayError):
        one.tick(10.0)
    assert plane.ended == []
    plane.is_away = False
    one.tick(10.1)
    assert [end.launch for end in plane.ended] == [1]
    one.tick(10.2)
    assert [end.launch for end in plane.ended] == [1]


def test_a_stopped_clock_stops_the_jobs() -> None:
    plane = MemoryPlane(site(4), waiting=[launch(1)])
    one = emulator(plane)
    one.tick(1.0)
    plane.speed = 0.0
    one.tick(100.0)
    one.tick(200.0)
    assert plane.ended == []


def test_jobs_go_on_when_servers_are_added() -> None:
    plane = MemoryPlane(site(4), waiting=[launch(1, seconds=600.0)])
    one = emulator(plane)
    one.tick(0.0)
    plane.place = site(4, 8, version=2)
    one.tick(5.0)
    assert one.running == 1
    assert plane.jobs[1].performance.progress == pytest.approx(0.5, rel=0.35)
    assert plane.servers[-1][1].cpu_share.shape == (2,)


def test_jobs_of_a_removed_server_fail() -> None:
    plane = MemoryPlane(site(4, 4), waiting=[launch(1, seconds=600.0, parts=((102, 1),))])
    one = emulator(plane)
    one.tick(0.0)
    plane.place = site(4, version=2)
    one.tick(1.0)
    assert [(end.launch, end.outcome) for end in plane.ended] == [(1, "failed")]


PROBE = ProfilingOrder(
    run=UUID(int=5),
    application="sort",
    kind="batch",
    runs=(ProbeRun("cr1.8xlarge", 1, 1, ("core", "tlb")), ProbeRun("m1.large", 1, 1)),
    seed=3,
)


def test_profiling_takes_its_time_and_brings_measurements() -> None:
    plane = MemoryPlane(site(4), profiling=[PROBE])
    one = emulator(plane)
    one.tick(0.0)
    assert plane.measured == {}
    one.tick(2.0)
    at_s, cells = plane.measured[PROBE.run]
    assert 20.0 < at_s < 120.0
    assert {cell.matrix for cell in cells} >= {"base_rate", "tolerated", "heterogeneity"}


def test_profiling_tells_each_step_in_time() -> None:
    plane = MemoryPlane(site(4), profiling=[PROBE])
    one = emulator(plane)
    for tick in range(20):
        one.tick(0.1 * tick)
    done = [step.done for steps in plane.steps for step in steps.values()]
    assert done == sorted(set(done))
    assert 2 <= len(done) <= 3  # of four; the last is the report
    (report,) = plane.reports
    assert report.at_s == pytest.approx(report.seconds)


def test_many_profiling_runs_are_spread_over_ticks() -> None:
    orders = [replace(PROBE, run=UUID(int=number)) for number in range(20)]
    plane = MemoryPlane(site(4), profiling=orders)
    one = emulator(plane)
    one.tick(0.0)
    assert len(plane.profiling) == 20 - PROFILING_PER_TICK
    for tick in range(3):
        one.tick(0.001 * tick)
    handed_in = []
    for tick in range(5):
        one.tick(10.0 + tick)
        handed_in.append(len(plane.reports))
    assert handed_in == [6, 12, 18, 20, 20]
    # told with the time at which they were over, not with that of the report
    assert max(report.at_s for report in plane.reports) < 60.0


def test_profiling_that_is_cancelled_is_stopped_and_told() -> None:
    plane = MemoryPlane(site(4), profiling=[PROBE])
    one = emulator(plane)
    one.tick(0.0)
    plane.unwanted = [PROBE.run]
    one.tick(0.1)
    one.tick(5.0)
    assert plane.stopped == [PROBE.run]
    assert (plane.measured, plane.failed) == ({}, [])


def test_a_copy_that_dies_fails_the_attempt() -> None:
    plane = MemoryPlane(site(4), profiling=[PROBE])
    one = Emulator(plane, wall_s=0.0, pace=ALWAYS, probe_failures=1.0)
    one.tick(0.0)
    one.tick(2.0)
    one.tick(2.1)
    reason = "1 unit on cr1.8xlarge: its copy died while it was set up"
    assert (plane.failed, plane.measured) == ([(PROBE.run, reason)], {})


def test_a_failed_report_is_sent_again() -> None:
    plane = MemoryPlane(site(4), profiling=[PROBE])
    one = emulator(plane)
    one.tick(0.0)
    refuse_measurements(plane)
    with pytest.raises(AwayError):
        one.tick(2.0)
    assert plane.measured == {}
    del plane.report_measurements  # back to the class' own
    one.tick(2.1)
    assert set(plane.measured) == {PROBE.run}


def refuse_measurements(plane: MemoryPlane) -> None:
    """Let the connection break when measurements are handed in."""

    def refuse(report: ProfilingReport) -> None:
        raise AwayError

    plane.report_measurements = refuse  # type: ignore[method-assign]  # for one call


def test_another_attempt_draws_anew() -> None:
    first = MemoryPlane(site(4), profiling=[PROBE])
    second = MemoryPlane(site(4), profiling=[replace(PROBE, attempt=2)])
    for plane in (first, second):
        one = emulator(plane)
        one.tick(0.0)
        one.tick(2.0)
    assert first.measured[PROBE.run] != second.measured[PROBE.run]


def test_profiling_again_measures_the_same() -> None:
    first, second = (
        MemoryPlane(site(4), profiling=[PROBE]),
        MemoryPlane(site(4), profiling=[PROBE]),
    )
    one, two = emulator(first), emulator(second)
    one.tick(0.0)
    two.tick(0.0)
    one.tick(2.0)
    two.tick(2.0)
    assert first.measured[PROBE.run][1] == second.measured[PROBE.run][1]


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
    assert engine_order(order, sort(), {101: 0}).work_s == pytest.approx(work_s)


def test_an_order_for_an_unknown_server_is_refused() -> None:
    with pytest.raises(UnknownServerError, match="101"):
        engine_order(launch(1), sort(), {})


def test_a_faster_framework_setting_leaves_less_work() -> None:
    truth = sort("analytics")
    assert truth.framework is not None
    plain = engine_order(launch(1), truth, {101: 0})
    tuned = engine_order(replace(launch(1), setting="2x0.5GB"), truth, {101: 0})
    speed = truth.framework.speed(setting_named("2x0.5GB"))
    assert tuned.work_s == pytest.approx(plain.work_s / speed)
    assert speed != 1.0


def test_a_setting_nobody_knows_is_named() -> None:
    with pytest.raises(ValueError, match="'9x9GB'"):
        engine_order(replace(launch(1), setting="9x9GB"), sort("analytics"), {101: 0})


def test_a_launch_that_waits_is_handed_out_again_and_waits_once() -> None:
    # the control plane hands out every tick what this process claimed and has not started
    orders = [launch(1, units=2, seconds=1e6), launch(2, units=2)]
    plane = MemoryPlane(site(2), waiting=list(orders))
    one = emulator(plane)
    one.tick(0.0)
    plane.waiting = [orders[1]]
    one.tick(1.0)
    plane.waiting = [orders[1]]
    one.tick(PATIENCE_S + 1.0)
    plane.cancelled = [1]
    one.tick(PATIENCE_S + 2.0)
    assert [(end.launch, end.outcome) for end in plane.ended] == [(2, "failed"), (1, "cancelled")]
    assert one.running == 0


class Deaf(MemoryPlane):
    """Hands out launches but does not hear of their start while away."""

    is_deaf = False

    def report_started(self, launches: Mapping[int, float]) -> None:
        if self.is_deaf:
            raise AwayError
        super().report_started(launches)


def test_a_job_whose_end_was_not_told_yet_does_not_begin_again() -> None:
    plane = Deaf(site(4), waiting=[launch(1)])
    one = emulator(plane)
    plane.is_deaf = True
    with pytest.raises(AwayError):
        one.tick(0.0)
    plane.is_deaf, plane.waiting = False, [launch(1)]
    one.tick(10.0)
    assert [end.launch for end in plane.ended] == [1]
    assert one.running == 0


def test_what_the_control_plane_ended_is_dropped() -> None:
    plane = MemoryPlane(site(4), waiting=[launch(1, seconds=1e6), launch(2, seconds=1e6)])
    one = emulator(plane)
    one.tick(0.0)
    plane.given_up = [1]
    one.tick(1.0)
    one.tick(2.0)
    assert one.running == 1
    assert plane.ended == []
    assert set(plane.jobs) == {1, 2}


def test_a_launch_ended_while_it_waited_never_starts() -> None:
    orders = [launch(1, units=2, seconds=1e6), launch(2, units=2)]
    plane = MemoryPlane(site(2), waiting=orders)
    one = emulator(plane)
    one.tick(0.0)
    plane.given_up = [2]
    one.tick(1.0)
    plane.cancelled = [1]
    one.tick(2.0)
    one.tick(3.0)
    assert set(plane.started) == {1}


def test_claims_are_kept_of_the_profiling_being_done_only() -> None:
    plane = MemoryPlane(site(4), profiling=[PROBE])
    one = emulator(plane)
    one.tick(0.0)
    assert plane.kept == set()
    one.tick(0.1)
    assert plane.kept == {PROBE.run}
    one.tick(2.0)
    one.tick(2.1)
    assert plane.kept == set()


def test_profiling_that_cannot_be_done_is_left_to_run_out() -> None:
    strange = replace(PROBE, runs=(ProbeRun("abacus", 1, 1),))
    plane = MemoryPlane(site(4), profiling=[strange])
    one = emulator(plane)
    one.tick(0.0)
    one.tick(2.0)
    assert (plane.measured, plane.kept) == ({}, set())
