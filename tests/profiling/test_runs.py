"""Profiling runs: one open per application, stored once, failed after the last attempt."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import transaction
from django.utils import timezone

from apps.inventory.models import ServerState
from apps.operations.models import Event
from apps.profiling.core.measurements import MeasuredCell
from apps.profiling.core.plan import PlatformShape
from apps.profiling.models import Measurement, ProfilingRun
from apps.profiling.selectors import measurements_of, platform_shapes
from apps.profiling.services import (
    MAX_ATTEMPTS,
    fail_jobs,
    give_up_runs,
    record_measurements,
    request_runs,
)
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Application
from tests import factories
from tests.races import at_once

pytestmark = pytest.mark.django_db

CELLS = [
    MeasuredCell("base_rate", "metric", 5e6, 1e5, 8),
    MeasuredCell("scale_up", "8", 6.5, 0.125, 8),
]


def cluster_of_two() -> None:
    """A cluster with servers of two platforms."""
    best, other = factories.platform("best", cores=8), factories.platform("other", cores=2)
    factories.server(of=best)
    factories.server(of=other)


def record(run: ProfilingRun, at_s: float = 3060.0) -> Application | None:
    with transaction.atomic():
        return record_measurements(run.id, at_s=at_s, cells=CELLS)


def request(*applications: Application) -> int:
    with transaction.atomic():
        return request_runs([row.id for row in applications])


def test_a_run_has_its_plan_seed_and_cluster_time() -> None:
    factories.cluster(seen_cluster_s=500.0)
    cluster_of_two()
    about = factories.application(kind="batch")
    assert request(about) == 1
    run = ProfilingRun.objects.get()
    assert (run.application_id, run.state, run.requested_s) == (about.id, "queued", 500.0)
    assert [r["platform"] for r in run.plan["runs"]] == ["best", "best", "other"]
    assert 0 < run.seed < 2**62


def test_an_open_run_prevents_another() -> None:
    cluster_of_two()
    queued, running = factories.application(), factories.application()
    factories.profiling_run(queued)
    factories.profiling_run(running, state="running")
    assert request(queued, running, factories.application()) == 1
    assert ProfilingRun.objects.count() == 3


@pytest.mark.parametrize("state", ["done", "failed"])
def test_the_next_run_draws_other_columns(state: str) -> None:
    cluster_of_two()
    about = factories.application()
    earlier = factories.profiling_run(about, state=state)
    assert request(about) == 1
    assert ProfilingRun.objects.get(state="queued").seed != earlier.seed


def test_refuses_a_cluster_without_servers() -> None:
    with pytest.raises(ValueError, match="cluster that has servers"):
        request(factories.application())


@pytest.mark.django_db(transaction=True)
def test_concurrent_agents_share_one_run() -> None:
    cluster_of_two()
    about = factories.application()
    assert sorted(at_once(4, lambda: request(about))) == [0, 0, 0, 1]
    assert ProfilingRun.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_concurrent_copies_of_a_report_are_stored_once() -> None:
    run = factories.profiling_run(factories.application(), state="running")
    assert at_once(3, lambda: record(run)).count(None) == 2
    assert Measurement.objects.count() == len(CELLS)


def test_measurements_are_stored_exactly() -> None:
    about = factories.application()
    run = factories.profiling_run(about, state="running", claimed_until=timezone.now())
    assert record(run) == about
    first, second = measurements_of(about.id)
    assert (first.matrix, first.column, first.value) == ("base_rate", "metric", 5e6)
    assert (second.standard_error, second.samples, second.run_id) == (0.125, 8, run.id)
    assert {(m.cluster_s, m.source) for m in (first, second)} == {(3060.0, "profiling")}
    run.refresh_from_db()
    assert (run.state, run.finished_s, run.claimed_until) == ("done", 3060.0, None)


def test_a_repeated_report_is_stored_once() -> None:
    about = factories.application()
    run = factories.profiling_run(about, state="running")
    assert record(run) == about
    assert record(run, at_s=9999.0) is None
    assert Measurement.objects.count() == len(CELLS)
    run.refresh_from_db()
    assert run.finished_s == 3060.0


def test_a_report_of_a_deleted_run_is_ignored() -> None:
    assert record_measurements(uuid4(), at_s=1.0, cells=CELLS) is None
    assert not Measurement.objects.exists()


def test_a_run_given_up_too_early_may_still_report() -> None:
    about = factories.application()
    assert record(factories.profiling_run(about, state="failed")) == about


def overdue(attempts: int, *, seconds: float = 1.0) -> ProfilingRun:
    """A run whose last lease expired ``ago``."""
    return factories.profiling_run(
        factories.application(),
        state="running",
        attempts=attempts,
        claimed_until=timezone.now() - timedelta(seconds=seconds),
    )


def test_a_run_claimed_too_often_fails_with_the_jobs_that_wait_for_it() -> None:
    factories.cluster(seen_cluster_s=8000.0)
    run = overdue(MAX_ATTEMPTS)
    waiting = factories.job(application=run.application, state="profiling")
    running = factories.job(application=run.application, state="running")
    other = factories.job(state="profiling")
    assert give_up_runs() == 1
    run.refresh_from_db()
    assert (run.state, run.finished_s, run.claimed_until) == ("failed", 8000.0, None)
    assert run.message == "no backend finished the run in 5 attempts"
    waiting.refresh_from_db()
    assert (waiting.state, waiting.reason_code) == ("failed", "ProfilingFailed")
    assert (waiting.reason_message, waiting.finished_s) == (run.message, 8000.0)
    running.refresh_from_db()
    other.refresh_from_db()
    assert (running.state, other.state) == ("running", "profiling")
    assert Event.objects.get(kind="job.failed").subject == str(waiting.id)


@pytest.mark.parametrize(("attempts", "seconds"), [(MAX_ATTEMPTS - 1, 1.0), (MAX_ATTEMPTS, -60.0)])
def test_a_run_that_may_still_end_is_not_given_up(attempts: int, seconds: float) -> None:
    run = overdue(attempts, seconds=seconds)
    assert give_up_runs() == 0
    run.refresh_from_db()
    assert run.state == "running"


def test_giving_up_twice_records_one_event() -> None:
    factories.job(application=overdue(MAX_ATTEMPTS).application, state="profiling")
    assert (give_up_runs(), give_up_runs()) == (1, 0)
    assert Event.objects.filter(kind="job.failed").count() == 1


def test_only_jobs_that_wait_for_the_profile_fail() -> None:
    about = factories.application()
    queued = factories.job(application=about, state="queued")
    factories.job(application=about, state="profiling")
    assert fail_jobs(about.id, reason=Reason.UNCLASSIFIABLE, message="why") == 1
    queued.refresh_from_db()
    assert queued.state == "queued"


def test_the_highest_end_platform_is_always_included() -> None:
    best = factories.platform("best", cores=32)
    empty = factories.platform("empty", cores=4)
    used = factories.platform("used", cores=2)
    factories.server(of=best, state=ServerState.DOWN)
    factories.server(of=empty, state=ServerState.DOWN)
    factories.server(of=used)
    factories.server(of=used, state=ServerState.DRAINING)
    assert platform_shapes() == [PlatformShape("best", 0, 32), PlatformShape("used", 2, 2)]
