"""The emulator with the database: jobs that migrate, end and are cancelled, and crashes."""

from collections.abc import Callable, Iterator
from threading import Event
from uuid import UUID

import numpy as np
import pytest
from django.db import transaction
from django.utils import timezone

from apps.execution.backends.emulated.emulator import Emulator
from apps.execution.core.migration import MigrationOutcome, MigrationReport
from apps.execution.core.port import EndReport
from apps.execution.models import Launch, Migration
from apps.execution.services import recovery as services
from apps.execution.services.migration_reports import OPEN, end_stranded_migrations
from apps.execution.services.migrations import (
    AcceptedMigration,
    MigrationRequest,
    cancel_migrations,
    request_migrations,
)
from apps.execution.services.recovery import sweep
from apps.inventory.models import ResourceUnit
from apps.scheduling.models import Allocation
from apps.scheduling.selectors import IN_USE, read_copy
from apps.scheduling.services import commit
from apps.workloads import services as workloads
from apps.workloads.models import Job
from tests import factories
from tests.execution.emulated_plane import ALWAYS
from tests.execution.migration_world import (
    HOOKS,
    SteadyPlane,
    broken,
    cluster,
    holding,
    holds,
    moving,
    plane,
    server,
    stand,
)
from tests.races import wait_for_a_waiter
from tests.scheduling.world import ME, at_once, claimed, proposal

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _cluster(db: None) -> None:
    cluster("a", "b", "c", "d")


class Site:
    """The emulator process: it can be killed and replaced."""

    def __init__(self) -> None:
        self.wall_s, self.processes = 0.0, 0
        self.one = self._begin()

    def _begin(self) -> Emulator:
        self.processes += 1
        plane = holding(SteadyPlane(worker=f"emulator-{self.processes}", hooks=HOOKS))
        return Emulator(plane, wall_s=self.wall_s, pace=ALWAYS)

    def run(self, seconds: float) -> None:
        """Tick ten times a second."""
        for _ in range(round(10 * seconds)):
            self.wall_s += 0.1
            self.one.tick(self.wall_s)

    def kill(self) -> None:
        """Kill it; the next one starts when its claims have expired."""
        Migration.objects.update(claimed_until=timezone.now())
        self.one = self._begin()

    def used(self) -> dict[int, int]:
        """Units that the emulated servers hold, by server, where they hold any."""
        units_used = zip(
            self.one._site.server_id.tolist(), self.one._engine.used_units, strict=True
        )
        return {key: int(units) for key, units in units_used if units}


def begun(site: Site, units: list[int], *, input_bytes: int = 10**15) -> Job:
    """A job that the emulator runs on these units."""
    application = factories.application()
    job = claimed(application=application, input_bytes=input_bytes)
    commit([proposal(job, read_copy().topology, units)], agent=ME)
    site.run(0.1)
    job.refresh_from_db()
    assert job.state == "running"
    return job


def test_a_job_migrates_and_its_rows_are_updated() -> None:
    site = Site()
    job = begun(site, [0, 1, 4])
    migration = moving(job, "a", "c")
    site.run(0.2)
    migration.refresh_from_db()
    assert migration.state == "running"
    assert site.used() == {server("a"): 2, server("b"): 1, server("c"): 2}
    site.run(10.0)
    migration.refresh_from_db()
    assert migration.state == "done"
    assert site.used() == {server("b"): 1, server("c"): 2}
    assert holds(job.id) == [("b", 1), ("c", 2)]
    # both servers have 1 Gbit/s: the actual use is below the reservation
    assert 1.0 <= (migration.ended_s or 0.0) - (migration.started_s or 0.0) < migration.predicted_s
    assert broken() == []


def test_a_migration_is_restarted_after_its_process_was_killed() -> None:
    site = Site()
    job = begun(site, [0, 1])
    migration = moving(job, "a", "b")
    site.run(0.1)
    first_s = Migration.objects.get().started_s
    site.kill()
    assert site.used() == {server("a"): 2}
    site.run(0.1)
    assert site.used() == {server("a"): 2, server("b"): 2}
    assert broken() == []
    site.run(10.0)
    migration.refresh_from_db()
    assert (migration.state, migration.started_s) == ("done", first_s)
    assert site.used() == {server("b"): 2}
    assert holds(job.id) == [("b", 2)]
    assert broken() == []


def test_a_job_resumes_on_its_new_server_after_a_kill() -> None:
    site = Site()
    moving(begun(site, [0, 1]), "a", "b")
    site.run(10.0)
    site.kill()
    assert site.used() == {server("b"): 2}
    site.run(0.1)
    assert broken() == []


def test_a_process_that_waits_for_a_lease_does_not_migrate_twice() -> None:
    site = Site()
    migration = moving(begun(site, [0, 1]), "a", "b")
    site.run(0.1)
    claimed_until = Migration.objects.get(id=migration.id).claimed_until
    site.kill()
    Migration.objects.update(claimed_until=claimed_until)
    site.run(0.3)
    assert site.used() == {server("a"): 2}


def test_a_job_cancelled_during_a_migration_leaves_no_allocation() -> None:
    site = Site()
    job = begun(site, [0, 1])
    migration = moving(job, "a", "b")
    site.run(0.1)
    workloads.cancel_jobs([job.id])
    site.run(0.2)
    migration.refresh_from_db()
    job.refresh_from_db()
    assert (job.state, migration.state, site.used()) == ("cancelled", "cancelled", {})
    assert not ResourceUnit.objects.exclude(allocation_id=None).exists()
    assert broken() == []


