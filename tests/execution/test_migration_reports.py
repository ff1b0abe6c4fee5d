"""Migrations: claims, reports of backends, and ends with their jobs."""

from typing import Any

import pytest

from apps.execution.core.migration import MigrationOutcome, MigrationReport
from apps.execution.models import Launch, Migration
from apps.execution.services.migration_reports import end_stranded_migrations
from apps.execution.services.migrations import MigrationRequest
from apps.execution.services.recovery import sweep
from apps.inventory.models import Change, ResourceUnit, Server, ServerState
from apps.operations.models import Event
from apps.scheduling.models import Allocation
from tests.execution.migration_world import (
    MOVED_S,
    ask,
    broken,
    cluster,
    end,
    holds,
    launch_of,
    moving,
    plane,
    report,
    running,
    server,
)
from tests.scheduling.world import used

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _cluster(db: None) -> None:
    cluster()


# ---- reports of backends ----


def test_a_completed_migration_releases_the_source_units() -> None:
    job = running([0, 1])
    migration = moving(job, "a", "b")
    report(migration, "started", at_s=7210.0)
    assert (migration.state, migration.started_s, holds(job.id)) == (
        "running",
        7210.0,
        [("a", 2), ("b", 2)],
    )
    report(migration, "done")
    assert (migration.state, migration.ended_s, migration.started_s) == ("done", MOVED_S, 7210.0)
    assert holds(job.id) == [("b", 2)]
    target = Allocation.objects.get(id=migration.target_allocation_id)
    assert (target.moved_s, used("a")) == (MOVED_S, [0, 0, 0, 0])
    assert Event.objects.filter(kind="job.moved").count() == 1
    assert broken() == []


def test_the_launch_has_the_new_server() -> None:
    job = running([0, 1, 4])
    report(moving(job, "a", "c"), "started", "done")
    (order,) = plane().live_launches()
    assert order.parts == ((server("b"), 1), (server("c"), 2))


def test_merged_parts_can_migrate_separately() -> None:
    job = running([0, 1, 4])
    report(moving(job, "a", "b"), "started", "done")
    assert plane().live_launches()[0].parts == ((server("b"), 3),)
    by_units = Allocation.objects.get(job=job, cores=1, released_seq=None)
    (migration,) = ask(MigrationRequest(job.id, by_units.id, server("c"), "plan"))
    report(Migration.objects.get(id=migration), "started", "done")
    assert plane().live_launches()[0].parts == ((server("b"), 2), (server("c"), 1))
    assert broken() == []


def test_a_job_may_migrate_again_and_back() -> None:
    job = running([0, 1])
    for on, to in (("a", "b"), ("b", "c"), ("c", "a")):
        report(moving(job, on, to), "started", "done")
    assert holds(job.id) == [("a", 2)]
    assert broken() == []


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
def test_a_failed_migration_releases_the_reserved_units(outcome: str) -> None:
    job = running([0, 1])
    migration = moving(job, "a", "b")
    report(migration, "started", outcome)
    assert (migration.state, migration.message) == (outcome, f"it {outcome}")
    assert (holds(job.id), used("b")) == ([("a", 2)], [0, 0, 0, 0])
    assert plane().live_launches()[0].parts == ((server("a"), 2),)
    assert Event.objects.filter(kind=f"job.move_{outcome}").count() == 1
    assert broken() == []


def test_reports_may_be_repeated_and_late() -> None:
    job = running([0, 1])
    migration = moving(job, "a", "b")
    report(migration, "started", "done")
    counts_and_order = (Change.objects.count(), Event.objects.count(), launch_of(job).order)
    report(migration, "started", "done", at_s=9000.0)
    report(migration, "failed")
    assert (migration.state, migration.ended_s) == ("done", MOVED_S)
    assert (
        Change.objects.count(),
        Event.objects.count(),
        launch_of(job).order,
    ) == counts_and_order


