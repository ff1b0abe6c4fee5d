"""Profiling runs as operations: progress, cancellation, and a single end."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from django.utils import timezone

from apps.common.core.errors import ConflictError
from apps.operations.models import Event, Operation
from apps.operations.services import cancel_operation
from apps.profiling.core.measurements import MeasuredCell, MissingCell, ProfilingStep
from apps.profiling.models import Measurement, ProfilingRun
from apps.profiling.selectors import ranking, runs_to_stop
from apps.profiling.services import (
    MAX_ATTEMPTS,
    end_cancelled_runs,
    give_up_runs,
    rank_columns,
    record_begun,
    record_done,
    record_failure,
    record_measurements,
    record_progress,
    request_run,
    request_runs,
    stop_runs,
)
from apps.workloads.models import Application, Job
from tests import factories
from tests.races import at_once

pytestmark = pytest.mark.django_db

CELL = MeasuredCell("base_rate", "metric", 5e6, 1e5, 8)


@pytest.fixture
def sort() -> Application:
    """An application, and a cluster of one platform to profile it on."""
    factories.cluster(seen_cluster_s=500.0)
    factories.server(of=factories.platform("best", cores=8))
    return factories.application("sort", kind="batch")


def claimed(run: ProfilingRun, *, attempts: int = 1, seconds: float = 15.0) -> ProfilingRun:
    """Claim a run; its lease expires after this number of seconds."""
    until = timezone.now() + timedelta(seconds=seconds)
    rows = ProfilingRun.objects.filter(id=run.id)
    rows.update(state="running", attempts=attempts, claimed_until=until)
    record_begun([run.id])
    return fresh(run)


def fresh(run: ProfilingRun) -> ProfilingRun:
    return ProfilingRun.objects.select_related("operation").get(id=run.id)


def operation_of(run: ProfilingRun) -> Operation:
    operation = fresh(run).operation
    assert operation is not None
    return operation


def cancel(run: ProfilingRun) -> None:
    cancel_operation(operation_of(run).pk)


def states(run: ProfilingRun) -> tuple[str, str]:
    """States of the run and of its operation."""
    return fresh(run).state, operation_of(run).status


def waiting(about: Application, **values: Any) -> Job:
    return factories.job(application=about, state="profiling", **values)


def events(run: ProfilingRun) -> list[str]:
    rows = Event.objects.filter(subject=str(operation_of(run).pk)).order_by("seq")
    return list(rows.values_list("kind", flat=True))


def report(run: ProfilingRun, missing: tuple[MissingCell, ...] = ()) -> None:
    with transaction.atomic():
        record_measurements(run.id, at_s=560.0, cells=[CELL])
        record_done(run.id, seconds=44.44, missing=missing)


def test_a_requested_run_has_an_operation_of_the_requester(sort: Application) -> None:
    user = factories.user()
    run = request_run(sort.id, requested_by=user.pk, reason="new version")
    operation = operation_of(run)
    assert (operation.kind, operation.status, operation.created_by) == (
        "profiling",
        "pending",
        user,
    )
    assert (operation.progress, operation.total) == (0, 6)  # two runs, four sources
    assert operation.arguments == {"application": "sort", "run": str(run.id)}
    assert (run.reason, run.requested_s) == ("new version", 500.0)
    assert events(run) == ["operation.created"]


def test_a_run_requested_by_an_agent_has_an_operation_without_events(sort: Application) -> None:
    with transaction.atomic():
        request_runs([sort.id])
    run = ProfilingRun.objects.get()
    assert states(run) == ("queued", "pending")
    # the event log's lock would be held while the job rows are locked
    assert events(run) == []


def test_a_second_run_is_refused_and_names_the_first(sort: Application) -> None:
    run = request_run(sort.id)
    with pytest.raises(ConflictError, match=f"run {run.id} is queued"):
        request_run(sort.id)


@pytest.mark.django_db(transaction=True)
def test_one_of_several_concurrent_requests_gets_a_run(sort: Application) -> None:
    def ask() -> UUID | None:
        try:
            return request_run(sort.id).id
        except ConflictError:
            return None

    assert at_once(4, ask).count(None) == 3
    assert (ProfilingRun.objects.count(), Operation.objects.count()) == (1, 1)


def test_without_servers_the_request_is_refused() -> None:
    about = factories.application("sort")
    with pytest.raises(ConflictError, match="sort cannot be profiled now"):
        request_run(about.id)
    assert not Operation.objects.exists()


def test_the_columns_ranked_first_are_planned_first(sort: Application) -> None:
    rank_columns({"tolerated": ["tlb", "l1i"], "scale_up": ("4",)})
    rank_columns({"tolerated": ["core", "l1d"], "scale_up": ("8",)})
    assert ranking() == {"tolerated": ["core", "l1d"], "scale_up": ["8"]}
    first, second = request_run(sort.id).plan["runs"]
    assert (first["sources"][:2], second["units"]) == (["core", "l1d"], 8)


# ---- running ----


def test_a_run_reports_its_progress(sort: Application) -> None:
    run = claimed(request_run(sort.id))
    assert states(run) == ("running", "running")
    record_progress({run.id: ProfilingStep(30.0, 3, 5, "tlb: tolerated 40 ± 0.5")})
    operation = operation_of(run)
    assert (operation.progress, operation.total, operation.message) == (
        3,
        5,
        "tlb: tolerated 40 ± 0.5",
    )
    assert operation.lease_until is None  # the run's own lease counts
    assert events(run) == ["operation.created", "operation.progress", "operation.progress"]


def test_progress_of_an_ended_run_changes_nothing(sort: Application) -> None:
    run = claimed(request_run(sort.id))
    report(run)
    record_progress({run.id: ProfilingStep(30.0, 1, 5, "late")})
    assert operation_of(run).message == "1 cells measured in 44 s"


def test_progress_of_many_runs_takes_a_few_statements(
    sort: Application, django_assert_num_queries: Any
) -> None:
    runs = [claimed(request_run(factories.application().id)) for _ in range(5)]
    # savepoint, runs, operations, their rows, events, savepoint
    with django_assert_num_queries(6):
        record_progress({run.id: ProfilingStep(30.0, 1, 5, "one") for run in runs})


def test_a_run_without_an_operation_records_no_events() -> None:
    run = factories.profiling_run(factories.application(), state="running")
    record_begun([run.id])
    record_progress({run.id: ProfilingStep(30.0, 1, 5, "one")})
    report(run)
    assert fresh(run).state == "done"
    assert not Event.objects.exists()


# ---- done ----


def test_a_completed_run_has_its_result(sort: Application) -> None:
    run = claimed(request_run(sort.id))
    gap = MissingCell("caused", "tlb", "the microbenchmark died")
    report(run, (gap,))
    expected = {
        "cells": 1,
        "seconds": 44.4,
        "missing": [{"matrix": "caused", "column": "tlb", "reason": "the microbenchmark died"}],
    }
    operation = operation_of(run)
    assert states(run) == ("done", "succeeded")
    assert (fresh(run).result, operation.result) == (expected, expected)
    assert operation.message == "1 cells measured in 44 s, 1 missing"
    assert operation.finished_at is not None
    assert events(run)[-1] == "operation.finished"


def test_a_repeated_report_ends_the_run_once(sort: Application) -> None:
    run = claimed(request_run(sort.id))
    report(run)
    before = fresh(run).result
    report(run, (MissingCell("caused", "tlb", "late"),))
    assert events(run).count("operation.finished") == 1
    assert Measurement.objects.count() == 1
    assert fresh(run).result == before


# ---- failures ----


def test_a_failed_run_is_retried(sort: Application) -> None:
    run, job = claimed(request_run(sort.id)), waiting(sort)
    record_failure(run.id, at_s=530.0, reason="its copy died")
    assert states(run) == ("queued", "pending")
    assert fresh(run).message == "attempt 1 of 5 failed: its copy died"
    assert operation_of(run).message == fresh(run).message
    job.refresh_from_db()
    assert job.state == "profiling"


def test_after_the_last_attempt_the_run_and_its_waiting_jobs_fail(sort: Application) -> None:
    run, job = claimed(request_run(sort.id), attempts=MAX_ATTEMPTS), waiting(sort)
    record_failure(run.id, at_s=530.0, reason="its copy died")
    assert states(run) == ("failed", "failed")
    message = "all 5 attempts failed; the last one: its copy died"
    assert operation_of(run).problem == {
        "title": "The application could not be profiled",
        "detail": message,
    }
    job.refresh_from_db()
    assert (job.state, job.reason_code, job.reason_message) == (
        "failed", "ProfilingFailed", message,
    )  # fmt: skip
    assert fresh(run).finished_s == 530.0


def test_a_failure_reported_twice_counts_once(sort: Application) -> None:
    run = claimed(request_run(sort.id))
    record_failure(run.id, at_s=530.0, reason="its copy died")
    before = len(events(run))
    record_failure(run.id, at_s=531.0, reason="its copy died")
    assert (fresh(run).attempts, len(events(run))) == (1, before)


def test_the_operation_of_a_run_given_up_has_failed(sort: Application) -> None:
    run = claimed(request_run(sort.id), attempts=MAX_ATTEMPTS, seconds=-1.0)
    assert give_up_runs() == 1
    assert states(run) == ("failed", "failed")


# ---- cancelling ----


def test_a_queued_run_is_cancelled_without_a_backend(sort: Application) -> None:
    run = request_run(sort.id)
    cancel(run)
    assert (end_cancelled_runs(), end_cancelled_runs()) == (1, 0)
    assert states(run) == ("cancelled", "cancelled")
    assert fresh(run).finished_s == 500.0


def test_a_running_run_is_cancelled_when_its_copies_are_stopped(sort: Application) -> None:
    run = claimed(request_run(sort.id))
    assert runs_to_stop([run.id]) == []
    cancel(run)
    assert end_cancelled_runs() == 0
    assert states(run) == ("running", "running")
    assert runs_to_stop([run.id]) == [run.id]
    assert (stop_runs([run.id]), stop_runs([run.id])) == (1, 0)
    assert states(run) == ("cancelled", "cancelled")
    assert events(run)[-1] == "operation.finished"


def test_a_run_that_was_not_cancelled_is_not_stopped(sort: Application) -> None:
    run = claimed(request_run(sort.id))
    assert (stop_runs([run.id]), end_cancelled_runs()) == (0, 0)
    assert states(run) == ("running", "running")


def test_a_cancelled_run_whose_backend_died_ends_with_its_lease(sort: Application) -> None:
    run = claimed(request_run(sort.id), seconds=-1.0)
    cancel(run)
    assert end_cancelled_runs() == 1
    assert states(run) == ("cancelled", "cancelled")


def test_cancelling_the_first_profile_fails_the_jobs_that_wait_for_it(sort: Application) -> None:
    run, job, other = request_run(sort.id), waiting(sort), waiting(factories.application())
    cancel(run)
    end_cancelled_runs()
    job.refresh_from_db()
    other.refresh_from_db()
    assert (job.state, job.reason_code) == ("failed", "ProfilingFailed")
    assert job.reason_message == "the profiling of sort was cancelled"
    assert other.state == "profiling"


def test_cancelling_another_profile_of_a_known_application_fails_nothing(
    sort: Application,
) -> None:
    first = claimed(request_run(sort.id))
    report(first)
    again, job = request_run(sort.id), waiting(sort)
    running = factories.job(application=sort, state="running")
    cancel(again)
    end_cancelled_runs()
    job.refresh_from_db()
    running.refresh_from_db()
    assert (states(again)[0], job.state, running.state) == ("cancelled", "profiling", "running")
    assert Measurement.objects.count() == 1


def test_a_report_after_the_end_is_ignored(sort: Application) -> None:
    run = claimed(request_run(sort.id))
    cancel(run)
    stop_runs([run.id])
    report(run)
    assert states(run) == ("cancelled", "cancelled")
    assert not Measurement.objects.exists()


def test_a_report_before_the_copies_are_stopped_still_counts(sort: Application) -> None:
    run = claimed(request_run(sort.id))
    cancel(run)
    report(run)
    assert stop_runs([run.id]) == 0
    assert states(run) == ("done", "succeeded")


def test_another_run_can_be_requested_after_a_cancelled_one(sort: Application) -> None:
    run = request_run(sort.id)
    cancel(run)
    end_cancelled_runs()
    assert request_run(sort.id).id != run.id


def test_a_failed_attempt_of_a_cancelled_run_is_the_last(sort: Application) -> None:
    run = claimed(request_run(sort.id))
    cancel(run)
    record_failure(run.id, at_s=530.0, reason="its copy died")
    assert end_cancelled_runs() == 1
    assert states(run) == ("cancelled", "cancelled")


@pytest.mark.django_db(transaction=True)
def test_a_concurrent_cancellation_and_report_end_the_run_once(sort: Application) -> None:
    run = claimed(request_run(sort.id))
    cancel(run)
    is_reporting = iter([True, False])

    def act() -> None:
        if next(is_reporting):
            report(run)
        else:
            stop_runs([run.id])

    at_once(2, act)
    assert states(run) in {("done", "succeeded"), ("cancelled", "cancelled")}
    assert events(run).count("operation.finished") == 1
