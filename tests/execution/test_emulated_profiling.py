"""Profiling runs of the emulated backend, on real tables."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.emulation.core.probe_runs import ProbeRun
from apps.execution.backends.emulated.control_plane import DatabaseControlPlane
from apps.execution.backends.emulated.emulator import Emulator
from apps.execution.backends.emulated.port import ProfilingReport
from apps.execution.management.commands.run_emulator import _hooks
from apps.execution.services.recovery import sweep
from apps.operations.models import Event, Operation
from apps.operations.services import cancel_operation
from apps.profiling.core.measurements import MeasuredCell, MissingCell, ProfilingStep
from apps.profiling.models import Measurement, ProfilingRun
from apps.profiling.services import MAX_ATTEMPTS, request_run
from apps.workloads.models import Job
from tests import factories
from tests.execution.migration_world import SteadyPlane, holding
from tests.execution.test_emulated_control_plane import Calls, plane

pytestmark = pytest.mark.django_db

PLAN: dict[str, Sequence[dict[str, Any]]] = {
    "runs": [
        {"platform": "cr1.8xlarge", "servers": 1, "units": 1, "sources": ["core", "tlb"]},
        {"platform": "m1.large", "servers": 1, "units": 1},
    ]
}


def begun_run() -> ProfilingRun:
    about = factories.application()
    return ProfilingRun.objects.create(application=about, plan=PLAN, seed=5, requested_s=10.0)


def test_a_profiling_run_is_claimed_once() -> None:
    run = begun_run()
    (order,) = plane().claim_profiling(5)
    assert (order.run, order.seed) == (run.id, 5)
    assert order.runs == (
        ProbeRun("cr1.8xlarge", 1, 1, ("core", "tlb")),
        ProbeRun("m1.large", 1, 1),
    )
    assert plane().claim_profiling(5) == []
    run.refresh_from_db()
    assert (run.state, run.attempts) == ("running", 1)


def lapse(run: ProfilingRun, **values: Any) -> None:
    """Set the expiry of a run's lease to one second ago."""
    past = timezone.now() - timedelta(seconds=1)
    ProfilingRun.objects.filter(id=run.id).update(claimed_until=past, **values)


def renewing(worker: str = "emulator-1") -> DatabaseControlPlane:
    """A control plane whose next claim also renews."""
    control_plane = plane(worker=worker)
    control_plane._renewed_s -= 60.0
    return control_plane


def test_a_profiling_run_of_a_dead_process_is_claimed_again() -> None:
    run = begun_run()
    plane(worker="emulator-dead").claim_profiling(5)
    lapse(run)
    (order,) = plane().claim_profiling(5)
    run.refresh_from_db()
    assert (order.run, run.claimed_by, run.attempts) == (run.id, "emulator-1", 2)


def test_a_profiling_run_is_not_claimed_after_its_last_attempt() -> None:
    run = begun_run()
    lapse(run, state="running", attempts=MAX_ATTEMPTS)
    assert plane().claim_profiling(5) == []


def test_a_profiling_run_in_progress_keeps_its_lease() -> None:
    run = begun_run()
    control_plane = renewing()
    control_plane.claim_profiling(5)
    lapse(run)
    control_plane._renewed_s -= 60.0
    assert control_plane.claim_profiling(5, doing=[run.id]) == []
    run.refresh_from_db()
    assert run.attempts == 1
    assert run.claimed_until is not None
    assert run.claimed_until > timezone.now()


def test_a_claim_with_a_lost_answer_expires() -> None:
    lost = begun_run()
    renewing().claim_profiling(5)
    lapse(lost)
    (order,) = renewing().claim_profiling(5)
    assert order.run == lost.id


def test_the_lease_of_another_process_is_not_renewed() -> None:
    run = begun_run()
    plane(worker="emulator-other").claim_profiling(5)
    lapse(run)
    renewing().claim_profiling(0, doing=[run.id])
    run.refresh_from_db()
    assert run.claimed_until is not None
    assert run.claimed_until < timezone.now()