def test_many_reports_are_a_few_statements(django_assert_max_num_queries: Any) -> None:
    jobs = [running([i]) for i in range(4)]
    migrations = [moving(job, "a", "b") for job in jobs]
    reports = [
        MigrationReport(migration.id, MOVED_S, MigrationOutcome.DONE) for migration in migrations
    ]
    with django_assert_max_num_queries(32):
        plane().report_migrations(reports)
    assert used("a") == [0, 0, 0, 0]


# ---- claims ----


def test_a_migration_is_claimed_with_all_the_backend_needs() -> None:
    job = running([0, 1])
    migration = moving(job, "a", "b")
    (order,) = plane().claim_migrations(10)
    assert (order.migration, order.launch, order.units) == (migration.id, launch_of(job).id, 2)
    assert (order.from_server, order.to_server) == (server("a"), server("b"))


def test_another_process_claims_it_only_after_the_lease_expired() -> None:
    migration = moving(running([0]), "a", "b")
    report(migration, "started")
    assert plane("emulator-2").claim_migrations(10) == []
    Migration.objects.update(claimed_until="2020-01-01T00:00:00Z")
    assert [x.migration for x in plane("emulator-2").claim_migrations(10)] == [migration.id]


def test_migrations_in_progress_keep_their_lease_and_are_not_claimed_again() -> None:
    migration = moving(running([0]), "a", "b")
    report(migration, "started")
    Migration.objects.update(claimed_until="2020-01-01T00:00:00Z")
    assert plane().claim_migrations(10, doing=[migration.id]) == []
    assert plane("emulator-2").claim_migrations(10) == []


# ---- jobs that end during a migration ----


@pytest.mark.parametrize("outcome", ["finished", "cancelled", "failed"])
@pytest.mark.parametrize("reports", [(), ("started",)])
def test_a_job_that_ends_during_a_migration_releases_both_servers(
    outcome: str, reports: tuple[str, ...]
) -> None:
    job = running([0, 1])
    migration = moving(job, "a", "b")
    report(migration, *reports)
    end(job, outcome)
    migration.refresh_from_db()
    assert (migration.state, migration.claimed_until) == ("cancelled", None)
    assert not ResourceUnit.objects.exclude(allocation_id=None).exists()
    assert used("a") == used("b") == [0, 0, 0, 0]
    report(migration, "done")
    assert migration.state == "cancelled"
    assert broken() == []


def test_a_job_whose_source_goes_silent_during_a_migration_is_requeued() -> None:
    job = running([0, 1])
    migration = moving(job, "a", "b")
    report(migration, "started")
    Server.objects.filter(name="a").update(state=ServerState.DOWN)
    sweep()
    migration.refresh_from_db()
    job.refresh_from_db()
    assert (job.state, migration.state, holds(job.id)) == ("queued", "failed", [])
    assert broken() == []


def test_a_silent_target_server_does_not_displace_the_job() -> None:
    job = running([0, 1])
    migration = moving(job, "a", "b")
    report(migration, "started")
    Server.objects.filter(name="b").update(state=ServerState.DOWN)
    sweep()
    job.refresh_from_db()
    migration.refresh_from_db()
    assert (job.state, migration.state) == ("running", "running")


def test_an_unclaimed_migration_ends_when_its_target_closes() -> None:
    job = running([0, 1])
    migration = moving(job, "a", "b")
    assert end_stranded_migrations() == 0
    Server.objects.filter(name="b").update(state=ServerState.DRAINING)
    assert end_stranded_migrations() == 1
    migration.refresh_from_db()
    assert (migration.state, holds(job.id)) == ("cancelled", [("a", 2)])


def test_a_migration_of_an_ended_launch_is_swept() -> None:
    job = running([0, 1])
    migration = moving(job, "a", "b")
    report(migration, "started")
    Launch.objects.update(state="ended")
    sweep()
    migration.refresh_from_db()
    assert migration.state == "cancelled"
