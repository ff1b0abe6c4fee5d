"""Migrations: requests, refusals and cancellation."""

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from django.db import transaction

from apps.execution.core.migration import MigrationOutcome, MigrationReport
from apps.execution.models import Launch, Migration
from apps.execution.services.launches import request_launches
from apps.execution.services.migrations import (
    AcceptedMigration,
    MigrationRefusal,
    cancel_migrations,
    request_migrations,
)
from apps.inventory.models import Change, Server, ServerState
from apps.operations.models import Event
from apps.scheduling.models import Allocation
from apps.scheduling.selectors import read_copy
from apps.scheduling.services import commit
from apps.workloads import services as workloads
from apps.workloads.models import Job
from tests.execution.migration_world import (
    MOVED_S,
    ask,
    broken,
    cluster,
    end,
    holds,
    move,
    moving,
    plane,
    report,
    running,
    server,
    stand,
)
from tests.races import at_once, in_background, wait_for_a_waiter
from tests.scheduling.world import ME, claimed, proposal, used
from tests.scheduling.world import at_once as together

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _cluster(db: None) -> None:
    cluster()


# ---- requests ----


def test_a_migration_reserves_as_many_units_as_the_job_holds() -> None:
    job = running([0, 1])
    (answer,) = request_migrations([move(job, "a", "b")])
    assert isinstance(answer, AcceptedMigration)
    migration = Migration.objects.get(id=answer.migration_id)
    assert (migration.state, migration.units, migration.requested_s) == ("requested", 2, 7200.0)
    assert (migration.from_server_id, migration.to_server_id) == (server("a"), server("b"))
    source, target = Allocation.objects.order_by("id")
    assert (migration.source_allocation_id, migration.target_allocation_id) == (
        source.id,
        target.id,
    )
    assert (target.moved_from, target.moved_s, target.decision) == (
        source.id,
        None,
        source.decision,
    )
    assert used("a") == used("b") != used("c")
    assert holds(job.id) == [("a", 2), ("b", 2)]
    assert broken() == []


def test_a_migration_appears_in_the_change_log_and_the_events() -> None:
    job = running([0, 1])
    migration = moving(job, "a", "b")
    change = Change.objects.order_by("-seq")[0]
    target = Allocation.objects.get(id=migration.target_allocation_id)
    assert (change.kind, change.allocation_id, change.unit_ids) == (
        "claim",
        target.id,
        target.unit_ids,
    )
    assert change.caused == target.caused
    event = Event.objects.get(kind="job.moving")
    assert (event.subject, event.request_id) == (str(job.id), job.correlation_id)
    assert event.data["to_server"] == server("b")


def test_the_predicted_time_is_memory_over_half_the_slower_network() -> None:
    job = running([0, 1])
    Server.objects.filter(name="b").update(network_bps=5 * 10**8)
    (answer,) = request_migrations([move(job, "a", "b")])
    # two of four units of 16 GB
    assert isinstance(answer, AcceptedMigration)
    assert answer.predicted_s == pytest.approx(8 * 8e9 / 2.5e8)


def test_the_reservation_has_the_requested_resources() -> None:
    job = running([0, 1])
    Job.objects.filter(id=job.id).update(unit_memory_bytes=10**9)
    migration = moving(job, "a", "b")
    target = Allocation.objects.get(id=migration.target_allocation_id)
    assert (target.memory_bytes, target.network_bps) == (2 * 10**9, 2 * 10**9 // 4)


def refused_of(job: Job) -> dict[str, Any]:
    good = move(job, "a", "b")
    other = running([4])
    return {
        "allocation_not_held": replace(good, allocation_id=10**9),
        "same_server": replace(good, to_server_id=server("a")),
        "server_closed": replace(good, to_server_id=10**9),
        "job_not_running": replace(good, job_id=claimed().id),
        "of another": replace(good, allocation_id=stand(other, "b")),
    }


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("allocation_not_held", "allocation_not_held"),
        ("of another", "allocation_not_held"),
        ("same_server", "same_server"),
        ("server_closed", "server_closed"),
        ("job_not_running", "job_not_running"),
    ],
)
def test_an_impossible_migration_is_refused_with_a_reason(case: str, code: str) -> None:
    job = running([0, 1])
    wish = refused_of(job)[case]
    before = Change.objects.count()
    assert ask(wish) == [MigrationRefusal(code)]
    assert (Change.objects.count(), Migration.objects.count()) == (before, 0)