def test_a_migration_can_use_the_units_of_a_cancelled_job() -> None:
    site = Site()
    other, job = begun(site, [4, 5, 6, 7]), begun(site, [0, 1])
    workloads.cancel_jobs([other.id])
    site.run(0.2)
    moving(job, "a", "b")
    site.run(10.0)
    assert site.used() == {server("b"): 2}
    assert broken() == []


def stands() -> Iterator[Allocation]:
    """Allocations of running jobs that may be migrated."""
    live = Allocation.objects.filter(IN_USE, released_seq=None, job__state="running")
    return live.order_by("id").iterator()


class Day:
    """Jobs that are submitted, migrated, ended and cancelled at random."""

    def __init__(self, site: Site) -> None:
        self.site, self.rng, self.made = site, np.random.default_rng(5), list[int]()
        self.servers = [server(name) for name in "abcd"]

    def go_on(self) -> None:
        """Perform every kind of change once."""
        rng = self.rng
        free = np.flatnonzero(read_copy().snapshot().unit_free)
        if free.size >= 6:
            units = rng.choice(free, size=int(rng.integers(1, 4)), replace=False).tolist()
            begun(self.site, units, input_bytes=int(rng.choice([10**9, 10**15])))
        wishes = [
            MigrationRequest(row.job_id, row.id, int(rng.choice(self.servers)), "plan")
            for row in stands()
            if rng.random() < 0.5
        ]
        answers = [x for x in request_migrations(wishes) if isinstance(x, AcceptedMigration)]
        self.made += [answer.migration_id for answer in answers]
        if rng.random() < 0.2:
            cancel_migrations(self.made[-2:])
        self.site.run(float(rng.choice([0.1, 0.3, 1.0])))
        if rng.random() < 0.2:
            running = Job.objects.filter(state="running").order_by("id")
            workloads.cancel_jobs([job.id for job in running[:1]])
        sweep()


def test_a_day_of_random_events_keeps_the_tables_consistent() -> None:
    site = Site()
    day = Day(site)
    for _ in range(4):
        for _ in range(6):
            day.go_on()
        assert broken() == []
        site.kill()
        assert broken() == []
    site.run(10.0)
    assert broken() == []
    assert set(Migration.objects.values_list("state", flat=True)) == {"done", "cancelled"}
    assert Migration.objects.filter(state="done").count() > 10
    held = dict.fromkeys(day.servers, 0)
    for row in stands():
        held[row.server_id] += row.cores
    assert site.used() == {key: units for key, units in held.items() if units}


# ---- concurrent changes ----


def _lose(ids: list[UUID]) -> None:
    services._recover(services._Loss(lambda _: [(job, 1) for job in ids], "silent"))


def _worker(jobs: list[Job], seed: int) -> Callable[[], None]:
    """Forty random requests, reports, cancellations, ends and losses."""
    rng, servers = np.random.default_rng(seed), [server(name) for name in "abcd"]

    def ask() -> None:
        wishes = [
            MigrationRequest(row.job_id, row.id, int(rng.choice(servers)), "plan")
            for row in stands()
            if rng.random() < 0.5
        ]
        rng.shuffle(wishes)
        request_migrations(wishes)

    def report() -> None:
        orders = plane().claim_migrations(5)
        outcomes = rng.choice(["started", "done", "done", "failed"], size=len(orders))
        reports = [
            MigrationReport(order.migration, 7300.0, MigrationOutcome(outcome))
            for order, outcome in zip(orders, outcomes, strict=True)
        ]
        plane().report_migrations(reports)

    def recall() -> None:
        still = Migration.objects.filter(state__in=OPEN).order_by("id")
        cancel_migrations([row.id for row in still[:3]])

    def end() -> None:
        chosen = [jobs[i].id for i in rng.choice(len(jobs), size=2, replace=False)]
        launches = Launch.objects.filter(job__in=chosen, state="running")
        plane().report_launches({}, [EndReport(x.id, 7400.0, "finished") for x in launches])

    def lose() -> None:
        _lose([jobs[int(rng.integers(len(jobs)))].id])

    def work() -> None:
        for act in rng.choice(6, size=40, p=[0.35, 0.35, 0.1, 0.05, 0.05, 0.1]):
            (ask, report, recall, end, lose, end_stranded_migrations)[act]()

    return work


@pytest.mark.django_db(transaction=True)
def test_concurrent_events_keep_the_tables_consistent() -> None:
    site = Site()
    jobs = [begun(site, [i]) for i in range(10)]
    assert at_once(*[_worker(jobs, seed) for seed in range(4)]) == []
    assert Migration.objects.filter(state="done").exists()
    assert broken() == []


@pytest.mark.django_db(transaction=True)
def test_a_job_lost_during_a_migration_request_causes_no_deadlock() -> None:
    job = begun(Site(), [0, 1])
    request, is_requested = MigrationRequest(job.id, stand(job, "a"), server("b"), "plan"), Event()

    def ask() -> None:
        with transaction.atomic():
            request_migrations([request])
            is_requested.set()
            wait_for_a_waiter()  # which holds the launch that the migration refers to

    def lose() -> None:
        is_requested.wait(20.0)
        _lose([job.id])

    assert at_once(ask, lose) == []
    assert (holds(job.id), Migration.objects.get().state) == ([], "failed")
    assert broken() == []
