"""Profiling runs of the emulated backend, on a control plane in memory."""

from dataclasses import replace
from uuid import UUID

import pytest

from apps.emulation.core.probe_runs import ProbeRun
from apps.execution.backends.emulated.emulator import PROFILING_PER_TICK, Emulator
from apps.execution.backends.emulated.port import ProfilingOrder, ProfilingReport
from tests.execution.emulated_plane import ALWAYS, AwayError, MemoryPlane, emulator, site

PROBE = ProfilingOrder(
    run=UUID(int=5),
    application="sort",
    kind="batch",
    runs=(ProbeRun("cr1.8xlarge", 1, 1, ("core", "tlb")), ProbeRun("m1.large", 1, 1)),
    seed=3,
)


def test_a_profiling_run_takes_cluster_time_and_reports_measurements() -> None:
    plane = MemoryPlane(site(4), profiling=[PROBE])
    backend = emulator(plane)
    backend.tick(0.0)
    assert plane.measured == {}
    backend.tick(2.0)
    at_s, cells = plane.measured[PROBE.run]
    assert 20.0 < at_s < 120.0
    assert {cell.matrix for cell in cells} >= {"base_rate", "tolerated", "heterogeneity"}


def test_profiling_steps_are_reported_when_due() -> None:
    plane = MemoryPlane(site(4), profiling=[PROBE])
    backend = emulator(plane)
    for tick in range(20):
        backend.tick(0.1 * tick)
    done = [step.done for steps in plane.steps for step in steps.values()]
    assert done == sorted(set(done))
    assert 2 <= len(done) <= 3  # of four; the last is the report
    (report,) = plane.reports
    assert report.at_s == pytest.approx(report.seconds)


def test_many_profiling_runs_are_spread_over_ticks() -> None:
    orders = [replace(PROBE, run=UUID(int=number)) for number in range(20)]
    plane = MemoryPlane(site(4), profiling=orders)
    backend = emulator(plane)
    backend.tick(0.0)
    assert len(plane.profiling) == 20 - PROFILING_PER_TICK
    for tick in range(3):
        backend.tick(0.001 * tick)
    handed_in = []
    for tick in range(5):
        backend.tick(10.0 + tick)
        handed_in.append(len(plane.reports))
    assert handed_in == [6, 12, 18, 20, 20]
    # reported with the time of their end, not of the report
    assert max(report.at_s for report in plane.reports) < 60.0


def test_a_cancelled_profiling_run_is_stopped_and_reported() -> None:
    plane = MemoryPlane(site(4), profiling=[PROBE])
    backend = emulator(plane)
    backend.tick(0.0)
    plane.unwanted = [PROBE.run]
    backend.tick(0.1)
    backend.tick(5.0)
    assert plane.stopped == [PROBE.run]
    assert (plane.measured, plane.failed) == ({}, [])


def test_a_copy_that_dies_fails_the_attempt() -> None:
    plane = MemoryPlane(site(4), profiling=[PROBE])
    backend = Emulator(plane, wall_s=0.0, pace=ALWAYS, probe_failures=1.0)
    backend.tick(0.0)
    backend.tick(2.0)
    backend.tick(2.1)
    reason = "1 unit on cr1.8xlarge: its copy died during set-up"
    assert (plane.failed, plane.measured) == ([(PROBE.run, reason)], {})


def test_a_failed_report_is_sent_again() -> None:
    plane = MemoryPlane(site(4), profiling=[PROBE])
    backend = emulator(plane)
    backend.tick(0.0)
    refuse_measurements(plane)
    with pytest.raises(AwayError):
        backend.tick(2.0)
    assert plane.measured == {}
    del plane.report_measurements  # restores the method of the class
    backend.tick(2.1)
    assert set(plane.measured) == {PROBE.run}


def refuse_measurements(plane: MemoryPlane) -> None:
    """Break the connection when measurements are reported."""

    def refuse(report: ProfilingReport) -> None:
        raise AwayError

    plane.report_measurements = refuse  # type: ignore[method-assign]  # for one call


def test_another_attempt_uses_another_random_stream() -> None:
    first = MemoryPlane(site(4), profiling=[PROBE])
    second = MemoryPlane(site(4), profiling=[replace(PROBE, attempt=2)])
    for plane in (first, second):
        backend = emulator(plane)
        backend.tick(0.0)
        backend.tick(2.0)
    assert first.measured[PROBE.run] != second.measured[PROBE.run]


def test_profiling_again_measures_the_same() -> None:
    first, second = (
        MemoryPlane(site(4), profiling=[PROBE]),
        MemoryPlane(site(4), profiling=[PROBE]),
    )
    backend, other_backend = emulator(first), emulator(second)
    backend.tick(0.0)
    other_backend.tick(0.0)
    backend.tick(2.0)
    other_backend.tick(2.0)
    assert first.measured[PROBE.run][1] == second.measured[PROBE.run][1]


def test_only_profiling_runs_in_progress_renew_their_leases() -> None:
    plane = MemoryPlane(site(4), profiling=[PROBE])
    backend = emulator(plane)
    backend.tick(0.0)
    assert plane.claimed_runs == set()
    backend.tick(0.1)
    assert plane.claimed_runs == {PROBE.run}
    backend.tick(2.0)
    backend.tick(2.1)
    assert plane.claimed_runs == set()


def test_the_lease_of_an_impossible_profiling_run_expires() -> None:
    strange = replace(PROBE, runs=(ProbeRun("abacus", 1, 1),))
    plane = MemoryPlane(site(4), profiling=[strange])
    backend = emulator(plane)
    backend.tick(0.0)
    backend.tick(2.0)
    assert (plane.measured, plane.claimed_runs) == ({}, set())