def test_an_order_has_the_budget_copies_and_spare_sources_of_the_plan() -> None:
    run = begun_run()
    first = {**PLAN["runs"][0], "copy": 0, "spare": ["l1i"]}
    ProfilingRun.objects.update(plan={"budget_s": 45.0, "runs": [first]})
    (order,) = plane().claim_profiling(5)
    assert (order.run, order.budget_s, order.attempt) == (run.id, 45.0, 1)
    assert order.runs == (ProbeRun("cr1.8xlarge", 1, 1, ("core", "tlb"), ("l1i",), 0),)


def test_measurements_are_passed_to_the_hook() -> None:
    calls, run = Calls(), begun_run()
    cell = MeasuredCell("scale_up", "8", 6.5, 0.1, 8)
    plane(calls).report_measurements(ProfilingReport(run.id, 70.0, 60.0, (cell,)))
    assert calls.measured == [(run.id, 70.0, 1)]


# ---- operations ----


def small_cluster() -> None:
    """Two platforms with servers."""
    for rank, name in enumerate(("cr1.8xlarge", "m1.large")):
        factories.server(of=factories.platform(name, cores=8 >> rank, rank=rank))


def requested_run(name: str = "sort") -> ProfilingRun:
    """A run with its operation, of a batch application."""
    return request_run(factories.application(name, kind="batch").id)


def operation_of(run: ProfilingRun) -> Operation:
    return Operation.objects.get(profiling_run=run)


def test_a_claim_starts_the_operation() -> None:
    small_cluster()
    run = requested_run()
    plane().claim_profiling(5)
    operation = operation_of(run)
    assert (operation.status, operation.progress) == ("running", 0)
    assert operation.message == "attempt 1: setting up copies of sort"


def test_a_cancelled_run_is_not_claimed() -> None:
    small_cluster()
    run = requested_run()
    cancel_operation(operation_of(run).pk)
    assert plane().claim_profiling(5) == []


def test_a_cancelled_run_of_a_dead_process_is_not_restarted() -> None:
    small_cluster()
    run = requested_run()
    plane(worker="emulator-dead").claim_profiling(5)
    lapse(run)
    cancel_operation(operation_of(run).pk)
    assert plane().claim_profiling(5) == []


def test_polling_for_cancelled_runs_ends_unclaimed_ones() -> None:
    small_cluster()
    waits, runs = requested_run("sort"), requested_run("grep")
    ProfilingRun.objects.filter(id=waits.id).update(created_at=timezone.now())
    control_plane = plane()
    (order,) = control_plane.claim_profiling(1)
    assert order.run == runs.id
    assert control_plane.profiling_to_stop([runs.id]) == []
    cancel_operation(operation_of(waits).pk)
    cancel_operation(operation_of(runs).pk)
    assert control_plane.profiling_to_stop([runs.id]) == [runs.id]
    waits.refresh_from_db()
    runs.refresh_from_db()
    assert (waits.state, runs.state) == ("cancelled", "running")
    control_plane.report_stopped([runs.id])
    runs.refresh_from_db()
    assert (runs.state, operation_of(runs).status) == ("cancelled", "cancelled")


def test_steps_become_progress() -> None:
    small_cluster()
    run = requested_run()
    control_plane = plane()
    control_plane.claim_profiling(1)
    control_plane.report_progress({run.id: ProfilingStep(30.0, 3, 6, "tlb: tolerated 40 ± 0.5")})
    operation = operation_of(run)
    assert (operation.progress, operation.total, operation.message) == (
        3,
        6,
        "tlb: tolerated 40 ± 0.5",
    )


def test_missing_cells_are_stored_with_their_reason() -> None:
    small_cluster()
    run = requested_run()
    control_plane = holding(DatabaseControlPlane(worker="emulator-1", hooks=_hooks()))
    control_plane.claim_profiling(1)
    gap = MissingCell("caused", "tlb", "the microbenchmark died")
    cell = MeasuredCell("scale_up", "8", 6.5, 0.1, 8)
    report = ProfilingReport(run.id, 70.0, 60.0, (cell,), (gap,))
    control_plane.report_measurements(report)
    control_plane.report_measurements(replace(report, at_s=80.0))
    run.refresh_from_db()
    missing = [{"matrix": "caused", "column": "tlb", "reason": "the microbenchmark died"}]
    assert run.result == {"cells": 1, "seconds": 60.0, "missing": missing}
    assert (run.finished_s, Measurement.objects.count()) == (70.0, 1)
    subject = str(operation_of(run).pk)
    assert Event.objects.filter(subject=subject, kind="operation.finished").count() == 1