def test_a_server_with_too_few_free_units_is_refused() -> None:
    job = running([0, 1])
    running([4, 5, 6])
    assert ask(move(job, "a", "b")) == [MigrationRefusal.UNITS_SHORT]


def test_a_server_with_too_little_memory_is_refused() -> None:
    job = running([0, 1])
    Job.objects.filter(id=job.id).update(unit_memory_bytes=9 * 10**9)
    assert ask(move(job, "a", "b")) == [MigrationRefusal.CAPACITY_SHORT]
    assert used("b") == [0, 0, 0, 0]


def test_migrations_of_one_request_share_the_free_units() -> None:
    jobs = [running([0, 1]), running([2])]
    Job.objects.update(unit_memory_bytes=6 * 10**9)
    answers = ask(*(move(job, "a", "b") for job in jobs))
    assert answers == [Migration.objects.get().id, MigrationRefusal.CAPACITY_SHORT]
    assert used("b")[:2] == [2, 12 * 10**9]


@pytest.mark.parametrize("state", [ServerState.DRAINING, ServerState.DOWN, ServerState.CORDONED])
def test_a_server_that_takes_no_new_work_is_refused(state: str) -> None:
    job = running([0, 1])
    Server.objects.filter(name="b").update(state=state)
    assert ask(move(job, "a", "b")) == [MigrationRefusal.SERVER_CLOSED]


def test_a_job_to_be_cancelled_does_not_migrate() -> None:
    job = running([0, 1])
    workloads.cancel_jobs([job.id])
    assert ask(move(job, "a", "b")) == [MigrationRefusal.JOB_NOT_RUNNING]


@pytest.mark.django_db(transaction=True)
def test_a_migration_waits_for_the_transaction_that_stops_the_job() -> None:
    job = running([0, 1])
    wish, found = move(job, "a", "b"), list[object]()
    with ExitStack() as acting, transaction.atomic():
        Launch.objects.filter(job=job).update(cancel_requested=True)
        acting.enter_context(in_background(lambda: found.extend(ask(wish))))
        wait_for_a_waiter()
    assert found == [MigrationRefusal.JOB_NOT_RUNNING]


def test_only_one_part_of_a_job_migrates_at_a_time() -> None:
    job = running([0, 4])
    first, second = move(job, "a", "c"), move(job, "b", "c")
    migration, refusal = ask(first, second)
    assert (refusal, Migration.objects.get().id) == (MigrationRefusal.JOB_IS_MOVING, migration)
    assert ask(second) == [MigrationRefusal.JOB_IS_MOVING]


def test_reserved_units_cannot_migrate() -> None:
    job = running([0, 1])
    moving(job, "a", "b")
    Migration.objects.update(state="failed")  # leaves the reservation behind
    assert ask(move(job, "b", "c")) == [MigrationRefusal.ALLOCATION_NOT_HELD]


def test_earlier_requests_win() -> None:
    jobs = [running([0, 1]), running([2]), running([4, 5])]
    answers = ask(move(jobs[2], "b", "c"), move(jobs[0], "a", "c"), move(jobs[1], "a", "c"))
    assert answers[2] == MigrationRefusal.UNITS_SHORT
    assert Migration.objects.count() == 2
    assert used("c")[0] == 4
    assert broken() == []


def test_migrations_cost_the_same_statements_whatever_their_number(
    django_assert_max_num_queries: Any,
) -> None:
    jobs = [running([i]) for i in range(4)]
    wishes = [move(job, "a", "b") for job in jobs]
    with django_assert_max_num_queries(24):
        answers = request_migrations(wishes)
    assert all(isinstance(answer, AcceptedMigration) for answer in answers)


def test_no_requests_change_nothing() -> None:
    assert request_migrations([]) == []


# ---- cancellation ----


def test_an_unclaimed_migration_is_cancelled() -> None:
    job = running([0, 1])
    migration = moving(job, "a", "b")
    assert cancel_migrations([migration.id]) == {migration.id}
    migration.refresh_from_db()
    assert (migration.state, migration.message) == ("cancelled", "cancelled before it started")
    assert holds(job.id) == [("a", 2)]
    assert plane().claim_migrations(10) == []
    assert broken() == []


def test_a_started_migration_cannot_be_cancelled() -> None:
    job = running([0, 1])
    migration = moving(job, "a", "b")
    report(migration, "started")
    assert cancel_migrations([migration.id]) == set()
    report(migration, "done")
    assert (migration.state, holds(job.id)) == ("done", [("b", 2)])


def test_a_claimed_migration_cannot_be_cancelled() -> None:
    job = running([0, 1])
    migration = moving(job, "a", "b")
    plane().claim_migrations(10)
    assert cancel_migrations([migration.id]) == set()
    migration.refresh_from_db()
    assert (migration.state, migration.cancel_requested) == ("requested", True)
    reports = [
        MigrationReport(migration.id, MOVED_S, MigrationOutcome(x)) for x in ("started", "done")
    ]
    plane().report_migrations(reports)
    assert holds(job.id) == [("b", 2)]


def test_a_migration_cancelled_while_running_is_not_restarted() -> None:
    job = running([0, 1])
    migration = moving(job, "a", "b")
    report(migration, "started")
    cancel_migrations([migration.id])
    Migration.objects.update(claimed_until="2020-01-01T00:00:00Z")
    assert plane("emulator-2").claim_migrations(10) == []
    migration.refresh_from_db()
    assert (migration.state, holds(job.id)) == ("cancelled", [("a", 2)])


# ---- concurrency ----


@pytest.mark.django_db(transaction=True)
def test_one_of_two_concurrent_migrations_to_the_same_units_wins() -> None:
    jobs = [running([0, 1, 2]), running([4, 5])]
    wishes = iter([move(jobs[0], "a", "c"), move(jobs[1], "b", "c")])
    answers = at_once(2, lambda: ask(next(wishes))[0])
    assert sorted(isinstance(answer, MigrationRefusal) for answer in answers) == [False, True]
    assert MigrationRefusal.UNITS_SHORT in answers
    assert broken() == []


@pytest.mark.django_db(transaction=True)
def test_one_of_two_concurrent_migrations_of_a_job_wins() -> None:
    job = running([0, 1])
    wishes = iter([move(job, "a", "b"), move(job, "a", "c")])
    answers = at_once(2, lambda: ask(next(wishes))[0])
    assert MigrationRefusal.JOB_IS_MOVING in answers
    assert Migration.objects.count() == 1
    assert broken() == []


@pytest.mark.django_db(transaction=True)
def test_a_concurrent_migration_or_commit_for_the_same_units_wins() -> None:
    job, other = running([0, 1, 2]), claimed()
    offer = proposal(other, read_copy().topology, [4, 5])
    wish = move(job, "a", "b")
    assert together(lambda: ask(wish), lambda: commit([offer], agent=ME)) == []
    holders = {row.job_id for row in Allocation.objects.filter(server_id=server("b"))}
    assert len(holders) == 1
    assert used("b")[0] in {2, 3}
    request_launches("emulated", limit=10)
    assert broken() == []


@pytest.mark.django_db(transaction=True)
def test_a_job_that_ends_during_a_migration_request_leaves_nothing_behind() -> None:
    job = running([0, 1])
    wish = move(job, "a", "b")
    assert together(lambda: ask(wish), lambda: end(job)) == []
    assert holds(job.id) == []
    assert not Migration.objects.filter(state__in=["requested", "running"]).exists()
    assert broken() == []


@pytest.mark.django_db(transaction=True)
def test_a_concurrent_end_and_completion_leave_nothing_behind() -> None:
    job = running([0, 1])
    migration = moving(job, "a", "b")
    report(migration, "started")
    assert together(lambda: report(migration, "done"), lambda: end(job)) == []
    assert holds(job.id) == []
    assert broken() == []