def test_a_run_that_failed_is_claimed_again_at_once() -> None:
    small_cluster()
    run = requested_run()
    control_plane = plane()
    control_plane.claim_profiling(1)
    control_plane.report_failed(run.id, 20.0, "its copy died")
    (order,) = control_plane.claim_profiling(1)
    assert (order.run, order.attempt) == (run.id, 2)


# ---- the emulator on these tables ----


class Play:
    """An emulator from cluster second 0, 60 a wall second."""

    def __init__(self, *, failures: float = 0.0, worker: str = "emulator-1") -> None:
        factories.cluster(seen_cluster_s=0.0)
        plane = SteadyPlane(worker=worker, hooks=_hooks())
        plane.cluster_s = 0.0
        self.one = Emulator(holding(plane), wall_s=0.0, probe_failures=failures)
        self.at(0.0)

    def at(self, cluster_s: float) -> None:
        """Tick at a cluster time."""
        self.one.tick(cluster_s / 60.0)


def test_a_run_from_its_request_to_its_cells() -> None:
    small_cluster()
    run, renewals = requested_run(), []
    play = Play()
    for cluster_s in range(6, 120, 6):
        play.at(cluster_s)
        operation = operation_of(run)
        renewals.append((operation.status, operation.progress))
    assert [status for status, _ in renewals] == sorted(status for status, _ in renewals)
    assert renewals[0] == ("running", 0)
    assert renewals[-1][0] == "succeeded"
    progress = [done for _, done in renewals]
    assert progress == sorted(progress)
    assert len(set(progress)) >= 4
    run.refresh_from_db()
    assert run.result is not None
    assert run.result["cells"] == run.measurements.count() >= 10
    assert run.finished_s == pytest.approx(run.result["seconds"], abs=0.1)


def test_a_cancelled_run_is_stopped_by_the_emulator() -> None:
    small_cluster()
    run = requested_run()
    job = factories.job(application=run.application, state="profiling")
    play = Play()
    play.at(12.0)
    cancel_operation(operation_of(run).pk)
    play.at(60.0)
    play.at(300.0)
    run.refresh_from_db()
    job.refresh_from_db()
    assert (run.state, operation_of(run).status) == ("cancelled", "cancelled")
    assert not Measurement.objects.exists()
    assert (job.state, job.reason_message) == ("failed", "the profiling of sort was cancelled")


def test_a_run_of_a_dead_emulator_is_completed_once_by_the_next() -> None:
    small_cluster()
    run = requested_run()
    Play(worker="emulator-dead").at(12.0)
    lapse(run)
    play = Play(worker="emulator-2")
    play.at(300.0)
    run.refresh_from_db()
    assert (run.state, run.attempts, operation_of(run).status) == ("done", 2, "succeeded")
    subject = str(operation_of(run).pk)
    assert Event.objects.filter(subject=subject, kind="operation.finished").count() == 1


def test_copies_that_always_die_fail_the_run_and_its_jobs() -> None:
    small_cluster()
    run = requested_run()
    job = factories.job(application=run.application, state="profiling")
    play = Play(failures=1.0)
    for cluster_s in range(15, 15 * 12, 15):
        play.at(cluster_s)
    run.refresh_from_db()
    job.refresh_from_db()
    assert (run.state, run.attempts) == ("failed", MAX_ATTEMPTS)
    assert "its copy died during set-up" in run.message
    assert (job.state, job.reason_code) == ("failed", "ProfilingFailed")


def test_a_sweep_ends_cancelled_runs_without_a_backend() -> None:
    small_cluster()
    run = requested_run()
    cancel_operation(operation_of(run).pk)
    sweep()
    run.refresh_from_db()
    assert run.state == "cancelled"


def test_a_known_application_is_profiled_again_while_its_jobs_run() -> None:
    small_cluster()
    first = requested_run()
    play = Play()
    play.at(120.0)
    again = request_run(first.application_id)
    job = factories.job(application=first.application, state="running")
    play.at(126.0)
    play.at(300.0)
    again.refresh_from_db()
    assert again.state == "done"
    assert Job.objects.get(id=job.id).state == "running"
    assert set(Measurement.objects.values_list("run_id", flat=True)) == {first.id, again.id}
